"""Columns that come, go, change names and grow: every schema the table has had reads as today's, and old entries never prune."""

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, InvalidError
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, open_store
from needlefish.table.commit import commit_append
from needlefish.table.evolve import Changes, evolve, evolved
from needlefish.table.find import FindReceipt
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table, write_rows
from needlefish.timeline import read_newest, read_state_at

Row = dict[str, Any]

_numbers = count()


def find(store: RetriedStore, state: TableState, keys: list[object] | None = None, **values: object) -> tuple[list[Row], FindReceipt]:
    found, receipt = find_table(store, state, keys, **values)
    return list(found.to_pylist()), receipt


def scan(store: RetriedStore, state: TableState, **request: object) -> list[Row]:
    return list(scan_table(store, state, **request)[0].to_pylist())


def table(store: RetriedStore, schema: str = "id string, n int32, note string", **arguments: Any) -> TableState:
    rows = [{"id": f"k{number}", "n": number, "note": f"note {number}"} for number in range(6)]
    return build_table(store, schema, "id", rows, **arguments)


def test_all_changes_in_one_version(store: RetriedStore) -> None:
    before = table(store)
    changes = Changes(add={"more": "double"}, drop=["note"], rename={"n": "count"}, widen={"n": "int64"}, reorder=["count", "more"])
    after = evolve(store, before, changes)
    assert after.version == before.version + 1
    assert [(field.id, field.name, field.type) for field in after.definition.schema.fields] == [
        (2, "count", "int64"),
        (4, "more", "double"),
        (1, "id", "string"),
    ]
    after = append_rows(store, after, [{"id": "k6", "count": 2**40, "more": 0.5}])
    found = sorted(scan(store, after, where="count >= 5"), key=lambda row: int(row["count"]))
    assert found == [{"count": 5, "more": None, "id": "k5"}, {"count": 2**40, "more": 0.5, "id": "k6"}]
    assert read_newest(store) == after
    old = read_state_at(store, before.version, after)
    assert old == before
    assert scan(store, old, where="n = 5") == [{"id": "k5", "n": 5, "note": "note 5"}]


def test_a_column_that_comes_back_begins_empty(store: RetriedStore) -> None:
    """Neither its old values nor anything recorded of them may show or rule out."""
    state = table(store, bloom_columns=["n"])
    state = evolve(store, state, Changes(drop=["note"]))
    state = evolve(store, state, Changes(add={"note": "string"}))
    assert [field.id for field in state.definition.schema.fields] == [1, 2, 4]
    assert scan(store, state, where="note is not null") == []
    state = append_rows(store, state, [{"id": "x", "n": 1, "note": "zzz"}])
    assert find(store, state, note="note 3")[0] == []
    found, receipt = find(store, state, note="zzz")
    assert found == [{"id": "x", "n": 1, "note": "zzz"}]
    ranges = receipt.level("ranges")
    assert (ranges.files_in, ranges.files_out, ranges.unknown) == (2, 2, 1), "the old file is not ruled out by what it had then"
    assert (receipt.granules_read, receipt.granules_pruned) == (1, 1), "but its schema says that there is nothing to read"
    assert [row["id"] for row in scan(store, state, where="note = 'zzz'")] == ["x"]
    assert len(scan(store, state, where="note is null")) == 6


def test_dropping_and_adding_in_one_call_is_a_new_column(store: RetriedStore) -> None:
    state = evolve(store, table(store), Changes(drop=["n"], add={"n": "string"}))
    assert [(field.id, field.type) for field in state.definition.schema.fields] == [(1, "string"), (3, "string"), (4, "string")]
    assert {row["n"] for row in scan(store, state)} == {None}


def test_names_may_be_swapped(store: RetriedStore) -> None:
    state = evolve(store, table(store), Changes(rename={"n": "note", "note": "n"}))
    assert scan(store, state, where="note = 3") == [{"id": "k3", "note": 3, "n": "note 3"}]
    assert find(store, state, n="note 4")[0] == [{"id": "k4", "note": 4, "n": "note 4"}]


