"""Figures in documents come from the result files: what a document says is what they say."""

import json
import shutil
from pathlib import Path

import pytest
from benchmarks.budgets import judged
from benchmarks.figures import BLOCKS, DOCUMENTS, written
from benchmarks.record import RESULTS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_says_what_the_results_say(document: Path) -> None:
    text = document.read_text()
    assert text.count("<!-- figures ") == text.count("<!-- end of figures -->") > 0
    assert written(text, RESULTS, document) == text, "run: python -m benchmarks.figures"


def test_another_result_is_another_figure(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    path = tmp_path / "results" / "upsert.json"
    result = json.loads(path.read_text())
    result["peers"]["needlefish"]["runs"][-1]["seconds"] = 123.4
    path.write_text(json.dumps(result))
    make, source = BLOCKS["upsert"]
    before, after = ("\n".join(make(folder, source, DOCUMENTS[0])) for folder in (RESULTS, path.parent))
    assert "123" in after
    assert "123" not in before.split("commit")[0]


def test_a_budget_is_missed_when_it_is(tmp_path: Path) -> None:
    shutil.copy(RESULTS / "upsert.json", tmp_path)
    result = json.loads((tmp_path / "upsert.json").read_text())
    for name, seconds in (("needlefish", 6.0), ("deltalake", 10.0)):
        result["peers"][name]["runs"][-1]["seconds"] = seconds
    (tmp_path / "upsert.json").write_text(json.dumps(result))
    found = {budget.what: budget for budget in judged(tmp_path)}
    assert len(found) == 3
    assert not found["upsert of 1%, warm session: ours / delta-rs merge"].met
