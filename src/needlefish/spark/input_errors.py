"""Input files that Spark cannot read as asked: whose file and which row, out of what the JVM says."""

import re
from urllib.parse import unquote

from needlefish.errors import InvalidError, NotFoundError

_FILE = re.compile(r"Encountered error while reading file (\S.*?)\.\s+(?:SQLSTATE|Could not read footer)")
_RECORD = re.compile(r"Malformed records are detected in record parsing: (.*?)\.\s*\n?Parse Mode")
# The innermost cause names the cell, in the words of whichever parser gave up on it.
_CELL = re.compile(
    r"""^Caused\ by:\ [\w.]*?
    (?: (?:Exception:\ )?\[CANNOT_PARSE_JSON_FIELD\]\ (?P<json>.*?)(?:\ SQLSTATE.*)?
      | (?:NumberFormat|DateTime|DateTimeParse|IllegalArgument|SparkDateTime|Arithmetic)Exception:\ (?P<csv>.*) )$""",
    re.MULTILINE | re.VERBOSE,
)
_HEADER = re.compile(r"CSV header does not conform to the schema\.\s*Header: (.*)\s*Schema: (.*)")
_MISSING = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (.*?)\.? SQLSTATE")


def input_error(text: str) -> InvalidError | NotFoundError | None:
    """The error in the input that a failure's text tells of; None if it tells of something else."""
    if found := _MISSING.search(text):
        return NotFoundError(f"{found[1]} does not exist; check the path")
    if found := _HEADER.search(text):
        return InvalidError(
            f"{_file(text)} has the header {found[1].strip()}, but the first file has {found[2].strip()}; append files with different columns one by one"
        )
    if found := _RECORD.search(text):
        cell = _CELL.search(text)
        cause = f" ({cell['json'] or cell['csv']})" if cell else ""
        return InvalidError(f"{_file(text)} has a row that does not fit the table's columns: {found[1]}{cause}; correct the row")
    if "CANNOT_READ_FILE_FOOTER" in text:
        return InvalidError(f"{_file(text)} is no Parquet file; correct it, or name its kind with --format")
    return None


def _file(text: str) -> str:
    found = _FILE.search(text)
    return unquote(found[1]).removeprefix("file://").removeprefix("file:") if found else "an input file"
