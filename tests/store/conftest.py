"""Servers for the tests of this room: moto's S3, started once, and one that answers by a script."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread

import pytest

from needlefish.config import StoreConfig
from needlefish.testing.s3 import S3Server, s3_server

_numbers = count()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def fresh_name() -> str:
    """A prefix that no other test of this run has used."""
    return f"fresh-{next(_numbers)}"


class ScriptedS3:
    """Answers requests with the statuses it was given, then with 200; remembers what was asked."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.answers: list[tuple[int, str]] = []
        self.asked: list[str] = []

    def config(self, *answers: tuple[int, str], **options: str) -> StoreConfig:
        """A store whose next requests get these statuses and error codes."""
        self.answers[:], self.asked[:] = answers, []
        return StoreConfig(uri="s3://bucket/root", options={**dict(S3Server(port=0).options), "aws_endpoint": self.endpoint, **options})


@pytest.fixture
def scripted() -> Iterator[ScriptedS3]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    script = ScriptedS3(server.server_port)
    server.RequestHandlerClass = _handler(script)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield script
    server.shutdown()
    thread.join()
    server.server_close()


def _handler(script: ScriptedS3) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def __getattr__(self, name: str) -> Callable[[], None]:
            # The base class looks for one method per verb; all verbs are answered alike.
            if name.startswith("do_"):
                return self.answer
            raise AttributeError(name)

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            script.asked.append(f"{self.command} {self.path}")
            status, code = script.answers.pop(0) if script.answers else (200, "")
            body = f"<Error><Code>{code}</Code></Error>".encode() if status != 200 else b"fine"
            self.send_response(status)
            # A cut body promises more than it sends.
            self.send_header("Content-Length", str(len(body) + (100 if code == "CutBody" else 0)))
            self.send_header("ETag", '"e"')
            self.send_header("Last-Modified", "Sun, 01 Nov 2026 00:00:00 GMT")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return None

    return Handler
