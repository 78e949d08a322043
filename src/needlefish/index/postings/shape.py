"""The shape of a postings run: what follows from its reference or its definition without reading anything."""

from collections.abc import Sequence
from dataclasses import dataclass

from needlefish.errors import CorruptError, InvalidError
from needlefish.filters.postings import check_universe, page_slots_for, slots_for_keys
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition, PointRun


@dataclass(frozen=True, slots=True)
class Shape:
    """A pair is slot x `granules` + ordinal; a page has the pairs of `page_slots` slots."""

    slots: int
    page_slots: int
    granules: int

    @property
    def pages(self) -> int:
        return -(-self.slots // self.page_slots)

    @property
    def universe(self) -> int:
        """Pairs that a page may have."""
        return self.page_slots * self.granules

    def base(self, page: int) -> int:
        return page * self.universe


def shape_of(point: PointRun) -> Shape:
    # A run without granules has no pairs, and any divisor does.
    return Shape(point.slots, point.page_slots, max(1, point.granules))


def slots_for(definition: PointIndexDefinition, total_keys: int) -> int:
    """Slots of a new run of a table with so many keys: those of one index differ by powers of two, so that they nest."""
    return slots_for_keys(definition.expected_keys, definition.false_reads, total_keys)


def point_of(ref: RunRef) -> PointRun:
    point = ref.point
    if point is None or point.kind != "postings":
        raise InvalidError(f"run {ref.id} of {ref.kind}: not a postings run; read it as the kind it has")
    return point


def logical_runs(runs: Sequence[RunRef]) -> list[list[RunRef]]:
    """The parts of each run together: a part that begins at page 0 begins a run."""
    groups: list[list[RunRef]] = []
    for run in runs:
        if point_of(run).first == 0:
            groups.append([])
        elif not groups or not _continues(point_of(groups[-1][-1]), point_of(run)):
            raise InvalidError(f"runs: {run.id} begins at page {point_of(run).first}; give all parts of a run, in order")
        groups[-1].append(run)
    for group in groups:
        _check_whole(group)
    return groups


def _continues(before: PointRun, after: PointRun) -> bool:
    return after.first == before.end and shape_of(before) == shape_of(after)


def _check_whole(group: list[RunRef]) -> None:
    last = point_of(group[-1])
    if last.end != shape_of(last).pages:
        raise InvalidError(f"runs: the parts of {group[0].id} end at page {last.end} of {shape_of(last).pages}; give all of them")


def merged_layout(runs: Sequence[RunRef]) -> PointRun:
    """What a merge of these runs is going to be, before dead granules are left out: its slots and pages are final."""
    groups = [[point_of(part) for part in group] for group in logical_runs(runs)]
    if not groups:
        raise InvalidError("runs: none; a merge needs at least one")
    slots = min(group[0].slots for group in groups)
    for group in groups:
        ratio, rest = divmod(group[0].slots, slots)
        if rest or ratio & (ratio - 1):
            raise CorruptError(f"runs of {group[0].slots} and {slots} slots: not of one index")
    keys = sum(part.keys for group in groups for part in group)
    granules = sum(group[0].granules for group in groups)
    check_universe(slots, granules)
    shape = Shape(slots, page_slots_for(slots, granules, keys), granules)
    return PointRun(kind="postings", keys=keys, granules=granules, first=0, end=shape.pages, slots=slots, page_slots=shape.page_slots)