def test_ids_are_never_used_again(store: RetriedStore) -> None:
    state = table(store)
    seen = {field.id for field in state.definition.schema.fields}
    for _ in range(4):
        state = evolve(store, state, Changes(add={"x": "int32"}))
        fresh = state.definition.schema.fields[-1].id
        assert fresh not in seen
        seen.add(fresh)
        state = evolve(store, state, Changes(drop=["x"]))
    assert [schema.id for schema in state.definition.schemas] == list(range(1, 10))


@pytest.mark.parametrize(
    ("line", "least", "most"),
    [
        (["int8", "int16", "int32", "int64"], -128, 127),
        (["uint8", "uint16", "uint32", "uint64"], 0, 255),
        (["float", "double"], -1.5, 2.5),
        (["decimal(4,2)", "decimal(5,2)", "decimal(9,2)", "decimal(10,2)", "decimal(38,2)"], Decimal("-99.99"), Decimal("99.99")),
    ],
)
@pytest.mark.parametrize("role", ["key", "bloom", "plain", "partition"])
def test_a_widened_column_is_found_under_every_type_it_has_had(
    store: RetriedStore, line: list[str], least: Any, most: Any, role: str
) -> None:
    """Hashes differ by width, and so do statistics; the file's own type decides."""
    transform = "round(v, 1)" if line[0] == "float" else "bucket(v, 4)"
    schema = f"v {line[0]}, id int32"
    state = build_table(
        store, schema, ["v", "id"] if role != "key" else "v", [{"v": least, "id": 0}, {"v": most, "id": 1}],
        partition_by=[transform] if role == "partition" else [], bloom_columns=["v"] if role == "bloom" else [],
    )  # fmt: skip
    values = {0: least, 1: most}
    for step, kind in enumerate(line[1:], 1):
        state = evolve(store, state, Changes(widen={"v": kind}))
        value = most * 10 ** (step - 1) * 2 if role == "key" else most
        state = append_rows(store, state, [{"v": value, "id": step + 1}])
        values[step + 1] = value
    for number, value in values.items():
        same = {other for other, found in values.items() if found == value}
        assert {row["id"] for row in find(store, state, v=value)[0]} == same, (number, value)
        assert {row["id"] for row in scan(store, state, where=f"v = {value}", columns=["id"])} == same
    assert find(store, state, v=most + 1)[0] == []
    assert len(scan(store, state)) == len(values)


def test_a_value_too_wide_for_old_files_rules_them_out(store: RetriedStore) -> None:
    state = evolve(store, build_table(store, "id int8", "id", [{"id": -128}, {"id": 127}]), Changes(widen={"id": "int64"}))
    found, receipt = find(store, state, id=100)
    assert (found, receipt.level("data").files_in) == ([], 0), "the filter was asked under the old type"
    assert find(store, state, id=127)[0] == [{"id": 127}]


