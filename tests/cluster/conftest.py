"""Which Spark the suite runs on: the shared local session, or the one that test_everywhere.py names.

A process has one kind of session for its whole life, so that each of the others has a process of its own.
"""

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import needlefish as nf
from needlefish.testing.clusters.processes import BRIEF_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "SUITE_MASTER"
SETTINGS = "SUITE_SETTINGS"
CONFIG = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": BRIEF_JAVA,
    "spark.executor.extraJavaOptions": BRIEF_JAVA,
}

if MASTER in os.environ:

    @pytest.fixture(scope="session")
    def spark() -> Iterator["SparkSession"]:
        session = nf.spark_session(
            master=os.environ[MASTER], app="needlefish suite", config=CONFIG | json.loads(os.environ.get(SETTINGS, "{}"))
        )
        nf.ship(session)
        yield session
        session.stop()


@pytest.fixture(scope="session")
def kind() -> str:
    """local, cluster or connect."""
    master = os.environ.get(MASTER, "local")
    return "connect" if master.startswith("sc:") else "cluster" if master.startswith("spark:") else "local"
