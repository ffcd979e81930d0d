"""A window with its server in a thread, and a page that asks it by plain HTTP."""

import http.client
import json
import socket
import threading
import time

import uvicorn

from riesz_app.folder import Folder
from riesz_app.server import application

TOKEN = "of-this-test"


class Window:
    """A window about a folder, and a page that asks it."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        app = application(Folder(folder), TOKEN, f"127.0.0.1:{self.port}")
        self.server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_level="warning"))
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def close(self):
        self.server.should_exit = True
        self.thread.join()

    def ask(self, method, path, body=None, **headers):
        """Status and body."""
        page = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        page.request(method, path, body, {"X-Riesz-Token": TOKEN, **headers})
        answer = page.getresponse()
        content = answer.read()
        page.close()
        return answer.status, content

    def json(self, method, path, words=None):
        status, content = self.ask(method, path, None if words is None else json.dumps(words))
        assert status == 200, content
        return json.loads(content)

    def refusal(self, method, path, body=None):
        """The one line that is said."""
        status, content = self.ask(method, path, body)
        assert status == 422, content
        words = json.loads(content)["error"]
        assert "\n" not in words
        return words
