"""Local paths as Spark takes them."""

import re

_PATTERN = re.compile(r"[{}\[\]*?\\]")


def file_uri(path: str) -> str:
    """Hadoop reads some signs of a path as patterns unless a backslash stands before them."""
    return "file://" + _PATTERN.sub(r"\\\g<0>", path)
