"""The question in a predicate: values that every matching row has, where looking them up beats reading statistics."""

from collections.abc import Iterator, Sequence

from needlefish.model.definition import TableDefinition
from needlefish.table.find import Wanted, wanted_values
from needlefish.table.find.asked import best_index
from needlefish.table.find.wanted import MOST_VALUES
from needlefish.table.predicate import And, Compare, OneOf, Predicate


def question(definition: TableDefinition, predicate: Predicate) -> Wanted | None:
    """What to ask a point index, else filters; None where neither knows the columns that are pinned."""
    asked = list(_questions(definition, list(_conjuncts(predicate))))
    indexed = (wanted for wanted in asked if best_index(definition, wanted) is not None)
    filtered = (wanted for wanted in asked if _has_filter(definition, wanted))
    return next(indexed, None) or next(filtered, None)


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from _conjuncts(part)
    else:
        yield predicate


def _questions(definition: TableDefinition, conjuncts: Sequence[Predicate]) -> Iterator[Wanted]:
    """All columns with one value together, which an index over several may answer; then each alone; then lists, short ones first."""
    single: dict[str, object] = {}
    for part in conjuncts:
        if isinstance(part, Compare) and part.operator == "=":
            single.setdefault(part.field.name, part.value)
    if len(single) > 1:
        yield wanted_values(definition, single)
    for name, value in single.items():
        yield wanted_values(definition, {name: value})
    lists = [part for part in conjuncts if isinstance(part, OneOf) and not part.negated and len(part.values) <= MOST_VALUES]
    for part in sorted(lists, key=lambda part: len(part.values)):
        yield wanted_values(definition, {part.field.name: part.values})


def _has_filter(definition: TableDefinition, wanted: Wanted) -> bool:
    return wanted.is_key or (len(wanted.fields) == 1 and wanted.fields[0].id in definition.bloom_columns)
