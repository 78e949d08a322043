"""The report: from result files alone, every peer and every reason on the page, every chart in both formats."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.charts import bars, save
from benchmarks.peers import OURS
from benchmarks.questions import QUESTIONS
from benchmarks.record import machine
from benchmarks.report import main
from benchmarks.runner import compare
from benchmarks.seats import InlineSeat
from benchmarks.workloads import WORKLOADS, Sizes

RUN = {"seconds": 2.5, "written_bytes": 3_000_000, "batch_bytes": 1_000_000, "peak_bytes": 400_000_000, "peaks": {}}
COST = {"status": "ok", "reason": "", "median_ms": 81.0, "p90_ms": 90.0, "requests": 2.0, "bytes": 4096.0, "dollars_per_million": 0.8}
BAD = {"status": "failed", "reason": "OutOfMemory <8 GB>"}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    found = compare(
        WORKLOADS["events"](Sizes(files=2, rows=100)), (OURS, "duckdb", "polars"), QUESTIONS[:4], tmp_path / "bench", InlineSeat
    )
    step: dict[str, Any] = found.encode()
    sizes = {"workload": "events", "files": 2, "rows_per_file": 100}
    _keep(tmp_path, "compare-events", step)
    _keep(tmp_path, "growth-events", {"workload": "events", "steps": [step, {**step, "files": 20}]})
    upserts = {OURS: {"status": "ok", "right": True, "runs": [RUN, RUN]}, "deltalake": {**BAD, "runs": []}}
    _keep(tmp_path, "upsert", {**sizes, "share": 0.01, "peers": upserts})
    costs = {OURS: {"questions": {"find_one": COST}}, "polars": {"questions": {"find_one": {**COST, **BAD}}}}
    _keep(tmp_path, "objectstore", {**sizes, "delay_ms": 40, "peers": costs})
    return tmp_path


def _keep(folder: Path, name: str, result: dict[str, Any]) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"machine": machine(), **result}))


def test_the_page_has_everything(results: Path) -> None:
    assert main(["--results", str(results), "--plots", str(results / "plots")]) == 0
    page = (results / "report.html").read_text()
    for expected in (OURS, "duckdb", "polars", "deltalake", "find one row by key", "OutOfMemory &lt;8 GB&gt;", "from 2 to 20 files"):
        assert expected in page
    assert "<8 GB>" not in page
    charts = {path.stem for path in (results / "plots").glob("*.svg")}
    assert charts == {path.stem for path in (results / "plots").glob("*.png")}
    assert {"find-events", "growth-events", "upsert-seconds", "upsert-peak_bytes", "objectstore-requests"} <= charts


def test_the_same_results_give_the_same_chart(tmp_path: Path) -> None:
    panels = [
        (
            "find one",
            {OURS: {"status": "ok", "median_ms": 1.0, "p10_ms": 0.9, "p90_ms": 1.3}, "duckdb": {"status": "failed", "reason": "x"}},
        )
    ]
    drawn = [save(bars(panels, "median_ms", "ms"), tmp_path / name, "chart").read_bytes() for name in ("one", "two")]
    assert drawn[0] == drawn[1]
    assert b"failed" in drawn[0]


def test_what_is_not_measured_is_named(tmp_path: Path) -> None:
    main(["--results", str(tmp_path), "--plots", str(tmp_path)])
    page = (tmp_path / "report.html").read_text()
    assert "Not measured yet: <code>python -m benchmarks.upsert</code>" in page
