"""How long is the way from a table to maps, for somebody who writes no Python?

The commands of the walks on docs/index.md are run as they are printed there, one walk after the
other, each in an empty folder with nothing but its data. RIESZ_DATA must hold esrp. Maps are drawn,
and reports are photographed where there is Chromium.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import parser_of, save

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "index.md"
BELOW, ABOVE = "## Two walks", "## In Python"
"""Headings of the page between which the walks stand."""
WINDOW = "1080,1097"
MOST_COMMANDS = None  # of a walk; all of them
ESRP = ("levels_pre2000.csv.gz", "wells.csv", "boundary_simplified.geojson")


def commands_of(page: str) -> list[list[str]]:
    """Of each walk: the lines of a block of commands, put together where they are continued."""
    walks = page.partition(BELOW)[2].partition(ABOVE)[0]
    blocks = re.findall(r"```sh\n(.*?)```", walks, flags=re.DOTALL)
    return [
        [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]
        for block in blocks
    ]


def data_of() -> dict[str, list[Path]]:
    """The walks, in the order of the page, and their files."""
    import riesz.datasets

    folder = os.environ.get("RIESZ_DATA")
    if not folder:
        sys.exit("walks.py needs RIESZ_DATA, a folder with esrp in it: riesz data fetch esrp")
    jura = Path(riesz.datasets.__file__).parent / "jura_files" / "jura.csv"
    return {"aquifer": [Path(folder) / "esrp" / name for name in ESRP], "jura": [jura]}


def walked(name: str, commands: list[str], files: list[Path], pictures: Path) -> list[dict]:
    """One row a command; pictures of the maps are kept."""
    rows = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for file in files:
            shutil.copy(file, folder)
        for number, command in enumerate(commands, 1):
            words = shlex.split(command, comments=True)
            words[0] = str(Path(sys.executable).parent / words[0])
            start = time.perf_counter()
            run = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            seconds = time.perf_counter() - start
            if run.returncode:
                sys.exit(f"{command}\n{run.stderr}")
            print(f"{name} {number}: {seconds:.1f} s  {command}\n{run.stdout}", flush=True)
            rows.append(
                {
                    "walk": name,
                    "step": number,
                    "command": " ".join(command.split()),
                    "seconds": round(seconds, 1),
                    "told": run.stdout.splitlines(),
                }
            )
        for raster in folder.glob("*.tif"):
            draw(raster, pictures / f"{raster.stem}.png")
        if (report := folder / "run" / "report.html").exists():
            photograph(report, pictures / f"{name}-report.png")
    return rows


def photograph(page: Path, picture: Path) -> None:
    """The top of a report, as a browser shows it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print(f"no chromium: {picture} is left as it was")
        return
    # As root there is no sandbox; the page draws its map after it was loaded.
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    words += [f"--window-size={WINDOW}", "--virtual-time-budget=3000"]
    words += [f"--screenshot={picture.absolute()}", page.as_uri()]
    subprocess.run([chromium, *words], capture_output=True, check=True)


def draw(raster: Path, picture: Path) -> None:
    """All bands of a map, side by side."""
    import numpy as np
    import rasterio
    from matplotlib.figure import Figure

    with rasterio.open(raster) as file:
        bands = file.read(masked=True).filled(np.nan)
        box, names = file.bounds, file.descriptions
    figure = Figure(figsize=(4.2 * len(bands), 4.0), layout="constrained")
    for axes, band, name in zip(figure.subplots(1, len(bands)), bands, names, strict=True):
        shown = axes.imshow(band, extent=(box.left, box.right, box.bottom, box.top))
        figure.colorbar(shown, ax=axes, shrink=0.7)
        axes.set_title(name)
        axes.set_axis_off()
    figure.savefig(picture, dpi=80)


SMOKE = {"MOST_COMMANDS": 1}


def main() -> None:
    parser = parser_of(globals(), "results/walks")
    parser.add_argument("--photograph", nargs=2, type=Path, metavar=("PAGE", "PICTURE"))
    options = parser.parse_args()
    if options.photograph:
        page, picture = options.photograph
        photograph(page.absolute(), picture)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    walks = zip(data_of().items(), commands_of(PAGE.read_text()), strict=True)
    for (name, files), commands in walks:
        rows += walked(name, commands[:MOST_COMMANDS], files, options.out)
    totals = {
        f"seconds, {name}": round(sum(row["seconds"] for row in rows if row["walk"] == name), 1)
        for name in data_of()
    }
    save(options.out / "results.json", {}, 0, rows, totals)


if __name__ == "__main__":
    main()
