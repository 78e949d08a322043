"""Column types: text to Arrow and back, every Arrow type taken or refused."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.errors import InvalidError
from needlefish.model.types import PRIMITIVES, is_nested, parse_type, type_text

_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
_PRIMITIVES = st.sampled_from(list(PRIMITIVES.values()))
_DECIMALS = st.integers(1, 38).flatmap(lambda precision: st.integers(0, precision).map(lambda scale: pa.decimal128(precision, scale)))


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.dictionaries(_NAMES, inner, min_size=1, max_size=3).map(lambda fields: pa.struct(list(fields.items())))
    lists = inner.map(lambda kind: pa.list_(pa.field("element", kind)))
    return structs | lists | st.tuples(inner, inner).map(lambda pair: pa.map_(*pair))


_TYPES = st.recursive(_PRIMITIVES | _DECIMALS, _nested, max_leaves=6)


@given(kind=_TYPES)
def test_every_type_comes_back_from_its_text(kind: pa.DataType) -> None:
    text = type_text(kind, "c")
    assert parse_type(text) == kind
    assert type_text(parse_type(text), "c") == text


@given(kind=_TYPES, blanks=st.sampled_from(["", " ", "\t", "\n  "]))
def test_case_and_blanks_do_not_matter(kind: pa.DataType, blanks: str) -> None:
    text = type_text(kind, "c")
    if "`" not in text and "struct" not in text:
        assert parse_type(blanks + text.upper().replace("<", f"{blanks}<{blanks}").replace(",", f"{blanks},{blanks}") + blanks) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bool", pa.bool_()),
        ("tinyint", pa.int8()),
        ("byte", pa.int8()),
        ("smallint", pa.int16()),
        ("short", pa.int16()),
        ("int", pa.int32()),
        ("integer", pa.int32()),
        ("bigint", pa.int64()),
        ("LONG", pa.int64()),
        ("real", pa.float32()),
        ("float32", pa.float32()),
        ("float64", pa.float64()),
        ("str", pa.string()),
        ("text", pa.string()),
        ("varchar", pa.string()),
        ("bytes", pa.binary()),
        ("date32", pa.date32()),
        ("timestamptz", pa.timestamp("us", "UTC")),
        ("timestamp_ltz", pa.timestamp("us", "UTC")),
        ("numeric(10)", pa.decimal128(10, 0)),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("array<int>", pa.list_(pa.int32())),
        ("struct<`a b`: int, c:string>", pa.struct([("a b", pa.int32()), ("c", pa.string())])),
        ("map<string, array<double>>", pa.map_(pa.string(), pa.list_(pa.float64()))),
    ],
)
def test_usual_names_are_read(text: str, kind: pa.DataType) -> None:
    assert parse_type(text) == kind


def test_the_texts_of_storage_are_pinned() -> None:
    """Do not rename: they are in every log."""
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    assert list(PRIMITIVES) == ["boolean", *integers, "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"]
    assert type_text(pa.struct([("a", pa.list_(pa.decimal128(9, 2))), ("b-c", pa.map_(pa.string(), pa.date32()))]), "c") == (
        "struct<a:list<decimal(9,2)>,`b-c`:map<string,date>>"
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.large_binary(), "binary"),
        (pa.binary_view(), "binary"),
        (pa.binary(16), "binary"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.large_list(pa.int8()), "list<int8>"),
        (pa.list_(pa.int8(), 3), "list<int8>"),
        (pa.decimal32(5, 2), "decimal(5,2)"),
        (pa.decimal64(5, 2), "decimal(5,2)"),
        (pa.decimal256(38, 2), "decimal(38,2)"),
        (pa.timestamp("s"), "timestamp_ntz"),
        (pa.timestamp("ms", "Europe/Berlin"), "timestamp"),
        (pa.timestamp("us", "+02:00"), "timestamp"),
        (pa.list_(pa.timestamp("ms", "UTC")), "list<timestamp>"),
    ],
)
def test_arrow_types_with_the_same_meaning_are_taken(kind: pa.DataType, text: str) -> None:
    assert type_text(kind, "c") == text


@pytest.mark.parametrize(
    "kind",
    [
        pa.null(),
        pa.float16(),
        pa.date64(),
        pa.time32("s"),
        pa.time64("us"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(39, 2),
        pa.decimal128(5, -1),
        pa.decimal128(2, 5),
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.list_(pa.timestamp("ns")),
        pa.struct([]),
        pa.struct([("", pa.int8())]),
        pa.struct([("a", pa.int8()), ("a", pa.int8())]),
        pa.list_view(pa.int8()),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.uuid(),
        pa.dense_union([pa.field("a", pa.int8())]),
    ],
    ids=str,
)
def test_other_arrow_types_are_refused_with_the_column(kind: pa.DataType) -> None:
    with pytest.raises(InvalidError, match=r"column 'the column' has type .*(cast|rename)"):
        type_text(kind, "the column")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "type '': expected a type name, but the text ends at position 0"),
        ("nonsense", "type 'nonsense': there is no type 'nonsense'; use one of boolean, int8"),
        ("int128", "there is no type 'int128'"),
        ("decimal", r"type 'decimal': expected '\(', but the text ends"),
        ("decimal(0,0)", r"decimal\(0,0\) is out of range; precision is 1 to 38 and scale 0 to precision"),
        ("decimal(39,0)", r"decimal\(39,0\) is out of range"),
        ("decimal(5,6)", r"decimal\(5,6\) is out of range"),
        ("decimal(5,-1)", r"decimal\(5,-1\) is out of range"),
        ("decimal(5.5)", "expected a whole number, but found '5.5"),
        ("list", "expected '<'"),
        ("list<int", "expected '>', but the text ends"),
        ("list<>", "expected a type name, but found '>'"),
        ("struct<>", "expected a field name, but found '>'"),
        ("struct<a int>", "expected ':', but found 'int>'"),
        ("map<string>", "expected ',', but found '>'"),
        ("int int", "expected the end, but found 'int' at position 3"),
        ("int;", "expected the end, but found ';'"),
    ],
)
def test_bad_texts_are_refused_with_the_place(text: str, complaint: str) -> None:
    with pytest.raises(InvalidError, match=complaint):
        parse_type(text)


@given(
    text=st.text(max_size=30)
    | st.lists(
        st.sampled_from(["list", "<", ">", "int", "struct", "a", ":", ",", "decimal", "(", "5", ")", "`", "'", "map"]), max_size=8
    ).map("".join)
)
def test_any_text_is_a_type_or_invalid(text: str) -> None:
    try:
        assert parse_type(text) is not None
    except InvalidError as error:
        assert "type" in str(error)  # noqa: PT017


def test_nested_types_are_told_apart() -> None:
    assert [
        is_nested(kind)
        for kind in (pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8()), pa.string(), pa.decimal128(5))
    ] == [True, True, True, False, False]
