"""Encrypted files that parquet-mr 1.17 wrote (see tests/interop/test_bloom_encrypted.py): keys, prefixes, damage."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError, InvalidError, NeedlefishError
from needlefish.format.encryption import KnownKeys
from needlefish.format.encryption_metadata import FooterKeys
from needlefish.index.parquet_bloom import ParquetBlooms, open_blooms
from needlefish.store import Meter, open_store

GOLDEN = Path(__file__).parent / "test_parquet_bloom_golden"
FOOTER = b"footerkey0123456"
COLUMNS = {"id": b"columnkeyid12345", "name": b"columnkeyname123columnkeyname123"}
WRONG = b"notthekey1234567"
ALL = KnownKeys(footer=FOOTER, columns=COLUMNS)
PREFIXES = {"supplied_prefix": b"table/part-7"}
FILES = ["uniform", "per_column", "plaintext_footer", "supplied_prefix"]


def opened(name: str, keys: KnownKeys | None = ALL, folder: Path = GOLDEN, meter: Meter | None = None) -> ParquetBlooms:
    store = open_store(StoreConfig(uri=str(folder)), meter=meter)
    return open_blooms(store, f"{name}.parquet", FooterKeys(retriever=keys, aad_prefix=PREFIXES.get(name)))


@pytest.mark.parametrize("name", FILES)
def test_every_value_is_found_and_strangers_are_not(name: str) -> None:
    blooms = opened(name)
    for row in range(60):
        assert blooms.may_contain("id", row) == blooms.may_contain("name", f"name {row}") == blooms.may_contain("open", row * 3) == [True]
    assert sum(blooms.may_contain("id", number)[0] for number in range(1000, 2000)) < 50


@pytest.mark.parametrize("name", FILES)
def test_requests_are_those_of_plain_files(name: str) -> None:
    meter = Meter()
    blooms = opened(name, meter=meter)
    assert meter.snapshot().requests == 2
    (chunk,) = blooms.chunks("id")
    known = blooms.read(chunk)
    assert meter.snapshot().requests == 3
    assert blooms.read(replace(chunk, length=None)) == known
    # The filters of these small files fit into the first read of a filter of unknown length.
    assert meter.snapshot().requests == 4


@pytest.mark.parametrize("name", ["uniform", "per_column", "supplied_prefix"])
def test_an_encrypted_footer_asks_for_its_key(name: str) -> None:
    for keys in (None, KnownKeys(columns=COLUMNS)):
        with pytest.raises(InvalidError, match="the footer is encrypted; pass keys"):
            opened(name, keys)


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_footer_key_is_told_from_a_missing_one(name: str) -> None:
    with pytest.raises(CorruptError, match=f"{name}.parquet, footer.*does not open under this key"):
        opened(name, KnownKeys(footer=WRONG, columns=COLUMNS))


@pytest.mark.parametrize("name", ["per_column", "plaintext_footer"])
def test_a_wrong_column_key_is_named(name: str) -> None:
    with pytest.raises(CorruptError, match="metadata of column 'name' in row group 0: it does not open under this key"):
        opened(name, KnownKeys(footer=FOOTER, columns={**COLUMNS, "name": WRONG}))


def test_columns_without_a_key_are_locked_and_the_others_stay_readable() -> None:
    for name in ("per_column", "plaintext_footer"):
        blooms = opened(name, KnownKeys(footer=FOOTER, columns={"id": COLUMNS["id"]}))
        assert blooms.may_contain("id", 7) == blooms.may_contain("open", 21) == [True]
        assert blooms.columns == ("id", "name", "open")
        with pytest.raises(InvalidError, match="filter of column 1 in row group 0 is encrypted under a key that was not given"):
            blooms.may_contain("name", "name 7")


def test_a_plaintext_footer_opens_without_any_key() -> None:
    blooms = opened("plaintext_footer", None)
    assert blooms.may_contain("open", 21) == [True]
    with pytest.raises(InvalidError, match="key that was not given"):
        blooms.may_contain("id", 7)


def test_prefixes_must_fit() -> None:
    store = open_store(StoreConfig(uri=str(GOLDEN)))
    with pytest.raises(InvalidError, match="pass aad_prefix"):
        open_blooms(store, "supplied_prefix.parquet", FooterKeys(retriever=ALL))
    with pytest.raises(CorruptError, match="AAD prefix is wrong"):
        open_blooms(store, "supplied_prefix.parquet", FooterKeys(retriever=ALL, aad_prefix=b"table/part-8"))
    with pytest.raises(InvalidError, match="another file"):
        open_blooms(store, "uniform.parquet", FooterKeys(retriever=ALL, aad_prefix=b"table/part-8"))


def test_key_metadata_reaches_the_retriever() -> None:
    asked: list[tuple[str | None, bytes]] = []

    class Recorder:
        def key_for(self, column: str | None, metadata: bytes) -> bytes | None:
            asked.append((column, metadata))
            return ALL.key_for(column, metadata)

    open_blooms(open_store(StoreConfig(uri=str(GOLDEN))), "per_column.parquet", FooterKeys(retriever=Recorder()))
    assert asked == [(None, b"footer"), ("id", b"id"), ("name", b"name")]


@pytest.mark.parametrize("name", FILES)
def test_every_changed_byte_of_a_sealed_filter_is_noticed(name: str, tmp_path: Path) -> None:
    (chunk,) = opened(name).chunks("id")
    assert chunk.offset is not None
    assert chunk.length is not None
    data = (GOLDEN / f"{name}.parquet").read_bytes()
    for at in range(chunk.offset, chunk.offset + chunk.length, 7):
        changed = bytearray(data)
        changed[at] ^= 0x40
        (tmp_path / f"{name}.parquet").write_bytes(changed)
        with pytest.raises(CorruptError):
            opened(name, folder=tmp_path).filters("id")


def test_a_tampered_plaintext_footer_fails_its_signature(tmp_path: Path) -> None:
    data = bytearray((GOLDEN / "plaintext_footer.parquet").read_bytes())
    # A letter of the writer's name: the structure stays whole, and only the signature can tell.
    at = data.index(b"parquet-mr version")
    data[at] = ord("q")
    (tmp_path / "plaintext_footer.parquet").write_bytes(data)
    with pytest.raises(CorruptError, match="footer signature: it does not open"):
        opened("plaintext_footer", folder=tmp_path)


def test_filters_swapped_between_columns_do_not_open(tmp_path: Path) -> None:
    blooms = opened("uniform")
    data = bytearray((GOLDEN / "uniform.parquet").read_bytes())
    first, third = blooms.chunks("id")[0], blooms.chunks("open")[0]
    assert first.offset
    assert first.length
    assert third.offset
    assert third.length == first.length
    one, other = (bytes(data[chunk.offset : chunk.offset + first.length]) for chunk in (first, third) if chunk.offset)
    data[first.offset : first.offset + first.length] = other
    data[third.offset : third.offset + first.length] = one
    (tmp_path / "uniform.parquet").write_bytes(data)
    with pytest.raises(CorruptError, match="header: it does not open"):
        opened("uniform", folder=tmp_path).filters("id")


@given(data=st.data())
@settings(max_examples=200)
def test_fuzzed_encrypted_files_only_raise_our_errors(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz-encrypted"
    folder.mkdir(exist_ok=True)
    name = data.draw(st.sampled_from(FILES))
    damaged = bytearray((GOLDEN / f"{name}.parquet").read_bytes())
    at = data.draw(st.integers(len(damaged) - 2500, len(damaged) - 1))
    damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    (folder / f"{name}.parquet").write_bytes(damaged)
    try:
        blooms = opened(name, folder=folder)
        for column in blooms.columns:
            blooms.filters(column)
    except NeedlefishError:
        return
    finally:
        shutil.rmtree(folder)
