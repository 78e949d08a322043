"""Fixtures every room's tests may use: one Spark session and one S3 server for the whole run."""

import os
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
settings.register_profile("needlefish", max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("needlefish")


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
