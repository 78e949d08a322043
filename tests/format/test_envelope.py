"""Checksummed JSON: no flipped byte and no missing one is ever believed."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.errors import CorruptError, UnsupportedError
from needlefish.format.envelope import seal, unseal
from needlefish.format.log_entry import (
    CHECKPOINT_PREFIX,
    LATEST_PATH,
    checkpoint_path,
    checkpoint_version,
    decode_entry,
    encode_entry,
    log_path,
)
from needlefish.model.log import FORMAT, LogEntry, RunId, RunRef, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    format: int
    name: str
    data: bytes = b""
    numbers: tuple[int, ...] = ()


@given(name=st.text(), data=st.binary(), numbers=st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_a_record_comes_back(name: str, data: bytes, numbers: list[int]) -> None:
    record = _Record(format=1, name=name, data=data, numbers=tuple(numbers))
    assert unseal(seal(record), _Record, "x") == record
    assert json.loads(seal(record))["body"]["name"] == name


def test_the_bytes_are_pinned() -> None:
    """Do not change: they are in every log. The checksum is XXH64 of the body's bytes."""
    sealed = seal(_Record(format=1, name="a"))
    assert sealed == b'{"checksum":"76b6927c21d834ed","body":{"format":1,"name":"a","data":"","numbers":[]}}\n'


def test_every_flipped_bit_is_corrupt() -> None:
    sealed = seal(_Record(format=1, name="needle", numbers=(1, 2)))
    for at in range(len(sealed)):
        for bit in range(8):
            with pytest.raises(CorruptError, match=r"some/path\.json"):
                unseal(sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :], _Record, "some/path.json")


def test_every_cut_and_every_addition_is_corrupt() -> None:
    sealed = seal(_Record(format=1, name="needle"))
    for end in range(len(sealed)):
        with pytest.raises(CorruptError):
            unseal(sealed[:end], _Record, "x")
        with pytest.raises(CorruptError):
            unseal(sealed[end + 1 :], _Record, "x")
    for more in (sealed + b"\n", b" " + sealed, sealed + sealed):
        with pytest.raises(CorruptError):
            unseal(more, _Record, "x")


@given(data=st.binary(max_size=100))
def test_any_other_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptError):
        unseal(data, _Record, "x")


def test_a_future_format_is_unsupported_before_anything_else_is_believed() -> None:
    with pytest.raises(UnsupportedError, match=f"x: written in format {FORMAT + 1}, and this Needlefish reads up to {FORMAT}; upgrade"):
        unseal(seal({"format": FORMAT + 1, "name": 5, "whatever": []}), _Record, "x")


def test_unknown_fields_are_ignored_and_absent_ones_have_defaults() -> None:
    assert unseal(seal({"format": 1, "name": "a", "later": {"x": 1}}), _Record, "x") == _Record(format=1, name="a")


@pytest.mark.parametrize(
    "record", [{"name": "a"}, {"format": "1", "name": "a"}, {"format": 1}, {"format": 1, "name": 5}, [1], "text", None, {"format": None}]
)
def test_a_record_of_the_wrong_shape_is_corrupt(record: object) -> None:
    with pytest.raises(CorruptError, match="x: "):
        unseal(seal(record), _Record, "x")


def _entry(version: int = 7) -> LogEntry:
    run = RunRef(id=RunId("r"), kind="files", bytes=10, header_bytes=5, header_checksum="c", records=2)
    return LogEntry(
        format=1,
        version=version,
        token="t",
        timestamp_ms=5,
        action="append",
        writer="w",
        runs_added=(run,),
        runs_removed=(RunId("q"),),
        added=Totals(rows=1),
    )


def test_an_entry_comes_back() -> None:
    assert decode_entry(encode_entry(_entry()), 7) == _entry()


def test_an_entry_under_another_number_is_corrupt() -> None:
    with pytest.raises(CorruptError, match=f"{log_path(8)}: holds version 7"):
        decode_entry(encode_entry(_entry()), 8)


def test_paths_keep_the_order_of_numbers() -> None:
    numbers = [0, 1, 9, 10, 99, 100, 2**31, 2**63 - 1, 2**64 - 1]
    assert [log_path(number) for number in numbers] == sorted(log_path(number) for number in numbers)
    assert log_path(42) == "_needlefish/log/00000000000000000042.json"
    assert checkpoint_path(42) == "_needlefish/checkpoints/00000000000000000042.json"


@pytest.mark.parametrize(
    ("path", "version"),
    [
        (checkpoint_path(0), 0),
        (checkpoint_path(2**64 - 1), 2**64 - 1),
        (LATEST_PATH, None),
        (CHECKPOINT_PREFIX + "1.json", None),
        (CHECKPOINT_PREFIX + "x" * 20 + ".json", None),
        (CHECKPOINT_PREFIX + "-" + "1" * 19 + ".json", None),
        (CHECKPOINT_PREFIX + "0" * 20 + ".json.tmp", None),
    ],
)
def test_a_checkpoint_is_known_by_its_path(path: str, version: int | None) -> None:
    assert checkpoint_version(path) == version
