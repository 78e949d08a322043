"""Errors inside Spark, as ours: the words of the task that failed, without the JVM's."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from needlefish.errors import BY_NAME, JobFailedError, NeedlefishError
from needlefish.spark.input_errors import input_error

# A Python traceback ends in the class and the words of the error, which the JVM quotes whole.
_OURS = re.compile(r"needlefish\.errors\.(\w+): (.*?)(?=\n\s*(?:SQLSTATE|at |\Z)|\n\n|\n\tat |\Z)", re.DOTALL)
_LAST_LINE = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b.*)$", re.MULTILINE)

# py4j begins with a line of its own; each cause of the JVM's error follows on a line like this.
_CAUSE = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)*([\w$]+(?:Exception|Error)): *(.*)$", re.MULTILINE)


@contextmanager
def our_errors() -> Iterator[None]:
    """Runs a Spark action; whatever fails in it is raised as one of ours."""
    try:
        yield
    except Exception as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from error
        # Classic Spark lets some JVM errors through as py4j's own class, which this room must not import.
        if not isinstance(error, PySparkException) and not type(error).__module__.startswith("py4j"):
            raise
        raise translated(str(error)) from error


def _was_interrupted(error: BaseException | None) -> bool:
    """Ctrl-C makes pyspark cancel its jobs, whose cancellation is then reported in place of the interrupt."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def translated(text: str) -> NeedlefishError:
    """The error that a failure's text tells of."""
    ours = _OURS.search(text)
    if ours and ours[1] in BY_NAME:
        return BY_NAME[ours[1]](ours[2].strip())
    return input_error(text) or JobFailedError(f"a Spark job failed: {_reason(text)}")


def _reason(text: str) -> str:
    """The last line of Python's traceback, else the innermost of the JVM's causes, else what was said first."""
    python = _LAST_LINE.findall(text) if "Traceback" in text else []
    causes = [f"{found[1]}: {found[2]}" for found in _CAUSE.finditer(text) if found[2]]
    first = text.strip().splitlines()[:1]
    return str((python or causes or first)[-1]).strip()
