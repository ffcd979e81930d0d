"""CONTRIBUTING shows the tree as it is: every layer of the contract, every file where it says."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_layers_are_those_of_the_contract_in_its_order():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [
        one["layers"] for one in contracts["contracts"] if one.get("containers") == ["riesz"]
    ]
    rows = re.findall(r"^\| (`.*?`) \|", TEXT, re.M)
    shown = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert shown == [name for layer in reversed(layers) for name in layer.split(" | ")]


def test_every_file_and_name_that_it_tells_of_is_there():
    words = set(re.findall(r"`([\w./]+)`", TEXT))
    files = {word for word in words if re.search(r"/|\.(py|pyi|toml|md|txt)$", word)}
    files = {word for word in files if "NAME" not in word}
    for word in files:
        places = [ROOT / word, ROOT / "src" / "riesz" / word]
        found = any(path.exists() for path in places) or any((ROOT / "src").rglob(f"**/{word}"))
        assert found, f"CONTRIBUTING.md names {word}, which is not there"
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for word in words:
        if re.fullmatch(r"[A-Z]\w*", word):
            assert re.search(rf"^(class )?{word}\b", source, re.M), f"there is no {word}"
