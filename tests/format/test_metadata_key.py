"""Keys of the metadata runs: the published vectors of Apache Hudi, byte for byte."""

import base64

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from needlefish.format.metadata_key import column_key, file_key, hash64_part, hash128_part

_FILE = "8aa68f7e-afd6-4c94-b86c-8a886552e08d-0_2-1112-3192_20251220210129235.parquet"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Hudi", "uaRxdP1HPA4="),
        ("Data lake", "FzR/yAiNjqo="),
        ("Col1", "lrvBsK3GVg0="),
        ("2021/10/28/", "aUHW9f64I1o="),
        ("_hoodie_record_key", "uSJGdDiVr/k="),
        ("driver", "AjpJ7N1gBZc="),
        ("city=sao_paulo", "6Hj+sBy+gvM="),
    ],
)
def test_parts_of_64_bits(text: str, part: str) -> None:
    assert hash64_part(text) == part


@pytest.mark.parametrize(("text", "digits"), [("Hudi", "B9A47174FD473C0E"), ("2021/10/28/", "6941D6F5FEB8235A")])
def test_parts_are_the_digest_in_big_endian(text: str, digits: str) -> None:
    assert base64.b64decode(hash64_part(text)).hex().upper() == digits
    assert xxhash.xxh64_hexdigest(text.encode(), seed=0xFFFFFFFFDABADABA).upper() == digits


def test_file_names_are_md5() -> None:
    assert hash128_part(_FILE) == "0VV0SYFvRHPGdIGkp/dZ+A=="


def test_a_whole_key() -> None:
    assert column_key("driver", "city=sao_paulo", _FILE) == "AjpJ7N1gBZc=6Hj+sBy+gvM=0VV0SYFvRHPGdIGkp/dZ+A=="
    assert file_key("city=sao_paulo", _FILE) == "6Hj+sBy+gvM=0VV0SYFvRHPGdIGkp/dZ+A=="


@given(
    column=st.text(st.characters(exclude_categories=["Cs"])),
    partition=st.text(st.characters(exclude_categories=["Cs"])),
    name=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_a_prefix_is_the_key_of_a_group(column: str, partition: str, name: str) -> None:
    key = column_key(column, partition, name)
    assert key.startswith(hash64_part(column))
    assert key.endswith(file_key(partition, name))
    assert file_key(partition, name).startswith(hash64_part(partition))
    assert [len(part) for part in (hash64_part(column), hash128_part(name), key)] == [12, 24, 48]
    assert key.isascii()
