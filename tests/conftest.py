"""Fixtures every room's tests may use: one Spark session and one S3 server for the whole run."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from needlefish.testing.s3 import S3Server, s3_server

# Two processes of tests: what starts them gives each a width, which output without a terminal must not have.
os.environ.pop("COLUMNS", None)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Seeds are printed on failure; the number of examples is kept small so that the unit tests take seconds.
settings.register_profile(
    "needlefish",
    max_examples=60 if os.environ.get("NEEDLEFISH_LONG") else 30,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("needlefish")


# Minutes in all: other stores, workloads and pairs of workers than those that every run tries. `make long` runs them too.
LONG = re.compile(
    r"test_schedules_services\.py::test_execute_and_(execute\[immutable|execute_after_a_death\[|upsert\[.*)-?up to"
    r"|test_clean_schedules\.py::.*every call"
    r"|test_everywhere\.py::test_the_suite_"
    r"|test_log_contention\.py::test_every_entry_is_there_exactly_once\[s3"
    r"|test_upsert_contention\.py::test_the_log_explains_what_is_visible\[s3"
    r"|test_smoke\.py::.*\[events"
    r"|test_kill_append\.py::"
    r"|test_clean_crash\.py::test_a_clean_that_dies_anywhere"
    r"|test_point_coverage\.py::test_a_crash_at_any_call_of_a_(build|merge)_loses_nothing\[cuckoo"
    r"|test_upsert_crash\.py::.*\[(upsert_present|delete_old)"
    r"|test_verify\.py::test_no_damage_ends_a_verification\[[1-9]"
    r"|test_scheduler\.py::test_what_is_skipped_changes_no_result"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("NEEDLEFISH_LONG"):
        return
    for item in items:
        if LONG.search(item.nodeid):
            item.add_marker(pytest.mark.skip(reason="takes long; make long runs it"))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from needlefish import spark_session

    session = spark_session(master="local[2]", app="needlefish tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")
