"""What a backend says becomes the error that names the remedy; what is transient is tried again."""

import errno
import random
from typing import Any

import pytest

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import AlreadyExistsError, InvalidError, NeedlefishError, NotFoundError, UnavailableError
from needlefish.runtime import Runtime
from needlefish.store import open_store
from needlefish.store.translation import from_obstore, from_os
from needlefish.testing.fake_clock import FakeClock

# `scripted` is a ScriptedS3 of conftest.py, which test modules cannot import.
Scripted = Any


def _once(config: StoreConfig) -> StoreConfig:
    return StoreConfig(uri=config.uri, options=config.options, retry=RetryPolicy(attempts=1))


def _quick() -> Runtime:
    return Runtime(clock=FakeClock(), chance=random.Random(7))


@pytest.mark.parametrize(
    ("status", "code", "expected", "words"),
    [
        (400, "AuthorizationHeaderMalformed", InvalidError, "check region, endpoint and options"),
        (401, "Unauthorized", InvalidError, "check the credentials"),
        (403, "AccessDenied", InvalidError, "check the credentials"),
        (404, "NoSuchKey", NotFoundError, "root/name does not exist"),
        (404, "NoSuchBucket", NotFoundError, "bucket itself does not exist"),
        (408, "RequestTimeout", UnavailableError, "408"),
        (429, "SlowDown", UnavailableError, "429"),
        (500, "InternalError", UnavailableError, "500"),
        (503, "SlowDown", UnavailableError, "503"),
    ],
)
def test_each_status_has_its_remedy(scripted: Scripted, status: int, code: str, expected: type[NeedlefishError], words: str) -> None:
    store = open_store(_once(scripted.config((status, code))))
    with pytest.raises(expected, match=words) as caught:
        store.get("name")
    assert "s3://bucket/root/name" in str(caught.value)
    # obstore's debug dump stays in the cause.
    assert "Debug source" not in str(caught.value)


def test_obstore_itself_never_retries(scripted: Scripted) -> None:
    store = open_store(_once(scripted.config((503, "SlowDown"), (503, "SlowDown"))))
    with pytest.raises(UnavailableError):
        store.put_if_absent("name", b"x")
    assert scripted.asked == ["PUT /bucket/root/name"]


def test_a_transient_failure_is_tried_again_and_counted(scripted: Scripted) -> None:
    store = open_store(scripted.config((503, "SlowDown"), (500, "InternalError")), _quick())
    assert store.get("name") == b"fine"
    assert len(scripted.asked) == 3
    assert store.meter.snapshot().get.requests == 3


def test_a_body_that_breaks_off_is_read_again(scripted: Scripted) -> None:
    store = open_store(scripted.config((200, "CutBody")), _quick())
    assert store.get("name") == b"fine"
    assert len(scripted.asked) == 2


def test_a_conditional_put_that_exists(scripted: Scripted) -> None:
    with pytest.raises(AlreadyExistsError, match="root/name exists already"):
        open_store(scripted.config((412, "PreconditionFailed"))).put_if_absent("name", b"x")
    assert len(scripted.asked) == 1


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
def test_an_undecided_conditional_put_is_asked_again(scripted: Scripted, code: str) -> None:
    """S3 answers 409 while two conditional writes overlap: nobody may have won, so it is no AlreadyExistsError."""
    store = open_store(scripted.config((409, code)), _quick())
    store.put_if_absent("name", b"x")
    assert len(scripted.asked) == 2
    with pytest.raises(AlreadyExistsError):
        open_store(scripted.config((409, code), (412, "PreconditionFailed")), _quick()).put_if_absent("name", b"x")


def test_azure_says_exists_with_409() -> None:
    from obstore.exceptions import AlreadyExistsError as Foreign

    said = Foreign("Object at location x already exists: non-2xx status code: 409 Conflict: <Code>BlobAlreadyExists</Code>")
    assert isinstance(from_obstore(said, "az://c/x"), AlreadyExistsError)


def test_nobody_listens() -> None:
    options = {"aws_endpoint": "http://127.0.0.1:1", "allow_http": "true", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    clock = FakeClock()
    store = open_store(StoreConfig(uri="s3://bucket", options=options), Runtime(clock=clock))
    with pytest.raises(UnavailableError, match=r"s3://bucket/name.*Connection refused"):
        store.get("name")
    assert len(clock.naps) == RetryPolicy().attempts - 1


def test_missing_credentials_are_named() -> None:
    """Without credentials obstore asks the machine's metadata service; its silence is not the store's."""
    options = {"aws_endpoint": "http://127.0.0.1:1", "allow_http": "true", "aws_metadata_endpoint": "http://127.0.0.1:1"}
    store = open_store(_once(StoreConfig(uri="s3://bucket", options=options)))
    with pytest.raises(UnavailableError, match="no credentials were given"):
        store.get("name")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOENT, NotFoundError),
        (errno.ENOTDIR, NotFoundError),
        (errno.EEXIST, AlreadyExistsError),
        (errno.EACCES, InvalidError),
        (errno.EROFS, InvalidError),
        (errno.ENAMETOOLONG, InvalidError),
        (errno.ENOSPC, UnavailableError),
        (errno.EIO, UnavailableError),
        (errno.EMFILE, UnavailableError),
    ],
)
def test_each_local_error_has_its_remedy(number: int, expected: type[NeedlefishError]) -> None:
    error = from_os(OSError(number, "as the system says"), "/lake/name")
    assert type(error) is expected
    assert "/lake/name" in str(error)


def test_what_nobody_knows_claims_nothing() -> None:
    assert isinstance(from_obstore(RuntimeError("new in obstore 9"), "s3://b/x"), UnavailableError)
