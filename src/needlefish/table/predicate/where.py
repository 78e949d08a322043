"""`where` texts: SQL conditions on columns and literals, parsed by sqlglot and bound to the table's schema.

What is understood: comparisons, AND, OR, NOT, IN, BETWEEN, IS [NOT] NULL, LIKE, literals, DATE and TIMESTAMP
literals. Anything else is refused by name, never guessed at.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar, NoReturn

from needlefish.errors import InvalidError
from needlefish.model.schema import Field, Schema
from needlefish.table.predicate.literal import compare, one_of
from needlefish.table.predicate.tree import And, Constant, IsNull, Like, Operator, Or, Predicate, negate

_FLIPPED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Whatever else sqlglot finds in a condition (SYMMETRIC, a query, a table's name) must not be passed over.
_ARGUMENTS = {"this", "expression", "expressions", "low", "high", "negate"}
_UNDERSTOOD = "comparisons of a column with a literal, AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL"


def parse_where(text: str, schema: Schema) -> Predicate:
    """The predicate that `text` states about rows of `schema`."""
    # Imported here: sqlglot takes longer to load than a find takes to run.
    import sqlglot
    from sqlglot.errors import SqlglotError

    if not isinstance(text, str) or not text.strip():
        raise InvalidError(f'where is {text!r}; give a condition such as "status >= 500", or leave it out')
    try:
        tree = sqlglot.parse_one(text, dialect=_dialect(), into=sqlglot.exp.Condition)
    except SqlglotError as error:
        raise InvalidError(f"where {text!r} cannot be read as a condition: {_complaint(error)}") from error
    return _Binder(text, schema).predicate(tree)


@cache
def _dialect() -> Any:
    """Spark's, in which a quote inside a text may also be written twice, as Spark 4 and every other SQL have it."""
    from sqlglot.dialects.spark import Spark

    class Where(Spark):
        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    return Where


def _complaint(error: Exception) -> str:
    """The place that sqlglot stumbled over; its own message shows classes of its tree."""
    for place in getattr(error, "errors", ()):
        complaint = place["description"].partition(" for <class")[0]
        return f"{complaint}, near {place['highlight']!r} at position {len(place['start_context'])}"
    return str(error).splitlines()[0]


class _Binder:
    """Turns sqlglot's tree into ours. Nodes are matched by class name, so that the import above can stay lazy."""

    def __init__(self, text: str, schema: Schema) -> None:
        self._text = text
        self._schema = schema
        self._rules: dict[str, Callable[[Any], Predicate]] = {
            "Paren": lambda node: self.predicate(node.this),
            "And": lambda node: And(parts=(self.predicate(node.left), self.predicate(node.right))),
            "Or": lambda node: Or(parts=(self.predicate(node.left), self.predicate(node.right))),
            "Not": lambda node: negate(self.predicate(node.this)),
            "Boolean": lambda node: Constant(value=bool(node.this)),
            "Null": lambda node: Constant(value=None),
            "EQ": lambda node: self._compare(node, "="),
            "NEQ": lambda node: self._compare(node, "!="),
            "LT": lambda node: self._compare(node, "<"),
            "LTE": lambda node: self._compare(node, "<="),
            "GT": lambda node: self._compare(node, ">"),
            "GTE": lambda node: self._compare(node, ">="),
            "In": self._in,
            "Between": self._between,
            "Is": self._is,
            "Like": self._like,
            "Column": self._bare_column,
        }

    def predicate(self, node: Any) -> Predicate:
        rule = self._rules.get(type(node).__name__)
        if rule is None or any(value for name, value in node.args.items() if name not in _ARGUMENTS):
            self._refuse(node)
        found = rule(node)
        # `NOT LIKE` is a mark on the node, where `NOT IN` is a node around it.
        return negate(found) if node.args.get("negate") else found

    def _refuse(self, node: Any) -> NoReturn:
        raise InvalidError(f"where {self._text!r}: {node.sql(dialect='spark')!r} is not supported; use {_UNDERSTOOD}")

    def _is_column(self, node: Any) -> bool:
        return type(node).__name__ == "Column"

    def _column(self, node: Any) -> Field:
        if not self._is_column(node) or node.table:
            self._refuse(node)
        return self._schema.field(node.name, "where")

    def _bare_column(self, node: Any) -> Predicate:
        field = self._column(node)
        if field.type != "boolean":
            raise InvalidError(
                f"where {self._text!r}: column {field.name!r} of type {field.type} is not a condition; compare it with something"
            )
        return compare(field, "=", True)

    def _compare(self, node: Any, operator: Operator) -> Predicate:
        left, right = node.left, node.right
        if not self._is_column(left) and self._is_column(right):
            left, right, operator = right, left, _FLIPPED[operator]
        return compare(self._column(left), operator, self._literal(right))

    def _in(self, node: Any) -> Predicate:
        if not node.expressions:
            self._refuse(node)
        return one_of(self._column(node.this), [self._literal(item) for item in node.expressions])

    def _between(self, node: Any) -> Predicate:
        field = self._column(node.this)
        low, high = self._literal(node.args["low"]), self._literal(node.args["high"])
        return And(parts=(compare(field, ">=", low), compare(field, "<=", high)))

    def _is(self, node: Any) -> Predicate:
        if type(node.expression).__name__ != "Null":
            self._refuse(node)
        return IsNull(field=self._column(node.this))

    def _like(self, node: Any) -> Predicate:
        field = self._column(node.this)
        pattern = self._literal(node.expression)
        if field.type != "string" or not isinstance(pattern, str):
            raise InvalidError(f"where {self._text!r}: LIKE compares a string column with a quoted pattern; {field.name!r} is {field.type}")
        if "\\" in pattern:
            raise InvalidError(f"where {self._text!r}: escapes in LIKE patterns are not supported; compare with = or a longer prefix")
        return Like(field=field, pattern=pattern)

    def _literal(self, node: Any) -> object:
        match type(node).__name__:
            case "Literal":
                return node.this if node.is_string else _number(node.this)
            case "Neg":
                value = self._literal(node.this)
                return -value if isinstance(value, int | Decimal) else self._refuse(node)
            case "Boolean":
                return bool(node.this)
            case "Null":
                return None
            case "Paren":
                return self._literal(node.this)
            case "HexString":
                return bytes.fromhex(node.this if len(node.this) % 2 == 0 else "0" + node.this)
            case "Cast" | "TryCast" if type(node.this).__name__ == "Literal":
                return self._typed_literal(node)
        return self._refuse(node)

    def _typed_literal(self, node: Any) -> object:
        """`DATE '2026-11-01'`, `TIMESTAMP '…'`, `DOUBLE('NaN')`, `10L`, which sqlglot all shows as casts."""
        kind, value = node.to.this.name, self._literal(node.this)
        if kind.startswith(("DATE", "TIMESTAMP")) and isinstance(value, str):
            return value
        if kind in ("DOUBLE", "FLOAT") and isinstance(value, str | int | Decimal):
            return self._float(node, value)
        return value if isinstance(value, int) and kind == "BIGINT" else self._refuse(node)

    def _float(self, node: Any, value: str | int | Decimal) -> float:
        try:
            return float(value)
        except (ValueError, OverflowError):
            self._refuse(node)


def _number(text: str) -> int | Decimal:
    return int(text) if text.isdigit() else Decimal(text)
