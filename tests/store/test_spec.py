"""The table of requests in spec/store.md is the one in the code."""

import re
from pathlib import Path

from needlefish.store import shapes
from needlefish.store.base import Store
from needlefish.store.shapes import RequestShape

_SPEC = Path(__file__).parents[2] / "spec" / "store.md"
_WORDS = {"never joined": None, "never split": 0}


def _rows(first_heading: str) -> list[list[str]]:
    """The rows of every table of the specification whose first column is called that."""
    rows: list[list[str]] = []
    inside = False
    for line in _SPEC.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        inside = line.startswith("|") and (inside or cells[0] == first_heading)
        if inside and cells[0] not in (first_heading, "---"):
            rows.append(cells)
    return rows


def test_the_shapes_are_those_of_the_code() -> None:
    in_spec = {
        row[0]: tuple(_WORDS[cell] if cell in _WORDS else int(cell) for cell in row[1:]) for row in _rows("backend") if len(row) == 5
    }
    assert in_spec == {
        "local": _tuple(shapes.LOCAL),
        "memory": _tuple(shapes.MEMORY),
        "s3": _tuple(shapes.S3),
        "s3 without bulk delete": _tuple(shapes.S3_SINGLE_DELETE),
        "gs": _tuple(shapes.GS),
        "az": _tuple(shapes.AZ),
    }


def _tuple(shape: RequestShape) -> tuple[int | None, int, int, int]:
    return (shape.gap_bytes, shape.part_bytes, shape.page_keys, shape.delete_keys)


def test_every_operation_is_specified() -> None:
    specified = {name for row in _rows("operation") for name in re.findall(r"`(\w+)", row[0])}
    assert specified == {name for name in vars(Store) if not name.startswith("_")} - {"uri"}


def test_the_contract_in_code_and_spec_has_the_same_points() -> None:
    contract = [
        line.strip() for line in (Store.__doc__ or "").splitlines() if line.strip()[:2] in {f"{number}." for number in range(1, 10)}
    ]
    points = {line.partition(".")[0] for line in contract}
    guarantees = _SPEC.read_text().partition("## Guarantees")[2].partition("\n## ")[0]
    assert points == {str(number) for number in range(1, 8)}
    assert all(f"\n{point}. " in guarantees for point in points)
