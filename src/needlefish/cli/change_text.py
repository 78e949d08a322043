"""What upserts and deletes did, in a sentence and a line of what it cost."""

from collections.abc import Mapping

from rich.text import Text

from needlefish.cli.human import bytes_text, counted, seconds_text
from needlefish.table.upsert.result import DeleteResult, UpsertResult


def upserted(result: UpsertResult) -> Text:
    """An upsert; what did not happen is left out, except that rows always count as inserted or replaced."""
    if result.repeated:
        return _repeated(result.version)
    if not (result.files or result.deleted):
        return _unchanged(result.version)
    what = [f"{result.inserted:,} inserted", f"{result.replaced:,} replaced"]
    what += [f"{count:,} {name}" for name, count in (("deleted", result.deleted), ("late", result.late)) if count]
    if result.duplicates:
        what.append(counted(result.duplicates, "duplicate"))
    wrote = f"{counted(result.files, 'file')}, {bytes_text(result.bytes)}"
    return _told(result.version, f"{', '.join(what)}; {wrote}", result)


def deleted(result: DeleteResult) -> Text:
    """A delete, by keys or by a condition."""
    if result.repeated:
        return _repeated(result.version)
    absent = f", {result.absent:,} absent" if result.absent else ""
    if not result.deleted:
        return _unchanged(result.version, absent)
    return _told(result.version, f"{counted(result.deleted, 'row')} deleted{absent}", result)


def _repeated(version: int) -> Text:
    return Text(f"this batch, or a later one of its name, is there already: nothing was done, the table is at version {version}")


def _unchanged(version: int, why: str = "") -> Text:
    return Text(f"no rows{why}: nothing was changed, the table is at version {version}")


def _told(version: int, what: str, result: UpsertResult | DeleteResult) -> Text:
    healed = f", {counted(result.healed, 'round')} of comparing with other writers" if result.healed else ""
    cost = f"{stages_text(result.stages)}; {counted(result.requests, 'request')}{healed}"
    return Text.assemble(f"version {version}: {what}, in {seconds_text(result.seconds)}", "\n", (cost, "dim"))


def stages_text(stages: Mapping[str, float]) -> str:
    """`write 2.1 s, compare 800 ms, commit 12 ms`."""
    return ", ".join(f"{name} {seconds_text(seconds)}" for name, seconds in stages.items())
