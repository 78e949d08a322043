"""The peak memory of this process and of everything it started, from /proc."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

_EVERY_SECONDS = 0.05


class Peaks:
    """Peak resident bytes by process, and what each process is."""

    def __init__(self) -> None:
        self.by_process: dict[int, tuple[str, int]] = {}

    def look(self) -> None:
        for process in _family(os.getpid()):
            found = _peak(process)
            if found is not None:
                self.by_process[process] = (_name(process), found)

    @property
    def total_bytes(self) -> int:
        """Of all processes together: above the true peak where they did not have theirs at once."""
        return sum(peak for _, peak in self.by_process.values())

    def by_name(self) -> dict[str, list[int]]:
        """The peaks of all processes of a kind, largest first."""
        names = sorted({name for name, _ in self.by_process.values()})
        return {name: sorted((peak for other, peak in self.by_process.values() if other == name), reverse=True) for name in names}


def forget_peaks() -> None:
    """Begins anew: the kernel sets every process's peak to what it holds now, where it lets us."""
    for process in _family(os.getpid()):
        with suppress(OSError):
            Path(f"/proc/{process}/clear_refs").write_text("5")


@contextmanager
def watched() -> Iterator[Peaks]:
    """Looks at all processes many times a second; the kernel keeps each one's peak, so that only short lives are missed."""
    peaks, done = Peaks(), Event()

    def watch() -> None:
        while not done.wait(_EVERY_SECONDS):
            peaks.look()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        peaks.look()
        done.set()
        thread.join()


def _family(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _read(entry / "stat")):
            # The name in brackets may hold spaces; the parent is the second word after it.
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


def _peak(process: int) -> int | None:
    lines = _read(Path(f"/proc/{process}/status")).splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), None)


def _name(process: int) -> str:
    command = _read(Path(f"/proc/{process}/cmdline"))
    if process == os.getpid():
        return "driver"
    if "pyspark" in command and "java" not in command.split("\0")[0]:
        return "Spark worker"
    return "JVM" if "java" in command.split("\0")[0] else "other"


def _read(path: Path) -> str:
    """Nothing where the process has just ended."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
