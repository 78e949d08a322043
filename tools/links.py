"""Checks that relative links in the documents lead to files: `python tools/links.py`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def broken(root: Path = ROOT) -> list[str]:
    """Every link that leads nowhere, as `file: target`."""
    documents = [path for path in root.rglob("*.md") if not any(part.startswith(".") for part in path.relative_to(root).parts)]
    return [
        f"{path.relative_to(root)}: {target}"
        for path in sorted(documents)
        for target in _LINK.findall(path.read_text())
        if not (path.parent / target).exists()
    ]


def main() -> int:
    found = broken()
    print("\n".join(found) or "links: all lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
