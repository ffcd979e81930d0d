"""What answers the page: for one person on this machine, about one folder.

It listens on 127.0.0.1. All who may ask have the token that the address holds; requests that name
another host, or come from another page, are refused. What went wrong is one line, never a
traceback.
"""

import base64
import json
import secrets
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from riesz.errors import RieszError
from riesz_app.folder import MAPS, OUTLINES, PROBLEMS, TABLES, Folder
from riesz_app.jobs import Jobs
from riesz_app.outputs import SCRIPT, comparison_of, output_file, script_of
from riesz_app.start import columns_of, describe_problem, problem_for, save_problem

HOST = "127.0.0.1"
MOST_WORDS = 2_000_000
"""Bytes of a request that is no file."""

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def serve(
    folder: Path, port: int, *, browser: bool, keep_fits: bool, told: Callable[[str], None]
) -> None:
    """Until it is interrupted."""
    if not folder.is_dir():
        raise RieszError(f"there is no folder {folder}: make it, or name another.")
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            own.bind((HOST, port))
        except OSError as error:
            raise RieszError(f"port {port} cannot be taken: {error.strerror}.") from error
        own.listen()  # who comes before the server has begun waits for it
        token, address = secrets.token_urlsafe(32), f"{HOST}:{own.getsockname()[1]}"
        url = f"http://{address}/?token={token}"
        told(f"the window is at {url}\nCtrl-C closes it")
        app = application(Folder(folder.resolve()), token, address, keep_fits=keep_fits)
        with TemporaryDirectory() as ours:
            if browser:
                webbrowser.open(door_to(url, Path(ours)).as_uri())
            uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on")).run([own])


def door_to(url: str, folder: Path) -> Path:
    """A file that leads there: words of a browser's command are seen by all users of a machine."""
    path = folder / "window.html"
    path.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={url}">')
    return path


def application(folder: Folder, token: str, address: str, *, keep_fits: bool = False) -> Starlette:
    """What answers; `address` is the host and port that requests must name."""
    jobs = Jobs(folder)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        if not keep_fits:
            await run_in_threadpool(jobs.close)

    async def page(_: Request) -> Response:
        text, script = asset("page.html"), asset("page.js")
        digest = base64.b64encode(sha256(script.encode()).digest()).decode()
        shown = Template(text).substitute(
            style=asset("page.css"), script=script, script_hash=digest
        )
        return HTMLResponse(shown)

    async def content(_: Request) -> Response:
        kinds = {"tables": (*TABLES, *MAPS), "outlines": (*OUTLINES, *MAPS), "problems": PROBLEMS}
        found = {kind: folder.names(endings) for kind, endings in kinds.items()}
        return JSONResponse(found | {"folder": str(folder.root), "runs": jobs.states()})

    async def take_file(request: Request) -> Response:
        await folder.save(request.path_params["name"], request.stream())
        return JSONResponse({})

    async def table(request: Request) -> Response:
        return await json_of(columns_of, folder, request.path_params["name"])

    async def start(request: Request) -> Response:
        answers = await words_of(request)
        return await json_of(problem_for, folder, request.path_params["name"], answers)

    async def problem(request: Request) -> Response:
        name = request.path_params["name"]
        if request.method == "PUT":
            text = (await read_body(request)).decode(errors="replace")
            return await json_of(save_problem, folder, name, text)
        return PlainTextResponse(folder.file(name).read_text(encoding="utf-8", errors="replace"))

    async def check(request: Request) -> Response:
        return await json_of(describe_problem, folder, request.path_params["name"])

    async def fit(request: Request) -> Response:
        run = request.path_params["run"]
        if request.method == "DELETE":
            return await json_of(jobs.stop, run)
        words = await words_of(request)
        return await json_of(jobs.start, str(words.get("problem")), run)

    async def output(request: Request) -> Response:
        run, name = request.path_params["run"], request.path_params["name"]
        if name == SCRIPT:
            problem = str(jobs.state(run)["problem"] or "")
            return PlainTextResponse(await run_in_threadpool(script_of, folder, run, problem))
        path = await run_in_threadpool(output_file, folder, run, name)
        return FileResponse(path, content_disposition_type="inline", filename=path.name)

    async def compare(request: Request) -> Response:
        words = await words_of(request)
        return await json_of(comparison_of, folder, [str(one) for one in words.get("runs", ())])

    routes = [
        Route("/", page),
        Route("/api/folder", content),
        Route("/api/files/{name}", take_file, methods=["PUT"]),
        Route("/api/tables/{name}", table),
        Route("/api/tables/{name}/start", start, methods=["POST"]),
        Route("/api/problems/{name}", problem, methods=["GET", "PUT"]),
        Route("/api/problems/{name}/check", check, methods=["POST"]),
        Route("/api/fits/{run}", fit, methods=["POST", "DELETE"]),
        Route("/api/compare", compare, methods=["POST"]),
        Route("/runs/{run}/{name}", output),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token, address=address)],
        exception_handlers={RieszError: refusal_of, Exception: failure_of},
        lifespan=lifespan,
    )


class Guard:
    """Refuses all that is not asked from the page itself."""

    def __init__(self, app: ASGIApp, token: str, address: str):
        self.app, self.token = app, token
        port = address.rpartition(":")[2]
        self.hosts = (address, f"localhost:{port}")
        self.origins = tuple(f"http://{host}" for host in self.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        if (reason := self.refusal(request)) is not None:
            await JSONResponse({"error": reason}, 403, HEADERS)(scope, receive, send)
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                more = ((a.lower().encode(), b.encode()) for a, b in HEADERS.items())
                message["headers"] += [one for one in more if one[0] not in own]
            await send(message)

        await self.app(scope, receive, send_guarded)

    def refusal(self, request: Request) -> str | None:
        """Why it is not answered."""
        if request.headers.get("host") not in self.hosts:
            return "this is not the host of the window."
        if request.headers.get("origin", self.origins[0]) not in self.origins:
            return "another page may not ask."
        given = request.headers.get("x-riesz-token") or request.query_params.get("token", "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return "the token is missing: open the address that riesz app has printed."
        return None


async def read_body(request: Request) -> bytes:
    """The body of a request that is no file."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MOST_WORDS:
            raise RieszError(f"more than {MOST_WORDS // 10**6} MB of words were sent.")
    return content


async def words_of(request: Request) -> dict[str, Any]:
    """What a page says, as a JSON object."""
    try:
        words = json.loads(await read_body(request) or b"{}")
    except ValueError as error:
        raise RieszError(f"what was sent is no JSON: {error}.") from error
    if not isinstance(words, dict):
        raise RieszError("what was sent is no JSON object.")
    return words


async def json_of(function: Callable[..., Any], *given: Any) -> Response:
    """What a function returns, which may take a while."""
    found = await run_in_threadpool(function, *given)
    return JSONResponse({} if found is None else found)


def refusal_of(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 422)


def failure_of(_: Request, error: Exception) -> Response:
    """A fault of the window: in one line, with the kind of the error for a report of it."""
    return JSONResponse({"error": f"the window failed ({type(error).__name__}): {error}"}, 500)


def asset(name: str) -> str:
    return files("riesz_app").joinpath(name).read_text(encoding="utf-8")
