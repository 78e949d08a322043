"""`needlefish bloom FILE [COLUMN] [--probe VALUE]`: what the Bloom filters of any Parquet file hold."""

import json
import math
import os
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from needlefish.cli.bloom_keys import read_keys
from needlefish.cli.bloom_value import parse_value
from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.bloom_chunks import ChunkFilter
from needlefish.format.encryption_metadata import FooterKeys
from needlefish.index.parquet_bloom import ParquetBlooms, open_blooms
from needlefish.store import open_store

File = Annotated[str, typer.Argument(metavar="FILE", help="A Parquet file: a local path, or a URI such as s3://bucket/file.parquet.")]
Column = Annotated[str | None, typer.Argument(metavar="[COLUMN]", help="A column, dotted when nested; by default all that have a filter.")]
Probe = Annotated[str | None, typer.Option("--probe", help="A value: says for each row group whether it may hold it.")]
Keys = Annotated[str | None, typer.Option("--keys", help="For encrypted files: a JSON file of base64 keys, see docs/guides/bloom.md.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON array with an object per row group and column.")]

Report = dict[str, object]


def bloom(file: File, column: Column = None, probe: Probe = None, keys: Keys = None, as_json: AsJson = False) -> None:
    """Shows the Bloom filters of a Parquet file: size, bits set, distinct values, false positive rate."""
    blooms = _open(file, keys)
    columns = _chosen(blooms, column, probe)
    reports = [report for name in columns for report in _reports(blooms, name, probe)]
    if as_json:
        typer.echo(json.dumps(reports))
    else:
        _show(file, reports, probe)


def _open(file: str, keys: str | None) -> ParquetBlooms:
    folder, name = os.path.split(file)
    if not name:
        raise InvalidError(f"FILE {file!r} names a folder: give one Parquet file in it")
    return open_blooms(open_store(StoreConfig(uri=folder or ".")), name, FooterKeys() if keys is None else read_keys(keys))


def _chosen(blooms: ParquetBlooms, column: str | None, probe: str | None) -> tuple[str, ...]:
    if column is not None:
        return (blooms.leaf(column).path,)
    if probe is not None and len(blooms.columns) != 1:
        known = ", ".join(blooms.columns) or "none"
        raise InvalidError(f"--probe {probe!r} needs a COLUMN: columns with a filter are {known}")
    return blooms.columns


def _reports(blooms: ParquetBlooms, column: str, probe: str | None) -> list[Report]:
    hashes = None if probe is None else blooms.hashes(column, parse_value(probe, blooms.leaf(column)))
    chunks = blooms.chunks(column)
    # An overview shows what is there to see; a question about a locked column is an error that asks for its key.
    hidden = probe is None and any(chunk.locked for chunk in chunks)
    filters = [None] * len(chunks) if hidden else blooms.filters(column)
    return [_report(column, chunk, found, hashes) for chunk, found in zip(chunks, filters, strict=True)]


def _report(column: str, chunk: ChunkFilter, found: SplitBlockFilter | None, hashes: tuple[int, ...] | None) -> Report:
    """Without a filter a row group may contain anything: numbers are null and the answer to a probe is yes."""
    report: Report = {"row_group": chunk.row_group, "column": column, "rows": chunk.rows, "locked": chunk.locked}
    report |= dict.fromkeys(("bytes", "blocks", "bits_set", "bits_share", "estimated_distinct", "false_positive_rate"))
    if found is not None:
        report |= _measures(found)
    if hashes is not None:
        report["may_contain"] = found is None or any(map(found.may_contain, hashes))
    return report


def _measures(found: SplitBlockFilter) -> Report:
    bits, distinct = found.bits_set(), found.estimated_values()
    return {
        "bytes": found.size_bytes,
        "blocks": len(found),
        "bits_set": bits,
        "bits_share": bits / (found.size_bytes * 8),
        # A saturated filter tells nothing of how many values went in, and JSON has no infinity.
        "estimated_distinct": round(distinct) if math.isfinite(distinct) else None,
        "false_positive_rate": found.false_positive_rate(),
    }


def _show(file: str, reports: list[Report], probe: str | None) -> None:
    console = Console()
    if not reports:
        console.print(f"{file} has no Bloom filter", markup=False)
        return
    table = Table("group", "column", "rows", "bytes", "bits set", "distinct", "false yes")
    if probe is not None:
        table.add_column(f"may hold {probe}")
    for report in reports:
        table.add_row(*_cells(report, probe))
    console.print(table)


def _cells(report: Report, probe: str | None) -> list[str]:
    cells = [f"{report['row_group']}", f"{report['column']}", f"{report['rows']:,}"]
    if report["bytes"] is None:
        cells += ["locked" if report["locked"] else "no filter", "", "", ""]
    else:
        distinct = report["estimated_distinct"]
        about = "full" if distinct is None else f"~{distinct:,}"
        cells += [f"{report['bytes']:,}", f"{report['bits_share']:.1%}", about, f"{report['false_positive_rate']:.3%}"]
    return cells if probe is None else [*cells, "maybe" if report["may_contain"] else "no"]
