"""The S3 server is there while it is wanted, and gone afterwards, however its user ends."""

import os
import signal
import socket
import subprocess
import sys

from needlefish.runtime import SYSTEM
from needlefish.store import open_store
from needlefish.testing.s3 import s3_server

_USER = """
import sys
from needlefish.testing.s3 import s3_server

with s3_server() as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""


def _answers(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def _falls_silent(port: int) -> bool:
    for _ in range(200):
        if not _answers(port):
            return True
        SYSTEM.clock.sleep(0.05)
    return False


def test_a_server_comes_with_a_bucket_and_goes() -> None:
    with s3_server(bucket="my-bucket") as server:
        store = open_store(server.config("lake"))
        store.put("a", b"x")
        assert store.get("a") == b"x"
        assert store.uri == "s3://my-bucket/lake"
        # The bucket, the put and the get.
        assert server.requests() == 3
    assert not _answers(server.port)


def test_a_killed_user_leaves_no_server_behind() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    user = subprocess.Popen([sys.executable, "-c", _USER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert user.stdout is not None
    port = int(user.stdout.readline())
    assert _answers(port)
    user.send_signal(signal.SIGKILL)
    user.communicate()
    assert _falls_silent(port)
