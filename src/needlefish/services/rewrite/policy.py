"""What is worth compacting: chunksets with many hidden rows, and small ones where there are several.

Visible rows never change, so that a policy can be wrong only in what it costs. Plans are bounded; the next takes what is left.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from needlefish.errors import InvalidError
from needlefish.model.chunkset import PartitionPath
from needlefish.model.definition import Properties
from needlefish.services.rewrite.picks import Budget, Pick, Selection, group_of, in_key_order, picks_by_partition
from needlefish.services.rewrite.plan import Group, RewritePlan, Target, make_plan
from needlefish.table.snapshot import Snapshot

# Each input has a granule and a footer in memory while it is read.
_GROUP_FILES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """When a chunkset is worth it. Shares are from 0 to 1, of its rows and of the size that a chunkset is to have."""

    hidden_share: float = 0.1
    small_share: float = 0.5
    # So many small ones of a partition make it worth merging them.
    least_files: int = 4
    most_bytes: int = 8 * 1024**3

    def __post_init__(self) -> None:
        for name in ("hidden_share", "small_share"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
                raise InvalidError(f"{name} is {value!r}; give a share above 0 and up to 1")
        if isinstance(self.least_files, bool) or not isinstance(self.least_files, int) or self.least_files < 2:
            raise InvalidError(f"least_files is {self.least_files!r}; give a number of files from 2 up")


DEFAULT_POLICY = CompactionPolicy()


def plan_compaction(
    snapshot: Snapshot,
    policy: CompactionPolicy = DEFAULT_POLICY,
    *,
    partitions: Mapping[str, object] | None = None,
    where: str | None = None,
    files: Collection[str] | None = None,
    without: Collection[str] = (),
) -> RewritePlan | None:
    """What to compact in a version; None if nothing is worth it.

    What is chosen by hand is worth it whatever the policy says: `partitions` and `where` choose as a scan does, `files` by keys.
    Files `without` are left alone in any case.
    """
    selection = Selection(partitions=partitions, where=where, files=files, without=without)
    target = target_of(snapshot.state.definition.properties)
    budget = Budget(policy.most_bytes)
    groups: list[Group] = []
    for partition, picks in picks_by_partition(snapshot, selection):
        chosen = picks if selection.is_by_hand else _worth_it(picks, policy, target)
        packed = _packed(partition, chosen, policy, target)
        useful = (group for group in packed if selection.is_by_hand or len(group.files) > 1 or group.hidden)
        groups += [group for group in useful if budget.takes(len(group.files), group.bytes)]
    if not groups:
        return None
    return make_plan("compaction", snapshot.state.version, groups, target, left_files=budget.left_files, left_bytes=budget.left_bytes)


def target_of(properties: Properties) -> Target:
    return Target(bytes=properties.chunkset_bytes, rows=properties.chunkset_rows)


def _worth_it(picks: Sequence[Pick], policy: CompactionPolicy, target: Target) -> list[Pick]:
    hiding = [pick for pick in picks if pick.hidden >= policy.hidden_share * pick.rows]
    small = [pick for pick in picks if pick.visible and _is_small(pick, policy, target)]
    alike = [same for same in _alike(small) if len(same) >= policy.least_files]
    return list({pick.key: pick for pick in (*hiding, *(pick for same in alike for pick in same))}.values())


def _is_small(pick: Pick, policy: CompactionPolicy, target: Target) -> bool:
    return pick.visible_bytes < policy.small_share * target.bytes and pick.visible < policy.small_share * target.rows


def _alike(picks: Iterable[Pick]) -> Iterator[list[Pick]]:
    """Only files that were clustered the same way may become one: the others would spoil them."""

    def kind(pick: Pick) -> tuple[tuple[int, ...], str]:
        return pick.order, pick.curve

    for _, same in groupby(sorted(picks, key=kind), kind):
        yield list(same)


def _packed(partition: PartitionPath, picks: Sequence[Pick], policy: CompactionPolicy, target: Target) -> Iterator[Group]:
    """Groups that each give about one chunkset; what is large already stays alone, and what is all hidden merely goes."""
    gone = [pick for pick in picks if not pick.visible]
    if gone:
        yield group_of(partition, gone)
    for same in _alike(pick for pick in picks if pick.visible):
        small = []
        for pick in in_key_order(same):
            if _is_small(pick, policy, target):
                small.append(pick)
            else:
                yield group_of(partition, [pick])
        yield from (group_of(partition, bin_) for bin_ in _bins(small, target))


def _bins(picks: Iterable[Pick], target: Target) -> Iterator[list[Pick]]:
    """Each up to the size of a chunkset: all but the last are at least half full, since every pick takes less than half."""
    taken: list[Pick] = []
    rows = size = 0
    for pick in picks:
        if taken and (rows + pick.visible > target.rows or size + pick.visible_bytes > target.bytes or len(taken) == _GROUP_FILES):
            yield taken
            taken, rows, size = [], 0, 0
        taken.append(pick)
        rows, size = rows + pick.visible, size + pick.visible_bytes
    if taken:
        yield taken
