"""Scenes in which the table is kept tidy: what changes left behind is folded away, and what nobody needs may go."""

from dataclasses import asdict

from needlefish.cli.clean import cleaned, removed_table
from needlefish.cli.demo.stage import Facts, Stage, Step
from needlefish.cli.human import bytes_text, counted
from needlefish.cli.progress import shown
from needlefish.cli.service_text import executed, plans_table

# Far below what a real table waits for: of the demo's rows few are hidden.
_HIDDEN_SHARE = 0.0001


def _compact(stage: Stage) -> Facts:
    stage.python(f'plan = table.schedule("compaction", hidden_share={_HIDDEN_SHARE})')
    plan = stage.table.schedule("compaction", hidden_share=_HIDDEN_SHARE)
    if plan is None:
        stage.say("Nothing is worth a compaction.")
        return {"compaction": None}
    before = stage.table.describe()
    stage.command(f"needlefish plans {stage.uri}")
    stage.console.print(plans_table(stage.table.plans()))
    stage.console.print()
    stage.python("table.execute(plan)")
    with shown("compacting", quiet=stage.quiet):
        result = stage.table.execute(plan)
    after = stage.table.describe()
    stage.console.print(executed(result))
    stage.say(
        f"{counted(before.files, 'file')} with {counted(before.skipped, 'hidden row')} became {counted(after.files, 'file')} with {after.skipped:,}; "
        f"[bold]{after.rows:,}[/] rows can be seen, as before. Writers need not wait: one that touches the same files ends the compaction."
    )
    return asdict(result) | {"files_in_table": after.files, "skipped": after.skipped, "rows_seen": after.rows}


def _clean(stage: Stage) -> Facts:
    stage.command(f"needlefish clean {stage.uri} --dry-run --keep-versions 1 --keep 0 --grace 0")
    result = stage.table.clean(dry_run=True, retained_versions=1, retained_seconds=0, grace_seconds=0)
    stage.console.print(removed_table(result))
    stage.console.print()
    stage.console.print(cleaned(result))
    stage.say(
        f"Older versions need these {bytes_text(result.bytes)}. Unless told otherwise a table keeps what is younger than a week; "
        "[bold]needlefish tend[/] compacts and cleans tables for as long as it runs."
    )
    return {"objects": result.objects, "bytes": result.bytes}


SERVICE_STEPS = (
    Step(
        title="Tidy again",
        text="Hidden rows take space, and small files take requests. A plan says what to rewrite; anybody may execute it.",
        run=_compact,
    ),
    Step(title="What nobody needs", text="What a clean would remove if only the newest version had to stay readable.", run=_clean),
)
