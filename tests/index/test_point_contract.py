"""The contract of point indexes, for every kind and for layouts that are hard on it."""

import pytest

from needlefish.model.point_index import PointIndexDefinition
from needlefish.testing.point_contract import PointContract


class TestPostings(PointContract):
    @pytest.fixture(params=[(2**27, 0.1), (10, 1_000.0)], ids=["as declared by default", "few slots"])
    def index(self, request: pytest.FixtureRequest) -> PointIndexDefinition:
        expected_keys, false_reads = request.param
        return PointIndexDefinition(name="a", fields=(1,), expected_keys=expected_keys, false_reads=false_reads)


class TestCuckoo(PointContract):
    @pytest.fixture(params=[(8, 64), (12, 61), (32, 7)], ids=lambda found: f"{found[0]} bits, {found[1]} buckets")
    def index(self, request: pytest.FixtureRequest) -> PointIndexDefinition:
        bits, buckets = request.param
        return PointIndexDefinition(name="a", fields=(1,), kind="cuckoo", bits=bits, buckets=buckets)
