"""Partition values as paths and back, whatever they contain."""

from hypothesis import example, given
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.model.chunkset import UNPARTITIONED
from needlefish.store import RetriedStore, open_store
from needlefish.table.partition import NULL_TEXT, path_of, values_of_path
from needlefish.table.partition.path import escape, unescape
from needlefish.testing.tables import build_table, scan_table

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_AWKWARD = [
    "",
    " ",
    ".",
    "..",
    "%",
    "%2F",
    "/",
    "a/b",
    "a=b",
    "\x00",
    "\n",
    NULL_TEXT,
    NULL_TEXT.lower(),
    "ä",
    "\U0001f41f",
    "a ",
    " a",
    "-",
    "+",
    "100%",
    "\\",
    "#",
    "?",
    "*",
]


@given(text=st.none() | _TEXTS | st.sampled_from(_AWKWARD))
def test_a_text_comes_back_from_its_escape(text: str | None) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert escaped.isascii()
    assert escaped
    assert not set(escaped) & set("/\\#?*=\x00\n\"'<>|")
    assert escaped not in (".", "..")
    assert escaped == escaped.strip()


@given(texts=st.lists(st.none() | _TEXTS | st.sampled_from(_AWKWARD), min_size=2, max_size=2, unique=True))
def test_different_texts_have_different_escapes(texts: list[str | None]) -> None:
    assert escape(texts[0]) != escape(texts[1])


@given(names=st.lists(_TEXTS.filter(bool), min_size=1, max_size=3), values=st.lists(st.none() | _TEXTS, min_size=3, max_size=3))
@example(names=["a=b", "c/d"], values=["x=y", "..", None])
def test_values_come_back_from_a_path(names: list[str], values: list[str | None]) -> None:
    path = path_of(names, values[: len(names)])
    assert values_of_path(path) == tuple(values[: len(names)])
    assert path.count("/") == len(names) - 1


def test_paths_look_like_those_of_hive() -> None:
    assert path_of(["day", "host"], ["2026-11-01", "a/b"]) == "day=2026-11-01/host=a%2Fb"
    assert path_of(["host"], [None]) == f"host={NULL_TEXT}"
    assert path_of(["t"], ["2026-11-01T00:00:00Z"]) == "t=2026-11-01T00:00:00Z"
    assert path_of([], []) == UNPARTITIONED
    assert values_of_path(UNPARTITIONED) == ()


def test_awkward_values_are_stored_and_found(store: RetriedStore, uri: str) -> None:
    rows = [{"id": number, "s": text} for number, text in enumerate([*_AWKWARD, None])]
    # A file system has opinions about names that a memory store has not.
    for target in (store, open_store(StoreConfig(uri=uri))):
        state = build_table(target, "id int32, s string", "id", rows, partition_by="s")
        assert state.totals.files == len(rows)
        for row in rows:
            found, receipt = scan_table(target, state, partitions={"s": row["s"]})
            assert (found.to_pylist(), receipt.files_read) == ([row], 1)
