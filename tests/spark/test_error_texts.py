"""What the JVM says, in our words. The texts are Spark's own, with the stack frames shortened."""

import pytest
from pyspark.errors import PySparkException

from needlefish.errors import InvalidError, JobFailedError, NeedlefishError, NotFoundError
from needlefish.spark.errors import our_errors, translated

PY4J = "An error occurred while calling o86.getResult.\n: org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat org.apache.spark.Some.frame(S.scala:1)\n"
READING = "Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/my%20file.csv.  SQLSTATE: KD001\n\tat x\n"
MALFORMED = (
    "Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected in record parsing: [b,null].\n"
    "Parse Mode: FAILFAST. To process malformed records as null result, try setting the option 'mode' as 'PERMISSIVE'.  SQLSTATE: 22023\n\tat x\n"
)
FITS_NOT = "/data/my file.csv has a row that does not fit the table's columns: [b,null]"

TEXTS: dict[str, tuple[str, type[NeedlefishError], str]] = {
    "number": (
        PY4J + READING + MALFORMED + 'Caused by: java.lang.NumberFormatException: For input string: "x2"\n\tat x\n',
        InvalidError,
        FITS_NOT + ' (For input string: "x2"); correct the row',
    ),
    "json": (
        PY4J + READING + MALFORMED + "Caused by: org.apache.spark.SparkRuntimeException: [CANNOT_PARSE_JSON_FIELD] Cannot parse the field name 'n'. SQLSTATE: 2203G\n",
        InvalidError,
        FITS_NOT + " (Cannot parse the field name 'n'.); correct the row",
    ),
    "no cause": (PY4J + READING + MALFORMED, InvalidError, FITS_NOT + "; correct the row"),
    "header": (
        PY4J + READING + "Caused by: org.apache.spark.SparkIllegalArgumentException: CSV header does not conform to the schema.\n Header: n, id\n Schema: id, n\nExpected: id\n",
        InvalidError,
        "/data/my file.csv has the header n, id, but the first file has id, n; append files with different columns one by one",
    ),
    "missing": ("[PATH_NOT_FOUND] Path does not exist: file:/nothere.csv. SQLSTATE: 42K03", NotFoundError, "file:/nothere.csv does not exist; check the path"),
    "innermost cause": (
        PY4J + "Caused by: java.io.IOException: wrapped\n\tat x\nCaused by: java.net.UnknownHostException: bucket.s3\n",
        JobFailedError,
        "a Spark job failed: UnknownHostException: bucket.s3",
    ),
    "nothing but words": ("[SOME_ERROR] It is so.\nMore.", JobFailedError, "a Spark job failed: [SOME_ERROR] It is so."),
    "python": ("Job aborted\nTraceback (most recent call last):\n  File\nZeroDivisionError: division by zero\n", JobFailedError, "a Spark job failed: ZeroDivisionError: division by zero"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_failure_is_told_in_our_words(name: str) -> None:
    text, kind, words = TEXTS[name]
    error = translated(text)
    assert (type(error), str(error)) == (kind, words)


def test_an_interrupt_stays_one_though_spark_reports_its_jobs_as_cancelled() -> None:
    def interrupted_action() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise PySparkException("[SPARK_JOB_CANCELLED] Job 1 cancelled as part of cancellation of all jobs")

    with pytest.raises(KeyboardInterrupt), our_errors():
        interrupted_action()


def test_bugs_are_not_dressed_up() -> None:
    with pytest.raises(ZeroDivisionError), our_errors():
        1 / 0  # noqa: B018
