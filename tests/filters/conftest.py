"""Both engines of the filters room: every test that takes `engine` runs without and with compiled kernels."""

from collections.abc import Iterator

import pytest

from needlefish.filters.compiling import BUDGET, PRICE_NS


@pytest.fixture(params=["numpy", "compiled"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    before = BUDGET.available, BUDGET.spent_ns
    BUDGET.available = request.param == "compiled"
    BUDGET.spent_ns = PRICE_NS
    yield request.param
    BUDGET.available, BUDGET.spent_ns = before
