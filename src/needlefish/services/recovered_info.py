"""A chunkset's info from the file itself: what the footer and the keys say, and what only a record can know."""

from dataclasses import replace

from needlefish.errors import CorruptError, NotFoundError
from needlefish.model.chunkset import ChunksetId, ChunksetInfo, chunkset_path
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import PARQUET_ID, Schema
from needlefish.model.types import type_text
from needlefish.services.recover import FileClue
from needlefish.store import Store
from needlefish.table.as_written import as_written
from needlefish.table.chunkset_reader import OpenChunkset, open_chunkset, open_with_footer
from needlefish.table.footer import read_footer
from needlefish.table.key_bounds import KeyBounds, rounded_keys
from needlefish.table.parquet_writer import clustered_by, granules_of
from needlefish.table.partition import values_of_path

_SUFFIX = ".parquet"
# Without and with the id of the attempt that wrote the file in front.
_ID_DIGITS = (32, 48)


def recovered_info(store: Store, definition: TableDefinition, clue: FileClue) -> ChunksetInfo:
    """The info as it should be. Where there is a record, the footer must still be the one it knows."""
    if clue.info is None:
        return _info_of(store, definition, clue)
    size = store.head(clue.info.path).size
    if size != clue.info.bytes:
        raise CorruptError(f"{clue.info.path}: {size} bytes, but it was committed with {clue.info.bytes}")
    chunkset = open_chunkset(store, as_written(definition, clue.info), clue.info)
    return _with_rows(chunkset, as_written(definition, clue.info))


def _info_of(store: Store, definition: TableDefinition, clue: FileClue) -> ChunksetInfo:
    adopted, size = _place(store, clue)
    draft = ChunksetInfo(
        id=ChunksetId(_own_id(clue.file_name) or clue.key),
        partition=clue.partition,
        partition_values=values_of_path(clue.partition),
        rows=0,
        bytes=size,
        footer_bytes=0,
        footer_checksum="",
        first_key=b"",
        last_key=b"",
        prev_max=clue.prev_max,
        schema_id=definition.schemas[0].id,
        granules=(),
        adopted=adopted,
    )
    footer = read_footer(store, draft.path, size)
    draft = replace(draft, footer_bytes=len(footer.data), footer_checksum=footer.checksum)
    opened = open_with_footer(store, definition, draft, footer.data)
    draft = _with_schema(opened, definition)
    if adopted is None:
        clustered = clustered_by(opened.metadata)
        draft = replace(draft, order=clustered.order, curve=clustered.curve)
    written = as_written(definition, draft)
    return _with_rows(open_with_footer(store, written, draft, footer.data), written)


def _own_id(file_name: str) -> str | None:
    """The id in a name that we gave."""
    name = file_name.removesuffix(_SUFFIX)
    ours = file_name.endswith(_SUFFIX) and len(name) in _ID_DIGITS and set(name) <= set("0123456789abcdef")
    return name if ours else None


def _place(store: Store, clue: FileClue) -> tuple[str | None, int]:
    """Where an adopted file lies (None: it is one of ours, in its usual place), and its size."""
    own = _own_id(clue.file_name)
    if own is not None:
        try:
            return None, store.head(chunkset_path(clue.partition, ChunksetId(own))).size
        except NotFoundError:
            pass
    return clue.file_name, store.head(clue.file_name).size


def _with_schema(chunkset: OpenChunkset, definition: TableDefinition) -> ChunksetInfo:
    """The schema it was written under: ours carry field ids; adopted files came with the table's first schema."""
    info, arrow = chunkset.info, chunkset.file.schema_arrow
    if info.adopted is not None:
        absent = tuple(field.id for field in definition.schemas[0].fields if field.name not in arrow.names)
        if not {column.source for column in definition.partition_by if column.transform == "identity"}.issuperset(absent):
            raise CorruptError(f"{info.path}: lacks columns that the table was adopted with")
        return replace(info, path_columns=absent)
    here = [((field.metadata or {}).get(PARQUET_ID, b"").decode(), field.name, type_text(field.type, field.name)) for field in arrow]
    for schema in reversed(definition.schemas):
        if _columns(schema) == here:
            return replace(info, schema_id=schema.id)
    raise CorruptError(f"{info.path}: written under a schema that the table does not have")


def _columns(schema: Schema) -> list[tuple[str, str, str]]:
    return [(str(field.id), field.name, field.type) for field in schema.fields]


def _with_rows(chunkset: OpenChunkset, written: TableDefinition) -> ChunksetInfo:
    """Counts from the footer, keys from the first and last granule: from all of them where rows are in no order."""
    info, metadata = chunkset.info, chunkset.metadata
    numbers = [number for number in range(metadata.num_row_groups) if metadata.row_group(number).num_rows]
    bounds = KeyBounds(written.key_fields, is_sorted=info.is_sorted)
    granules = granules_of(metadata)
    for number in dict.fromkeys((*numbers[:1], *numbers[-1:])) if info.is_sorted else numbers:
        bounds.add(chunkset.read([number], written.key_fields))
    if bounds.first is None or bounds.last is None:
        raise CorruptError(f"{info.path}: has no rows")
    first, last = rounded_keys(bounds.first, bounds.last)
    return replace(info, rows=metadata.num_rows, granules=granules, first_key=first, last_key=last)
