"""Getting `esrp`: the R files of inldata 1.2.5, checked by hashes, and the folder from them."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from riesz.errors import FileFormatError, RieszError
from riesz_paper.data.esrp_build import build_esrp
from riesz_paper.data.esrp_raw import read_raw
from riesz_paper.data.library import optional

COMMIT = "f46f21eed09d771c8e2350f5656c32d48de04870"
BASE_URL = f"https://raw.githubusercontent.com/cran/inldata/{COMMIT}/data/"

SHA256 = {
    "gwl.rda": "48293eb773dafdadbd8e94b5579819c3cb76f6c3f3d438d87cc93b3a8a647922",
    "sites.rda": "886e1ba02c5a69b2f12c6d947c18b966e0fb0266b101985bf7de87627230ad57",
    "esrp.rda": "f49dea82114d779eb0f63a26c16cbc5b8f495bf6b2ba1438dad88444079a9b19",
    "inl.rda": "3ea35884a7848189ae782347e395955435789c4955ca2f105546c910a43a10a9",
    "dem.rda": "704f3e41b784f2ab868f46bcbbaafdc66593328535dbedc1b3632e86e3d57d5b",
    "streams.rda": "b1613f71684e1aa9efd68a518a42908fee6c00db1df0670f4ac78d4157828cae",
    "crs.rda": "c997e9a7b1f1abbc58c024bc3f1b1e01ccbf9326c5973379e84afa727e651845",
}


def fetch_esrp(
    out: Path, *, base_url: str = BASE_URL, hashes: Mapping[str, str] = SHA256
) -> list[str]:
    """Download, clean and write the data set; the folder `out` appears when all is done."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RieszError(f"{out} is there already: remove it, or give another folder by --out.")
    for package in ("pooch", "rdata", "pyproj"):
        optional(package)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=out.parent, prefix=f".{out.name}.", suffix=".partial"
        ) as partial:
            raw, made = Path(partial) / "raw", Path(partial) / out.name
            made.mkdir()
            for name, known in hashes.items():
                download(base_url + name, name, known, raw)
            build_esrp(read_raw(raw), made)
            names = sorted(one.name for one in made.iterdir())
            made.replace(out)
    except OSError as error:
        raise FileFormatError(f"{out} cannot be written: {error.strerror or error}.") from None
    return names


def download(url: str, name: str, known: str, folder: Path) -> None:
    """One file, whose SHA-256 must be the one that is known."""
    pooch = optional("pooch")
    try:
        pooch.retrieve(url, known_hash=f"sha256:{known}", fname=name, path=folder)
    except ValueError as error:
        found = [one for one in re.findall(r"\b[0-9a-f]{64}\b", str(error)) if one != known]
        got = found[0] if found else "another"
        raise FileFormatError(
            f"{name} came damaged from {url}: its SHA-256 is {got}, not {known}; nothing was kept. "
            "Try again later."
        ) from None
    except OSError as error:  # all that requests raises is one
        raise FileFormatError(f"{url} cannot be downloaded: {error}.") from None