REFUSED = {
    "nothing": (Changes(), "evolve has nothing to change"),
    "the same name": (Changes(rename={"n": "n"}), "evolve has nothing to change"),
    "the same order": (Changes(reorder=["id"]), "evolve has nothing to change"),
    "dropping the key": (Changes(drop=["id"]), "drop names column 'id', which is part of the key"),
    "dropping a partition's source": (Changes(drop=["day"]), "drop names column 'day', which is what the partitions are computed from"),
    "dropping a bloom column": (Changes(drop=["user"]), "drop names column 'user', which is in bloom_columns"),
    "dropping what is not there": (Changes(drop=["x"]), "drop names column 'x', which the table does not have"),
    "renaming what is not there": (Changes(rename={"x": "y"}), "rename names column 'x'"),
    "renaming to a name in use": (Changes(rename={"n": "NOTE"}), r"rename\['n'\]: there would be the columns 'NOTE' and 'note'"),
    "adding a name in use": (Changes(add={"n": "int8"}), r"add\['n'\]: there would be the columns 'n' and 'n'"),
    "adding twice but for case": (Changes(add={"x": "int8", "X": "int8"}), r"add\['x'\]: there would be the columns 'x' and 'X'"),
    "adding a reserved name": (Changes(add={"_needlefish_x": "int8"}), "a column named '_needlefish_x'"),
    "adding an unknown type": (Changes(add={"x": "strin"}), r"add\['x'\] 'strin': there is no type 'strin'"),
    "adding a required column": (Changes(add={"x": "int8 not null"}), "leave out 'not null'"),
    "dropping and renaming": (Changes(drop=["n"], rename={"n": "m"}), "rename names column 'n', which drop names as well"),
    "dropping and widening": (Changes(drop=["n"], widen={"n": "int64"}), "widen names column 'n', which drop names as well"),
    "narrowing": (Changes(widen={"n": "int16"}), r"widen\['n'\] is 'int16'; a column of type int32 can become int64"),
    "widening to the same": (Changes(widen={"n": "int32"}), "can become int64"),
    "another kind": (Changes(widen={"n": "double"}), "can become int64"),
    "another sign": (Changes(widen={"n": "uint64"}), "can become int64"),
    "text": (Changes(widen={"note": "binary"}), "a column of type string can become nothing else"),
    "another scale": (Changes(widen={"price": "decimal(12,3)"}), r"can become decimal\(11,2\) up to decimal\(38,2\)"),
    "fewer digits": (Changes(widen={"price": "decimal(9,2)"}), r"can become decimal\(11,2\)"),
    "reordering what is not there": (Changes(reorder=["n", "x"]), "reorder names column 'x', which the table will not have"),
    "reordering twice": (Changes(reorder=["n", "n"]), "reorder names column 'n' twice"),
    "a text for a list": (Changes(drop="note"), "drop is 'note'; give a list of column names"),
    "a list for a mapping": (Changes(add=["x"]), r"add is \['x'\]; give a mapping such as"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_by_name(store: RetriedStore, name: str) -> None:
    schema = "id string, n int32, note string, day date, user string, price decimal(10,2)"
    state = build_table(store, schema, "id", partition_by=["month(day)"], bloom_columns=["user"])
    changes, words = REFUSED[name]
    with pytest.raises(InvalidError, match=words):
        evolve(store, state, changes)
    assert read_newest(store).version == state.version


def test_an_append_under_the_old_schema_conflicts(store: RetriedStore) -> None:
    base = table(store)
    written = write_rows(store, base, [{"id": "x", "n": 1, "note": None}])
    evolve(store, base, Changes(drop=["note"]))
    with pytest.raises(ConflictError, match="redefined"):
        commit_append(store, base, written)
    assert len(scan(store, read_newest(store))) == 6


def test_the_second_of_two_that_change_columns_is_told_to_look_again(store: RetriedStore) -> None:
    base = table(store)
    first = evolve(store, base, Changes(rename={"n": "m"}))
    with pytest.raises(ConflictError, match="open it again"):
        evolve(store, base, Changes(drop=["n"]))
    assert read_newest(store) == first


def test_appends_do_not_stand_in_the_way(store: RetriedStore) -> None:
    base = table(store)
    append_rows(store, base, [{"id": "x", "n": 7, "note": None}])
    after = evolve(store, base, Changes(rename={"n": "m"}))
    assert sorted(row["m"] for row in scan(store, after)) == [0, 1, 2, 3, 4, 5, 7]


# The random part: a model that knows columns by a token of its own and never heard of files.

_POOLS: dict[str, list[Any]] = {
    "int": [-128, -1, 0, 1, 5, 127, 2_000, 2**31 - 1, -(2**63), 2**63 - 1],
    "uint": [0, 1, 200, 255, 65_535, 2**32, 2**64 - 1],
    "float": [-1.5, -0.0, 0.0, 0.5, math.nan, math.inf, 0.1, 1e300],
    "decimal": [Decimal("-9.99"), Decimal("0.00"), Decimal("0.01"), Decimal("9.99"), Decimal("123456789.01")],
    "string": ["", "a", "b", "zz", "ä"],
}
_LINES = {
    "int": ["int8", "int16", "int32", "int64"],
    "uint": ["uint8", "uint16", "uint32", "uint64"],
    "float": ["float", "double"],
    "decimal": ["decimal(3,2)", "decimal(9,2)", "decimal(12,2)", "decimal(38,2)"],
    "string": ["string"],
}
_HOLDS = {
    "float": lambda value: value != 0.1 and value != 1e300,
    "decimal(3,2)": lambda value: abs(value) < 10,
    "decimal(9,2)": lambda value: abs(value) < 10**7,
}
_NAMES = ["a", "b", "c", "d", "e"]


@dataclass(frozen=True)
class Column:
    token: int
    name: str
    line: str
    step: int = 0
    pinned: bool = False

    @property
    def type(self) -> str:
        return _LINES[self.line][self.step]

    def pool(self) -> list[Any]:
        return [value for value in _POOLS[self.line] if _holds(self.type, value)]


def _holds(kind: str, value: Any) -> bool:
    if kind.startswith(("int", "uint")):
        bits = int(kind.removeprefix("u").removeprefix("int"))
        return (0 <= value < 2**bits) if kind.startswith("u") else (-(2 ** (bits - 1)) <= value < 2 ** (bits - 1))
    return bool(_HOLDS.get(kind, lambda _: True)(value))


def _same(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other and one is not None and other is not None)


def _shown(rows: list[Row]) -> list[Any]:
    return sorted(
        (
            sorted(
                (name, "nan" if value != value else repr(value + 0.0) if isinstance(value, float) else repr(value))
                for name, value in row.items()
            )
            for row in rows
        ),
        key=repr,
    )


class Model:
    def __init__(self) -> None:
        self.columns = [
            Column(0, "k", "int", pinned=True),
            Column(1, "seq", "int", 2, pinned=True),
            Column(2, "p", "uint", pinned=True),
            Column(3, "bl", "decimal", pinned=True),
            Column(4, "a", "float"),
            Column(5, "b", "string"),
        ]
        self.rows: list[dict[int, Any]] = []
        self.tokens = 6

    def row(self, row: dict[int, Any]) -> Row:
        return {column.name: row.get(column.token) for column in self.columns}

    def shown(self, rows: list[dict[int, Any]]) -> list[Any]:
        return _shown([self.row(row) for row in rows])

    def schema(self) -> str:
        return ", ".join(f"{column.name} {column.type}" for column in self.columns)


def _append(model: Model, data: st.DataObject) -> list[Row]:
    added = []
    for _ in range(data.draw(st.integers(1, 4))):
        row: dict[int, Any] = {}
        for column in model.columns:
            cell = st.sampled_from(column.pool())
            if column.token == 1:
                row[1] = len(model.rows) + len(added)
            else:
                row[column.token] = data.draw(cell if column.pinned and column.token in (0, 2) else st.none() | cell)
        added.append(row)
    shown = [model.row(row) for row in added]
    model.rows += added
    return shown


def _change(model: Model, data: st.DataObject) -> Changes | None:
    free = [column for column in model.columns if not column.pinned]
    unused = [name for name in _NAMES if name not in {column.name for column in model.columns}]
    what = data.draw(st.sampled_from(["add", "drop", "rename", "widen", "swap", "again", "reorder"]))
    if what == "add" and unused:
        column = Column(model.tokens, data.draw(st.sampled_from(unused)), data.draw(st.sampled_from(list(_LINES))))
        model.tokens += 1
        model.columns.append(column)
        return Changes(add={column.name: column.type})
    if what == "drop" and free:
        column = data.draw(st.sampled_from(free))
        model.columns.remove(column)
        return Changes(drop=[column.name])
    if what == "again" and free:
        old = data.draw(st.sampled_from(free))
        column = Column(model.tokens, old.name, data.draw(st.sampled_from(list(_LINES))))
        model.tokens += 1
        model.columns.remove(old)
        model.columns.append(column)
        return Changes(drop=[old.name], add={column.name: column.type})
    if what == "rename" and unused:
        place = data.draw(st.integers(0, len(model.columns) - 1))
        old, new = model.columns[place].name, data.draw(st.sampled_from(unused))
        model.columns[place] = replace(model.columns[place], name=new)
        return Changes(rename={old: new})
    if what == "swap":
        one, other = data.draw(st.permutations(range(len(model.columns))))[:2]
        names = model.columns[one].name, model.columns[other].name
        model.columns[one] = replace(model.columns[one], name=names[1])
        model.columns[other] = replace(model.columns[other], name=names[0])
        return Changes(rename={names[0]: names[1], names[1]: names[0]})
    if what == "widen":
        places = [place for place, column in enumerate(model.columns) if column.step + 1 < len(_LINES[column.line])]
        if places:
            place = data.draw(st.sampled_from(places))
            model.columns[place] = replace(model.columns[place], step=model.columns[place].step + 1)
            return Changes(widen={model.columns[place].name: model.columns[place].type})
    if what == "reorder":
        order = data.draw(st.permutations(model.columns))
        if order != model.columns:
            model.columns = list(order)
            return Changes(reorder=[column.name for column in order])
    return None


def _check(model: Model, store: RetriedStore, state: TableState, data: st.DataObject) -> None:
    assert _shown(scan(store, state)) == model.shown(model.rows)
    column = data.draw(st.sampled_from(model.columns))
    value = data.draw(st.sampled_from(column.pool()))
    equal = [row for row in model.rows if row.get(column.token) is not None and _same(row[column.token], value)]
    found, receipt = find(store, state, **{column.name: value})
    assert _shown(found) == model.shown(equal), (column, value)
    assert not receipt.unreadable
    literal = f"CAST('{value}' AS DOUBLE)" if column.line == "float" else f"'{value}'" if column.line == "string" else str(value)
    assert _shown(scan(store, state, where=f"{column.name} = {literal}")) == model.shown(equal), (column, value)
    nulls = [row for row in model.rows if row.get(column.token) is None]
    assert _shown(scan(store, state, where=f"{column.name} is null")) == model.shown(nulls)
    if model.rows:
        row = data.draw(st.sampled_from(model.rows))
        assert _shown(find(store, state, keys=[(row[0], row[1])])[0]) == model.shown([row])


@settings(max_examples=50)
@given(data=st.data())
def test_random_changes_and_appends_read_as_the_model_does(data: st.DataObject) -> None:
    store = open_store(StoreConfig(uri=f"memory://evolve-{next(_numbers)}"))
    model = Model()
    partition_by = data.draw(st.sampled_from([[], ["bucket(p, 3)"], ["p"], ["round(p, 100)"]]))
    state = build_table(
        store,
        model.schema(),
        ["k", "seq"],
        partition_by=partition_by,
        bloom_columns=["bl"],
        properties={"granule_rows": 2, "chunkset_rows": 4},
    )
    past: list[tuple[TableState, list[Any]]] = []
    for _ in range(data.draw(st.integers(2, 7))):
        past.append((state, model.shown(model.rows)))
        if data.draw(st.booleans()):
            state = append_rows(store, state, _append(model, data))
        else:
            changes = _change(model, data)
            state = state if changes is None else evolve(store, state, changes)
        _check(model, store, state, data)
    old, shown = data.draw(st.sampled_from(past))
    assert _shown(scan(store, read_state_at(store, old.version, state))) == shown


def test_the_definition_before_is_left_alone(store: RetriedStore) -> None:
    definition = table(store).definition
    after = evolved(definition, Changes(add={"x": "list<string>"}))
    assert after.schemas[0] is definition.schemas[0]
    assert after.schema.fields[-1].type == "list<string>"
