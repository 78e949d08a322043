"""Runs: plain Arrow files whose every byte that a lookup believes is covered by a checksum."""

from itertools import pairwise

import pyarrow as pa
import pytest

from needlefish.errors import CorruptError
from needlefish.format.checksum import checksum
from needlefish.format.files_record import FILES_SCHEMA, decode_files, encode_files
from needlefish.format.metadata_key import file_key
from needlefish.format.run import BLOCK_RECORDS, EncodedRun, decode_block, decode_header, encode_run, run_path
from needlefish.model.chunkset import ChunksetId, ChunksetInfo, Granule, PartitionPath
from needlefish.model.log import RunId


def _info(number: int, partition: str = "day=2026-11-01") -> ChunksetInfo:
    return ChunksetInfo(
        id=ChunksetId(f"{number:032x}"),
        partition=PartitionPath(partition),
        partition_values=("2026-11-01", None),
        rows=number,
        bytes=2**40 + number,
        footer_bytes=100,
        footer_checksum=f"{number:016x}",
        first_key=b"\x00\xff" + bytes([number % 256]),
        last_key=b"\xff",
        prev_max=7,
        schema_id=1,
        granules=tuple(Granule(rows=n, offset=4 + n, bytes=10) for n in range(number % 4)),
    )


def _run(records: int, block_records: int = 4) -> EncodedRun:
    return encode_run("files", encode_files(_info(number) for number in range(records)), block_records)


def _blocks(run: EncodedRun) -> list[pa.RecordBatch]:
    header, schema = decode_header(run.data[: run.header_bytes], run.header_checksum, "p")
    spans = pairwise(run.header_bytes + offset for offset in header.offsets)
    return [decode_block(run.data[start:end], header, schema, number, "p") for number, (start, end) in enumerate(spans)]


@pytest.mark.parametrize("records", [0, 1, 4, 5, 100])
def test_records_come_back_from_blocks(records: int) -> None:
    run = _run(records)
    blocks = _blocks(run)
    assert [len(block) for block in blocks] == [4] * (records // 4) + ([records % 4] if records % 4 else [])
    found = [info for block in blocks for info in decode_files(block)]
    assert sorted(found, key=lambda info: info.rows) == [_info(number) for number in range(records)]
    assert run.records == records


def test_any_arrow_reader_opens_a_run() -> None:
    table = encode_files(_info(number) for number in range(10))
    read = pa.ipc.open_file(pa.py_buffer(_run(10).data)).read_all()
    assert read.schema == FILES_SCHEMA
    assert read.equals(table)
    assert read["key"].to_pylist() == sorted(read["key"].to_pylist())


def test_a_run_of_many_blocks_knows_where_each_begins() -> None:
    run = _run(2_000, BLOCK_RECORDS)
    header, schema = decode_header(run.data[: run.header_bytes], run.header_checksum, "p")
    keys = encode_files(_info(number) for number in range(2_000))["key"].to_pylist()
    assert header.first_keys == tuple(keys[::BLOCK_RECORDS])
    assert len(header.offsets) == len(header.checksums) + 1 == 9
    assert (header.kind, header.records, schema) == ("files", 2_000, FILES_SCHEMA)
    # What follows the last block is Arrow's own footer.
    assert run.header_bytes + header.offsets[-1] < len(run.data)
    # Some tens of KiB at most: what one lookup reads.
    assert max(end - start for start, end in pairwise(header.offsets)) < 64 * 1024


def test_every_flipped_bit_of_header_and_blocks_is_corrupt() -> None:
    """The schema too, which lies outside the sealed index: a flipped bit there turns one column into another."""
    run = _run(9)
    header, schema = decode_header(run.data[: run.header_bytes], run.header_checksum, "p")
    for at in range(run.header_bytes):
        with pytest.raises(CorruptError, match="p: the header does not fit"):
            decode_header(_flipped(run.data, at)[: run.header_bytes], run.header_checksum, "p")
    for number, (start, end) in enumerate(pairwise(run.header_bytes + offset for offset in header.offsets)):
        for at in range(start, end):
            with pytest.raises(CorruptError, match=f"p: block {number} does not fit"):
                decode_block(_flipped(run.data, at)[start:end], header, schema, number, "p")


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


def test_every_cut_is_corrupt() -> None:
    run = _run(3)
    for end in range(0, run.header_bytes, 5):
        with pytest.raises(CorruptError):
            decode_header(run.data[:end], run.header_checksum, "p")
    header, schema = decode_header(run.data[: run.header_bytes], run.header_checksum, "p")
    for end in range(header.offsets[1]):
        with pytest.raises(CorruptError, match="p: block 0 does not fit its checksum"):
            decode_block(run.data[run.header_bytes : run.header_bytes + end], header, schema, 0, "p")


def test_blocks_are_not_mistaken_for_each_other() -> None:
    run = _run(9)
    header, schema = decode_header(run.data[: run.header_bytes], run.header_checksum, "p")
    first = run.data[run.header_bytes : run.header_bytes + header.offsets[1]]
    with pytest.raises(CorruptError, match="p: block 1 does not fit"):
        decode_block(first, header, schema, 1, "p")


def test_an_arrow_file_that_is_no_run_is_corrupt() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([("a", pa.int8())])):
        pass
    data = sink.getvalue().to_pybytes()[:200]
    with pytest.raises(CorruptError, match="an Arrow file, but not a run"):
        decode_header(data, checksum(data), "p")


def test_paths_are_pinned() -> None:
    assert run_path("files", RunId("abc")) == "_needlefish/metadata/files/abc.arrow"


def test_records_are_sorted_by_key_and_say_what_they_are() -> None:
    table = encode_files([_info(1, "b=1"), _info(2, "a=1"), _info(3, "b=1")])
    assert table["key"].to_pylist() == sorted(
        file_key(info.partition, info.file_name) for info in (_info(1, "b=1"), _info(2, "a=1"), _info(3, "b=1"))
    )
    assert table["is_deleted"].to_pylist() == [False] * 3
    assert decode_files(encode_files([_info(5)]).to_batches()[0]) == [_info(5)]
