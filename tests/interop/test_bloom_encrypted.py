"""Encrypted filters in both directions with parquet-mr.

pyarrow 26 answers "Encryption is not currently supported with bloom filter"; DuckDB 2.0 cannot encrypt here at all, because it
would have to download its extension httpfs first.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from needlefish.config import StoreConfig
from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.bloom import encode_filter
from needlefish.format.bloom_encrypted import FilterSeal
from needlefish.format.encryption import KnownKeys
from needlefish.format.encryption_metadata import FooterKeys
from needlefish.index.parquet_bloom import ParquetBlooms, open_blooms
from needlefish.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 400
FOOTER = b"footerkey0123456"
COLUMNS = {"id": b"columnkeyid12345", "name": b"columnkeyname123columnkeyname123"}
PREFIX = b"table/part-7"

MODES: dict[str, dict[str, Any]] = {
    "uniform": {},
    "uniform, plaintext footer": {"plaintext_footer": True},
    "per column": {"columns": COLUMNS},
    "per column, plaintext footer": {"columns": COLUMNS, "plaintext_footer": True},
    "per column, GCM and CTR": {"columns": COLUMNS, "ctr": True},
    "stored AAD prefix": {"columns": COLUMNS, "prefix": PREFIX},
    "supplied AAD prefix": {"columns": COLUMNS, "prefix": PREFIX, "store_prefix": False},
}


def value_of(column: str, row: int) -> object:
    return f"name {row}" if column == "name" else row * (3 if column == "open" else 1)


def encryption(
    jvm: Any,
    *,
    columns: dict[str, bytes] | None = None,
    plaintext_footer: bool = False,
    ctr: bool = False,
    prefix: bytes | None = None,
    store_prefix: bool = True,
) -> Any:
    parquet = jvm.org.apache.parquet
    builder = parquet.crypto.FileEncryptionProperties.builder(FOOTER).withFooterKeyMetadata(b"footer")
    if columns:
        properties = jvm.java.util.HashMap()
        for name, key in columns.items():
            path = parquet.hadoop.metadata.ColumnPath.fromDotString(name)
            properties.put(
                path, parquet.crypto.ColumnEncryptionProperties.builder(path).withKey(key).withKeyMetaData(name.encode()).build()
            )
        builder = builder.withEncryptedColumns(properties)
    builder = builder.withPlaintextFooter() if plaintext_footer else builder
    builder = builder.withAlgorithm(parquet.crypto.ParquetCipher.AES_GCM_CTR_V1) if ctr else builder
    builder = builder.withAADPrefix(prefix) if prefix else builder
    return (builder if store_prefix else builder.withoutAADPrefixStorage()).build()


def write_encrypted(jvm: Any, path: Path, mode: str, rows: int = ROWS) -> None:
    parquet = jvm.org.apache.parquet
    schema = parquet.schema.MessageTypeParser.parseMessageType(
        "message m { required int32 id; required binary name (STRING); required int32 open; }"
    )
    output = parquet.hadoop.util.HadoopOutputFile.fromPath(
        jvm.org.apache.hadoop.fs.Path(str(path)), jvm.org.apache.hadoop.conf.Configuration()
    )
    builder = parquet.hadoop.example.ExampleParquetWriter.builder(output).withType(schema).withEncryption(encryption(jvm, **MODES[mode]))
    # Small row groups, looked at often, so that ordinals other than 0 are exercised.
    builder = builder.withRowGroupSize(6000).withMinRowCountForPageSizeCheck(50).withPageRowCountLimit(50)
    for name in ("id", "name", "open"):
        builder = builder.withBloomFilterEnabled(name, True).withBloomFilterNDV(name, 200)
    writer, groups = builder.build(), parquet.example.data.simple.SimpleGroupFactory(schema)
    for row in range(rows):
        writer.write(
            groups.newGroup().append("id", value_of("id", row)).append("name", value_of("name", row)).append("open", value_of("open", row))
        )
    writer.close()


def opened(path: Path, mode: str) -> ParquetBlooms:
    supplied = PREFIX if MODES[mode].get("store_prefix") is False else None
    keys = FooterKeys(retriever=KnownKeys(footer=FOOTER, columns=COLUMNS), aad_prefix=supplied)
    return open_blooms(open_store(StoreConfig(uri=str(path.parent))), path.name, keys)


@pytest.mark.parametrize("mode", MODES)
def test_we_open_what_parquet_mr_sealed(spark: "SparkSession", tmp_path: Path, mode: str) -> None:
    path = tmp_path / "sealed.parquet"
    write_encrypted(spark._jvm, path, mode)
    blooms = opened(path, mode)
    assert blooms.columns == ("id", "name", "open")
    assert len(blooms.chunks("id")) > 1
    for column in blooms.columns:
        check_values(blooms, column)


def check_values(blooms: ParquetBlooms, column: str) -> None:
    start = 0
    for chunk, bloom in zip(blooms.chunks(column), blooms.filters(column), strict=True):
        assert bloom is not None
        assert all(bloom.may_contain(*blooms.hashes(column, value_of(column, row))) for row in range(start, start + chunk.rows))
        assert bloom.estimated_values() == pytest.approx(chunk.rows, rel=0.15)
        start += chunk.rows
    assert start == ROWS


@pytest.mark.parametrize("mode", ["uniform", "per column", "supplied AAD prefix"])
def test_parquet_mr_opens_what_we_sealed(spark: "SparkSession", tmp_path: Path, mode: str) -> None:
    """Each filter is opened, filled with one more value, sealed under a fresh nonce and put back; parquet-mr must see the value."""
    path = tmp_path / "sealed.parquet"
    write_encrypted(spark._jvm, path, mode)
    blooms = opened(path, mode)
    extra = {column: value_of(column, 1_000_000) for column in blooms.columns}
    assert all(not found for column in blooms.columns for found in found_by_parquet_mr(spark._jvm, path, column, extra[column], mode))
    data = bytearray(path.read_bytes())
    for column in blooms.columns:
        reseal(blooms, column, extra[column], data)
    path.write_bytes(data)
    (tmp_path / ".sealed.parquet.crc").unlink(missing_ok=True)
    for column in blooms.columns:
        found = found_by_parquet_mr(spark._jvm, path, column, extra[column], mode)
        assert len(found) > 1
        assert all(found), column


def reseal(blooms: ParquetBlooms, column: str, value: object, data: bytearray) -> None:
    for chunk, bloom in zip(blooms.chunks(column), blooms.filters(column), strict=True):
        assert bloom is not None
        assert blooms.footer.file is not None
        assert chunk.offset is not None
        assert chunk.length is not None
        filled = SplitBlockFilter.from_bytes(bloom.to_bytes())
        filled.insert(hashes_array(blooms, column, value))
        sealed = encode_filter(filled.to_bytes())
        if chunk.key is not None:
            seal = FilterSeal(key=chunk.key, file=blooms.footer.file, row_group=chunk.ordinal, column=chunk.column)
            sealed = seal.encode(filled.to_bytes(), os.urandom)
        # parquet-mr's header module is padded and ours is not; readers go by the lengths of the modules alone.
        assert len(sealed) <= chunk.length
        data[chunk.offset : chunk.offset + len(sealed)] = sealed


def hashes_array(blooms: ParquetBlooms, column: str, value: object) -> Any:
    return np.array(blooms.hashes(column, value), np.uint64)


def found_by_parquet_mr(jvm: Any, path: Path, column: str, value: object, mode: str) -> list[bool]:
    parquet = jvm.org.apache.parquet
    keys = jvm.java.util.HashMap()
    for name, key in COLUMNS.items():
        place = parquet.hadoop.metadata.ColumnPath.fromDotString(name)
        keys.put(place, parquet.crypto.ColumnDecryptionProperties.builder(place).withKey(key).build())
    builder = parquet.crypto.FileDecryptionProperties.builder().withFooterKey(FOOTER).withColumnKeys(keys)
    if MODES[mode].get("store_prefix") is False:
        builder = builder.withAADPrefix(PREFIX)
    options = parquet.ParquetReadOptions.builder().withDecryption(builder.build()).build()
    source = parquet.hadoop.util.HadoopInputFile.fromPath(
        jvm.org.apache.hadoop.fs.Path(str(path)), jvm.org.apache.hadoop.conf.Configuration()
    )
    reader = parquet.hadoop.ParquetFileReader.open(source, options)
    try:
        return [_found_in(jvm, reader, block, column, value) for block in reader.getFooter().getBlocks()]
    finally:
        reader.close()


def _found_in(jvm: Any, reader: Any, block: Any, column: str, value: object) -> bool:
    (chunk,) = (chunk for chunk in block.getColumns() if chunk.getPath().toDotString() == column)
    bloom = reader.getBloomFilterDataReader(block).readBloomFilter(chunk)
    asked = jvm.org.apache.parquet.io.api.Binary.fromString(value) if isinstance(value, str) else value
    return bool(bloom.findHash(bloom.hash(asked)))
