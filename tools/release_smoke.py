"""What a wheel gives by itself: the command, the demo, and a window that answers.

It is run by the Python of an environment that holds the wheel and what that needs, and nothing
else; so it imports the standard library alone.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

MOST_BYTES = 2_000_000
TABLE = "x,y,head\n" + "".join(
    f"{100 * (i % 5)},{100 * (i // 5)},{40 + 7 * i % 11 / 3:.2f}\n" for i in range(25)
)
WAIT = 60


def main(words: Sequence[str]) -> None:
    wheel, folder = Path(words[0]), Path(words[1])
    folder.mkdir(parents=True)
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{wheel} has {size:,} bytes, and {MOST_BYTES:,} are enough.")
    command = str(Path(sys.executable).with_name("riesz"))
    subprocess.run([command, "--version"], check=True)
    subprocess.run([command, "demo", "--out", str(folder / "demo")], check=True)
    for name in ("table.md", "report.html"):
        if not (folder / "demo" / name).is_file():
            raise SystemExit(f"the demo has written no {name}.")
    look_at_window(command, folder)
    sys.stdout.write(f"{wheel.name}, {size:,} bytes: demo and window work\n")


def look_at_window(command: str, folder: Path) -> None:
    """A table is dropped, its columns are guessed, a problem is stated; Ctrl-C closes it."""
    with subprocess.Popen(
        [command, "app", str(folder), "--no-browser"], stdout=subprocess.PIPE, text=True
    ) as window:
        assert window.stdout is not None
        try:
            address, _, token = window.stdout.readline().split()[-1].partition("/?token=")
            page = ask(f"{address}/", token).decode()
            if "<title>" not in page:
                raise SystemExit("the window shows no page.")
            ask(f"{address}/api/files/heads.csv", token, TABLE.encode(), "PUT")
            begun = json.loads(ask(f"{address}/api/tables/heads.csv/start", token, b"{}", "POST"))
            if begun["columns"]["value"] != "head" or "[equation]" not in begun["text"]:
                raise SystemExit(f"the window makes nothing of a table: {begun}")
        finally:
            os.kill(window.pid, signal.SIGINT)
            try:
                window.wait(WAIT)
            finally:
                window.kill()


def ask(url: str, token: str, body: bytes | None = None, method: str = "GET") -> bytes:
    request = urllib.request.Request(url, body, {"X-Riesz-Token": token}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        raise SystemExit(f"the window refuses {url}: {error.read().decode()}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
