"""Parts of the book's builder that need the extra `docs`; `make docs` installs it."""

import textwrap

import pytest


def test_formulas_become_mathml_and_the_rest_stays():
    pytest.importorskip("latex2mathml", reason="needs the extra docs: make docs")
    from book.maths import with_mathml

    inline = '<p>x <span class="arithmatex">\\(a &lt; b\\)</span></p>'
    display = '<div class="arithmatex">\\[r^2\\]</div>'
    found = with_mathml(inline + display)
    assert found.startswith("<p>x <math")
    assert "<mo>&#x0003C;</mo>" in found
    assert '<div class="formula"><math' in found
    assert "arithmatex" not in found


def test_modules_show_the_fields_that_they_are_built_from(tmp_path):
    griffe = pytest.importorskip("griffe", reason="needs the extra docs: make docs")
    from book.module_signatures import ModuleSignatures

    (tmp_path / "toy.py").write_text(
        textwrap.dedent(
            """
            import equinox as eqx

            class AbstractNoise(eqx.Module):
                sd: eqx.AbstractVar[float]

            class Noise(AbstractNoise):
                sd: float
                tails: float = 4.0
                kept: int = eqx.field(static=True, default=3)

                @property
                def variance(self) -> float:
                    return self.sd**2

            class Own(eqx.Module):
                a: float

                def __init__(self, b):
                    self.a = b

            class Plain:
                c: float

            class Settings:
                def __init__(self, **settings): ...

            class Engine(Settings):
                name: ClassVar[str] = "engine"
                steps: int = 7
            """
        )
    )
    extensions = griffe.load_extensions(ModuleSignatures)
    toy = griffe.load("toy", search_paths=[tmp_path], extensions=extensions)
    shown = [(p.name, p.default and str(p.default)) for p in toy["Noise"].parameters]
    assert shown[-3:] == [("sd", None), ("tails", "4.0"), ("kept", "3")]
    assert [p.name for p in toy["Own"].parameters][-1] == "b"
    assert "__init__" not in toy["Plain"].members
    assert [(p.name, str(p.default)) for p in toy["Engine"].parameters][1:] == [("steps", "7")]


def test_a_method_that_takes_the_options_of_a_command_shows_them(tmp_path):
    griffe = pytest.importorskip("griffe", reason="needs the extra docs: make docs")
    from book.module_signatures import ModuleSignatures

    (tmp_path / "toys.py").write_text(
        textwrap.dedent(
            """
            from dataclasses import KW_ONLY, dataclass
            from typing import Annotated

            from riesz.case.options import Option, takes

            Seed = Annotated[int, Option("seed")]

            @dataclass(frozen=True)
            class Drawing:
                out: Annotated[str, Option("The file.")]
                _: KW_ONLY
                seed: Seed = 0

                @property
                def suffix(self) -> str: ...

            class Toy:
                @takes(Drawing)
                def draw(self, options: Drawing) -> str: ...
            """
        )
    )
    extensions = griffe.load_extensions(ModuleSignatures)
    toys = griffe.load("toys", search_paths=[tmp_path], extensions=extensions)
    shown = [
        (one.name, str(one.annotation), one.default and str(one.default), one.kind.value)
        for one in toys["Toy.draw"].parameters
    ]
    assert shown[1:] == [
        ("out", "str", None, "positional or keyword"),
        ("seed", "Seed", "0", "keyword-only"),
    ]
