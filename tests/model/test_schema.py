"""Schemas from text and from Arrow: names, ids, nullability, and names that cannot be."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.errors import InvalidError
from needlefish.model.schema import Field, Schema, schema_from_arrow, schema_from_text
from needlefish.model.text import Tokens
from needlefish.model.types import PRIMITIVES, quote_name

_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: not name.lower().startswith("_needlefish")
)


def test_a_text_is_read() -> None:
    schema = schema_from_text("id string not null, `the time`: timestamp , tags list<int> NOT NULL,\n m decimal(5,2)")
    assert schema == Schema(
        id=1,
        fields=(
            Field(id=1, name="id", type="string", nullable=False),
            Field(id=2, name="the time", type="timestamp"),
            Field(id=3, name="tags", type="list<int32>", nullable=False),
            Field(id=4, name="m", type="decimal(5,2)"),
        ),
    )
    assert schema.names == ("id", "the time", "tags", "m")
    assert schema.field("m", "x").id == 4
    assert schema.field_by_id(2).name == "the time"


@given(fields=st.dictionaries(_NAMES, st.tuples(st.sampled_from(list(PRIMITIVES)), st.booleans()), min_size=1, max_size=6))
def test_text_and_arrow_agree(fields: dict[str, tuple[str, bool]]) -> None:
    if len({name.lower() for name in fields}) < len(fields):
        return
    text = ", ".join(f"{quote_name(name)} {kind}{'' if nullable else ' not null'}" for name, (kind, nullable) in fields.items())
    arrow = pa.schema([pa.field(name, PRIMITIVES[kind], nullable=nullable) for name, (kind, nullable) in fields.items()])
    assert schema_from_text(text) == schema_from_arrow(arrow)
    assert schema_from_arrow(schema_from_text(text).to_arrow()) == schema_from_text(text)
    assert schema_from_text(text).to_arrow().equals(arrow)


def test_arrow_fields_carry_their_ids() -> None:
    arrow = schema_from_text("a int, b string not null").to_arrow()
    assert [(field.name, field.nullable, field.metadata) for field in arrow] == [
        ("a", True, {b"PARQUET:field_id": b"1"}),
        ("b", False, {b"PARQUET:field_id": b"2"}),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "schema '': expected a column name, but the text ends"),
        ("a", "schema 'a': expected a type name, but the text ends"),
        ("a int,", "expected a column name, but the text ends"),
        ("a int b int", "expected the end, but found 'b int' at position 5"),
        ("a int not", "expected 'null', but the text ends"),
        ("a nonsense", "schema 'a nonsense': there is no type 'nonsense'"),
        ("5 int", "expected a column name, but found '5 int'"),
        ("`` int", "expected a column name"),
        ("a int, A int", "schema has the columns 'a' and 'A', which Spark cannot tell apart; rename one"),
        ("a int, a int", "schema has the columns 'a' and 'a'"),
        ("_needlefish_partition string", "schema has a column named '_needlefish_partition'; names are not empty and do not start with"),
        ("_Needlefish string", "schema has a column named '_Needlefish'"),
    ],
)
def test_bad_texts_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidError, match=complaint):
        schema_from_text(text)


@pytest.mark.parametrize(
    ("arrow", "complaint"),
    [
        (pa.schema([]), "schema has no columns; give at least the key's"),
        (pa.schema([("", pa.int8())]), "schema has a column named ''"),
        (pa.schema([("a", pa.int8()), ("A", pa.int8())]), "schema has the columns 'a' and 'A'"),
        (
            pa.schema([("t", pa.timestamp("ns"))]),
            r"column 't' has type timestamp\[ns\]; a table keeps microseconds, as Spark does: cast it to timestamp\('us'\)",
        ),
    ],
)
def test_bad_arrow_schemas_are_refused(arrow: pa.Schema, complaint: str) -> None:
    with pytest.raises(InvalidError, match=complaint):
        schema_from_arrow(arrow)


def test_an_unknown_column_names_the_argument_and_the_columns() -> None:
    with pytest.raises(InvalidError, match="key names column 'c', which the table does not have; its columns are a, b"):
        schema_from_text("a int, b int").field("c", "key")


def test_a_cursor_steps_over_words_signs_and_literals() -> None:
    tokens = Tokens(" day ( `a``b` , 'it''s' , -5 , 1.5 ) As x", what="test")
    assert tokens.word("w") == "day"
    assert not tokens.take(")")
    assert tokens.take("(")
    assert tokens.word("w") == "a`b"
    tokens.expect(",")
    assert tokens.literal() == "it's"
    tokens.expect(",")
    assert tokens.number() == -5
    tokens.expect(",")
    with pytest.raises(InvalidError, match=r"test .*: expected a whole number, but found '1.5 \) As x' at position"):
        tokens.number()
    assert tokens.literal() == "1.5"
    assert tokens.literal() is None
    tokens.expect(")")
    assert not tokens.at_end()
    with pytest.raises(InvalidError, match="expected the end, but found 'As x'"):
        tokens.end()
    assert tokens.take("as")
    assert tokens.word("w") == "x"
    assert tokens.at_end()
    tokens.end()
    with pytest.raises(InvalidError, match="expected more, but the text ends"):
        tokens.word("more")


def test_a_quoted_word_is_no_sign() -> None:
    tokens = Tokens("`as` '('", what="test")
    assert not tokens.take("as")
    assert tokens.word("w") == "as"
    assert not tokens.take("(")


@given(name=_NAMES)
def test_a_quoted_name_is_read_as_itself(name: str) -> None:
    tokens = Tokens(quote_name(name), what="test")
    assert tokens.word("a name") == name
    tokens.end()
