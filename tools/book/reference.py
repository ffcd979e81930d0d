"""Pages of the reference: every public name, by layer, from its docstring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A page: what it is about, the packages whose public names it holds, and whole modules."""

    title: str
    about: str
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


LAYERS = {
    "mesh": Layer(
        "Meshes",
        "Shapes, polygons and point clouds become triangles; meshes are refined, tagged, and asked "
        "for their quality.",
        ("mesh", "mesher"),
        ("riesz.mesh",),
    ),
    "fem": Layer(
        "Weak forms and exact solves",
        "Terms that add up to an equation, finite-element spaces, residuals, and solutions with "
        "all their derivatives, by linear solvers.",
        ("fem",),
        ("riesz.fem", "riesz.solvers"),
    ),
    "penalty": Layer(
        "The penalty",
        "How far a function is from solving an equation, on mini-patches or exactly.",
        ("penalty",),
        ("riesz.penalty",),
    ),
    "priors": Layer(
        "Unknowns",
        "Fields and their priors. Unknown numbers and vectors have distributions of NumPyro.",
        ("priors",),
        ("riesz.priors",),
    ),
    "observe": Layer(
        "Observations", "Measured values and their noise.", ("observe",), ("riesz.observe",)
    ),
    "problem": Layer(
        "Problems and posteriors",
        "The inverse problem, what an engine returns, and what it says elsewhere.",
        ("problem", "posterior", "prediction"),
        ("riesz.prediction",),
    ),
    "engines": Layer(
        "Methods and densities",
        "From a problem to its posterior: one door, methods, and the densities that they work on.",
        ("inference", "method", "density", "amortise"),
        ("riesz.inference",),
    ),
    "diagnose": Layer(
        "Diagnosis",
        "Checks of derivatives, posteriors and whole problems, and models beside each other; "
        "`import riesz.diagnose`.",
        ("diagnose", "comparison"),
        ("riesz.diagnose",),
    ),
    "case": Layer(
        "Problem files and runs",
        "What the commands do, from Python: read a problem file, fit one or many, predict, report.",
        ("case",),
        ("riesz.case",),
    ),
    "cli": Layer(
        "Commands of your own",
        "What a package with a command for `riesz` shares with those that are there: options, "
        "JSON, precision, progress; `from riesz.cli import OutOption`.",
        modules=("riesz.cli",),
    ),
    "data": Layer(
        "Data and files",
        "Data sets, readers and writers; `import riesz.datasets`, `import riesz.io`.",
        ("io",),
        ("riesz.datasets", "riesz.io"),
    ),
    "plot": Layer("Figures", "Free functions that draw on given axes.", modules=("riesz.plot",)),
    "errors": Layer("Errors", "What is raised, and when.", ("errors",), ("riesz.errors",)),
}


def reference_page(
    layer: Layer,
    public: Mapping[str, Sequence[str]],
    exported: Mapping[str, Mapping[str, str]],
) -> str:
    """Of a layer. `public` holds names by module; `exported` those of a subpackage, by theirs."""
    parts = [f"# {layer.title}", layer.about]
    for module, names in public.items():
        if module.split(".")[1] in layer.packages:
            parts += [entry(f"{module}.{name}", f"rz.{name}") for name in names]
    for module in layer.modules:
        parts += [
            entry(path, f"{module.replace('riesz', 'rz', 1)}.{name}")
            for name, path in exported[module].items()
        ]
    return "\n\n".join(parts) + "\n"


def entry(path: str, heading: str) -> str:
    return f"::: {path}\n    options:\n      heading: {heading}\n      toc_label: {heading}"


def check_complete(public: Mapping[str, Sequence[str]]) -> None:
    """Every public name has a page."""
    paged = {package for layer in LAYERS.values() for package in layer.packages}
    missing = sorted({module.split(".")[1] for module in public} - paged)
    if missing:
        raise ValueError(f"no page of the reference holds {', '.join(missing)}: see LAYERS.")
