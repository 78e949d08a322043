"""A cursor over the small texts that users write: types, schemas and partition columns."""

import re

from needlefish.errors import InvalidError

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][\w.]*)|(?P<back>`(?:[^`]|``)+`)|(?P<quoted>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)|(?P<mark>[<>(),:]))"
)


class Tokens:
    """Reads a text from left to right; every complaint shows the text and the place."""

    def __init__(self, text: str, what: str) -> None:
        self.text = text
        self.what = what
        self._at = 0

    def _next(self) -> re.Match[str] | None:
        return _TOKEN.match(self.text, self._at)

    def _complain(self, wanted: str) -> InvalidError:
        rest = self.text[self._at :].strip()
        seen = f"found {rest[:20]!r}" if rest else "the text ends"
        return InvalidError(f"{self.what} {self.text!r}: expected {wanted}, but {seen} at position {self._at}")

    def take(self, mark: str) -> bool:
        """Steps over `mark` (a sign or a word, any case) if it comes next."""
        found = self._next()
        if found is None or found.group().strip().lower() != mark:
            return False
        self._at = found.end()
        return True

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise self._complain(repr(mark))

    def word(self, wanted: str) -> str:
        """A bare or backquoted name."""
        found = self._next()
        if found is None or not (found["word"] or found["back"]):
            raise self._complain(wanted)
        self._at = found.end()
        return str(found["word"] or found["back"][1:-1].replace("``", "`"))

    def number(self) -> int:
        found = self._next()
        if found is None or not found["number"] or "." in found["number"]:
            raise self._complain("a whole number")
        self._at = found.end()
        return int(found["number"])

    def literal(self) -> str | None:
        """A quoted text or a number, as text; None if neither comes next."""
        found = self._next()
        if found is None or not (found["quoted"] or found["number"]):
            return None
        self._at = found.end()
        return str(found["quoted"][1:-1].replace("''", "'") if found["quoted"] else found["number"])

    def at_end(self) -> bool:
        return not self.text[self._at :].strip()

    def end(self) -> None:
        if not self.at_end():
            raise self._complain("the end")
