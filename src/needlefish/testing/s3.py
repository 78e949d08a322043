"""moto's S3 on loopback, in a process of its own: `with s3_server() as server: open_store(server.config("prefix"))`.

Only dummy credentials; nothing leaves the machine. The server ends with the process that started it, however that ends.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import UnsupportedError

BUCKET = "needlefish-test"
_DUMMY = "testing"
_PATIENCE_SECONDS = 60
# Not a legal bucket name, so no request for an object can look like it.
_COUNT_PATH = "/_requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server with one empty bucket."""

    port: int
    bucket: str = BUCKET

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> Mapping[str, str]:
        return {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": _DUMMY,
            "aws_secret_access_key": _DUMMY,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }

    def requests(self) -> int:
        """How many requests have arrived so far, as the server saw it."""
        return int(_ask(self.port, "GET", _COUNT_PATH))

    def config(self, prefix: str = "", retry: RetryPolicy | None = None) -> StoreConfig:
        uri = f"s3://{self.bucket}/{prefix}".rstrip("/")
        return StoreConfig(uri=uri, options=self.options, retry=retry or RetryPolicy())


@contextmanager
def s3_server(bucket: str = BUCKET) -> Iterator[S3Server]:
    """Starts a server, waits until it answers, makes the bucket; always stops it."""
    # The child finds this package where the parent did, installed or not.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-m", __name__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        server = S3Server(port=_announced_port(process), bucket=bucket)
        _ask(server.port, "PUT", f"/{bucket}")
        yield server
    finally:
        # Nothing in it is worth a goodbye. Were this process killed instead, the end of its standard input would stop it.
        process.kill()
        process.communicate()


def _announced_port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.strip().isdigit():
        raise UnsupportedError(f"moto's server did not start (it said {line!r}): install needlefish[testing]")
    return int(line)


def _ask(port: int, method: str, path: str) -> bytes:
    # Not urllib: it would send loopback requests to a proxy that the environment names.
    connection = HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request(method, path)
        return connection.getresponse().read()
    finally:
        connection.close()


Respond = Callable[[str, list[tuple[str, str]]], object]
App = Callable[[dict[str, Any], Any], Iterable[bytes]]


class OneAtATime:
    """moto checks If-None-Match and stores in two steps; one lock around both makes the conditional put atomic.

    A single-threaded server would be atomic too, but it would serve one kept-alive connection for ever.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._requests = 0

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        with self._lock:
            if environ["PATH_INFO"] == _COUNT_PATH:
                return self._count(respond)
            self._requests += 1
            return list(self._app(environ, respond))

    def _count(self, respond: Respond) -> Iterable[bytes]:
        body = b"%d" % self._requests
        respond("200 OK", [("Content-Length", str(len(body)))])
        return [body]


def serve() -> None:
    """The child process: announces its port and serves until its standard input ends."""
    # moto and werkzeug take a second to import, and only this process needs them.
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    class KeepAlive(MotoRequestHandler):
        protocol_version = "HTTP/1.1"
        # Header and body leave in two writes; without this the second waits 40 ms for the first to be acknowledged.
        disable_nagle_algorithm = True

        def log_request(self, *args: object) -> None:
            return None

    server = make_server("127.0.0.1", 0, OneAtATime(create_backend_app("s3")), threaded=True, request_handler=KeepAlive)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve()
