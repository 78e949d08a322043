"""Encrypted modules and encrypted filters: both directions, every place bound by the AAD, every byte authenticated."""

import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.errors import CorruptError, InvalidError, NeedlefishError
from needlefish.format.bloom import encode_filter
from needlefish.format.bloom_encrypted import FilterSeal
from needlefish.format.encryption import FileIdentity, KnownKeys, ModuleType, cipher, module_length, open_module, seal_module

KEY = b"0123456789abcdef"
FILE = FileIdentity(prefix=b"table/part0", unique=b"12345678")
SEAL = FilterSeal(key=KEY, file=FILE, row_group=3, column=258)


def test_the_aad_is_prefix_id_type_and_ordinals() -> None:
    assert FILE.aad(ModuleType.FOOTER) == b"table/part012345678\x00"
    assert FILE.aad(ModuleType.BLOOM_FILTER_HEADER, 3, 258) == b"table/part012345678\x08\x03\x00\x02\x01"
    assert FILE.aad(ModuleType.BLOOM_FILTER_BITSET, 3, 258) == b"table/part012345678\x09\x03\x00\x02\x01"


def test_a_module_is_length_nonce_ciphertext_and_tag() -> None:
    nonce = bytes(range(12))
    module = seal_module(b"plain", key=KEY, aad=b"aad", nonce=nonce)
    assert struct.unpack("<I", module[:4]) == (12 + 5 + 16,)
    assert module[4:16] == nonce
    assert cipher(KEY).decrypt(nonce, module[16:], b"aad") == b"plain"
    assert module_length(module + b"more", "x") == len(module)


@pytest.mark.parametrize("size", [16, 24, 32])
@pytest.mark.parametrize("blocks", [1, 100])
def test_filters_survive_under_every_key_size(size: int, blocks: int) -> None:
    bitset = os.urandom(blocks * 32)
    seal = FilterSeal(key=os.urandom(size), file=FILE, row_group=0, column=0)
    data = seal.encode(bitset, os.urandom)
    assert seal.decode(data, "x") == bitset
    assert seal.measure(data[:100], "x") == len(data)
    assert encode_filter(bitset)[:-32] not in data


def test_the_two_modules_have_their_own_types_and_nonces() -> None:
    data = SEAL.encode(bytes(32), os.urandom)
    end = module_length(data, "x")
    header = open_module(data[:end], key=KEY, aad=FILE.aad(ModuleType(8), 3, 258), what="x")
    bitset = open_module(data[end:], key=KEY, aad=FILE.aad(ModuleType(9), 3, 258), what="x")
    assert header + bitset == encode_filter(bytes(32))
    assert data[4:16] != data[end + 4 : end + 16]


ELSEWHERE = [
    FilterSeal(key=b"fedcba9876543210", file=FILE, row_group=3, column=258),
    FilterSeal(key=KEY, file=FileIdentity(prefix=b"", unique=FILE.unique), row_group=3, column=258),
    FilterSeal(key=KEY, file=FileIdentity(prefix=FILE.prefix, unique=b"other"), row_group=3, column=258),
    FilterSeal(key=KEY, file=FILE, row_group=4, column=258),
    FilterSeal(key=KEY, file=FILE, row_group=3, column=0),
]


@pytest.mark.parametrize("elsewhere", ELSEWHERE, ids=["key", "prefix", "id", "row group", "column"])
def test_a_filter_moved_elsewhere_or_a_wrong_key_does_not_open(elsewhere: FilterSeal) -> None:
    data = SEAL.encode(bytes(64), os.urandom)
    with pytest.raises(CorruptError, match=r"file.parquet, header: it does not open under this key"):
        elsewhere.decode(data, "file.parquet")


def test_every_flipped_bit_is_noticed() -> None:
    data = SEAL.encode(bytes(32), os.urandom)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        with pytest.raises(CorruptError):
            SEAL.decode(bytes(changed), "x")


@given(st.data())
@settings(max_examples=200)
def test_cut_and_extended_filters_are_damage(data: st.DataObject) -> None:
    whole = SEAL.encode(bytes(64), os.urandom)
    damaged = data.draw(st.integers(0, len(whole) - 1).map(lambda cut: whole[:cut]) | st.binary(min_size=1).map(lambda more: whole + more))
    with pytest.raises(CorruptError):
        SEAL.decode(damaged, "x")


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_random_bytes_only_raise_our_errors(data: bytes) -> None:
    with pytest.raises(NeedlefishError):
        SEAL.decode(data, "x")


def test_an_authentic_header_of_another_size_than_the_bitset_is_damage() -> None:
    small, large = SEAL.encode(bytes(32), os.urandom), SEAL.encode(bytes(64), os.urandom)
    mixed = small[: module_length(small, "x")] + large[module_length(large, "x") :]
    with pytest.raises(CorruptError, match="64 bytes where the header says 32"):
        SEAL.decode(mixed, "x")


@pytest.mark.parametrize("key", [b"", b"short", bytes(17)])
def test_keys_of_other_sizes_are_refused(key: bytes) -> None:
    with pytest.raises(InvalidError, match="16, 24 or 32"):
        seal_module(b"", key=key, aad=b"", nonce=bytes(12))


def test_nonces_of_other_sizes_are_refused() -> None:
    with pytest.raises(InvalidError, match="nonce"):
        seal_module(b"", key=KEY, aad=b"", nonce=bytes(11))


def test_ordinals_beyond_sixteen_bits_are_refused() -> None:
    with pytest.raises(InvalidError, match="row group 32768"):
        FILE.aad(ModuleType.BLOOM_FILTER_HEADER, 32768, 0)


def test_known_keys_serve_the_footer_and_each_column_and_never_show() -> None:
    keys = KnownKeys(footer=KEY, columns={"a.b": b"x" * 16})
    assert (keys.key_for(None, b""), keys.key_for("a.b", b""), keys.key_for("c", b"")) == (KEY, b"x" * 16, None)
    assert "0123" not in repr(keys) + repr(SEAL)
