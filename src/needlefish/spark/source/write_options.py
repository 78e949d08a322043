"""Options of writes. Spark hands every one over as text, and does not tell upper from lower case in their names."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.log import Batch
from needlefish.spark.source.options import check_names, store_config
from needlefish.table.delivered.commit import Operation

IfExists = Literal["append", "error", "ignore"]

_ANY = ("path", "operation", "orderby", "key", "partitionby")
_OF_BATCHES = (*_ANY, "batch", "ifexists")
# Spark hands over what belongs to the query as well.
_OF_STREAMS = (*_ANY, "application", "checkpointlocation", "queryname")

# Commas between texts, not those inside brackets: "day(ts), bucket(id, 8)".
_COMMA = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a write may be told. `key` and `partition_by` are for a table that is not there yet."""

    store: StoreConfig
    operation: Operation
    order_by: str | None = None
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    batch: Batch | None = None
    if_exists: IfExists = "append"
    application: str | None = None


def batch_options(options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """`df.write.format("needlefish")`: operation, orderBy, batch, key, partitionBy, ifExists."""
    return _options(options, _OF_BATCHES, overwrite, "mode is overwrite")


def stream_options(options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """`df.writeStream.format("needlefish")`: operation, orderBy, key, partitionBy, application."""
    return _options(options, _OF_STREAMS, overwrite, "outputMode is complete")


def _options(options: Mapping[str, str], known: Iterable[str], overwrite: bool, said: str) -> WriteOptions:
    check_names(options, known)
    operation = _operation(options.get("operation"), overwrite, said)
    order_by = options.get("orderBy")
    if order_by is not None and operation != "upsert":
        raise InvalidError(
            f"orderBy is {order_by!r}, but the operation is {operation}; leave it out, or give option('operation', 'upsert')"
        )
    return WriteOptions(
        store=store_config(options),
        operation=operation,
        order_by=order_by,
        key=_texts(options.get("key"), "key", "id"),
        partition_by=_texts(options.get("partitionBy"), "partitionBy", "day(ts)"),
        batch=_batch(options.get("batch")),
        if_exists=_if_exists(options.get("ifExists"), overwrite),
        application=options.get("application"),
    )


def _operation(given: str | None, overwrite: bool, said: str) -> Operation:
    text = (given or ("overwrite" if overwrite else "append")).lower()
    if text not in ("append", "overwrite", "upsert"):
        raise InvalidError(f"operation is {given!r}; give append or upsert")
    if overwrite != (text == "overwrite"):
        raise InvalidError(f"operation is {given!r}, but {said if overwrite else 'mode is append'}; choose one of them")
    return text  # type: ignore[return-value]


def _if_exists(given: str | None, overwrite: bool) -> IfExists:
    text = (given or "append").lower()
    text = "error" if text == "errorifexists" else text
    if text not in ("append", "error", "ignore"):
        raise InvalidError(f"ifExists is {given!r}; give append, error or ignore")
    if overwrite and text != "append":
        raise InvalidError(f"ifExists is {given!r}, but mode is overwrite; use mode append with it")
    return text  # type: ignore[return-value]


def _texts(given: str | None, option: str, example: str) -> tuple[str, ...]:
    """Texts between commas, or a JSON list."""
    if given is None:
        return ()
    texts: object = [text.strip() for text in _COMMA.split(given)]
    if given.lstrip().startswith("["):
        try:
            texts = json.loads(given)
        except ValueError as error:
            raise InvalidError(
                f"{option} is {given!r}, which is no JSON ({error}); give texts such as {example!r}, or a JSON list"
            ) from error
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise InvalidError(f"{option} is {given!r}; give texts such as {example!r}, with commas between them, or a JSON list")
    return tuple(texts)


def _batch(given: str | None) -> Batch | None:
    """`etl:17`; a name may have colons in it."""
    if given is None:
        return None
    application, _, number = given.rpartition(":")
    if not application or not number.strip().isdecimal():
        raise InvalidError(f"batch is {given!r}; give the application's name and the batch's number, such as 'etl:17'")
    return Batch(application=application, number=int(number))
