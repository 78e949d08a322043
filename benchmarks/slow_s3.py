"""moto's S3 as far away as the real one: every request waits before it is served, and is counted by what S3 bills it as.

Whatever speaks S3 can be measured this way, ours and the peers' alike, as nothing has to be built into a client.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from needlefish.testing.s3 import BUCKET, App, OneAtATime, Respond, S3Server

# No legal bucket names.
_COUNTS, _DELAY = "/_counts", "/_delay/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What the server saw: requests by price class, and bytes that went out."""

    reads: int
    writes: int
    sent_bytes: int

    def since(self, before: "Requests") -> "Requests":
        return Requests(reads=self.reads - before.reads, writes=self.writes - before.writes, sent_bytes=self.sent_bytes - before.sent_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowS3:
    """A running server."""

    server: S3Server

    def counts(self) -> Requests:
        return Requests(**json.loads(_ask(self.server.port, "GET", _COUNTS)))

    def delay(self, milliseconds: int) -> None:
        """From now on; loading needs no distance."""
        _ask(self.server.port, "POST", f"{_DELAY}{milliseconds}")


class Distant:
    """Waits outside of moto's lock, so that requests at the same time wait at the same time, as they do on the way to S3."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._delay_seconds = 0.0
        self._lock = threading.Lock()
        self._counts = {"reads": 0, "writes": 0, "sent_bytes": 0}

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == _COUNTS:
            return _text(respond, json.dumps(self._counts))
        if path.startswith(_DELAY):
            self._delay_seconds = int(path.removeprefix(_DELAY)) / 1000
            return _text(respond, "")
        time.sleep(self._delay_seconds)
        body = list(self._app(environ, respond))
        self._count(environ, body)
        return body

    def _count(self, environ: dict[str, Any], body: list[bytes]) -> None:
        # S3 bills a listing like a put. A deletion is free, but it is a request all the same.
        lists = environ["REQUEST_METHOD"] == "GET" and "list-type" in environ.get("QUERY_STRING", "")
        kind = "reads" if environ["REQUEST_METHOD"] in ("GET", "HEAD") and not lists else "writes"
        with self._lock:
            self._counts[kind] += 1
            self._counts["sent_bytes"] += sum(map(len, body)) if environ["REQUEST_METHOD"] == "GET" else 0


@contextmanager
def slow_s3() -> Iterator[SlowS3]:
    """Starts a server that does not wait yet; always stops it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-m", __name__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        server = S3Server(port=int(process.stdout.readline()))
        _ask(server.port, "PUT", f"/{BUCKET}")
        yield SlowS3(server=server)
    finally:
        process.kill()
        process.communicate()


def _text(respond: Respond, text: str) -> Iterable[bytes]:
    respond("200 OK", [("Content-Length", str(len(text)))])
    return [text.encode()]


def _ask(port: int, method: str, path: str) -> bytes:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path)
        return connection.getresponse().read()
    finally:
        connection.close()


def serve() -> None:
    """The child process: announces its port and serves until its standard input ends."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    class KeepAlive(MotoRequestHandler):  # type: ignore[misc]
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_request(self, *args: object) -> None:
            return None

    server = make_server("127.0.0.1", 0, Distant(OneAtATime(create_backend_app("s3"))), threaded=True, request_handler=KeepAlive)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve()
