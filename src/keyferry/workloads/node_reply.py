"""What a node says from afar: a document of keyferry, which is read strictly, since the node may be anybody's."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from keyferry._core.secrets import printable
from keyferry._core.values import Value, field
from keyferry.api.meta import parse_time
from keyferry.clusters.api_calls import Json
from keyferry.errors import EnvironmentProblem, TimeError

__all__ = ["MAX_NAME", "NodeReply", "ReplyPart", "Through"]

MAX_NAME = 1024
_MAX_NUMBER = 1e10
_SECOND_NS = 1_000_000_000


class Through(StrEnum):
    """The pod that answers for a node."""

    AGENT = "agent"
    DEBUG_POD = "debug-pod"

    @property
    def noun(self) -> str:
        """The pod in words."""
        return "the node agent's pod" if self is Through.AGENT else "debug pod"


class NodeReply(Value):
    """The document that a command on a node printed, or the *problem* that there is none.

    It is what that node says: nothing in it is believed of anything else, and its texts may hold anything.
    """

    node: str
    through: Through
    pod: str
    exit_code: int = 0
    document: Json = field(default_factory=dict, repr=False)
    problem: str = ""


class ReplyPart:
    """An object of a node's document; a field of another type is an error that names its place and quotes nothing."""

    def __init__(self, value: object, where: str) -> None:
        self.where = where
        self.check(isinstance(value, dict), "", "expected an object")
        self._fields: Json = value if isinstance(value, dict) else {}

    def check(self, is_right: object, name: str, expected: str) -> None:
        """Raise EnvironmentProblem unless the field *name* is right."""
        if not is_right:
            place = f"{self.where}: {name}" if name else self.where
            raise EnvironmentProblem(f"{place}: {expected}; it is not understood here")

    def text(self, name: str, most: int = MAX_NAME, *, keep: str = "") -> str:
        """Return a string that is harmless on a terminal but for characters in *keep*; empty if there is none."""
        value = self._fields.get(name)
        self.check(value is None or isinstance(value, str), name, "expected a string")
        text = value if isinstance(value, str) else ""
        self.check(len(text) <= most, name, f"expected at most {most} characters")
        return printable(text, keep)

    def number(self, name: str) -> float | None:
        """Return a number, None if there is none."""
        value = self._fields.get(name)
        if value is None:
            return None
        number = value if isinstance(value, (int, float)) else 0
        self.check(number is value and not isinstance(value, bool), name, "expected a number")
        # Compared before it is converted: an integer of JSON may be larger than any float.
        self.check(abs(number) < _MAX_NUMBER, name, "expected a smaller number")
        return float(number)

    def time(self, name: str) -> float | None:
        """Return an instant in seconds since 1970, None if there is none."""
        text = self.text(name)
        try:
            return parse_time(text) / _SECOND_NS if text else None
        except TimeError:
            self.check(False, name, "expected a time")
            return None

    def has(self, name: str) -> bool:
        """Return whether there is a field, and it is not null."""
        return self._fields.get(name) is not None

    def is_true(self, name: str) -> bool:
        """Return whether a field is true."""
        return self._fields.get(name) is True

    def part(self, name: str) -> ReplyPart:
        """Return an object, an empty one if there is none."""
        value = self._fields.get(name)
        return ReplyPart({} if value is None else value, f"{self.where}: {name}")

    def items(self, name: str, most: int) -> list[object]:
        """Return a list of at most *most* entries, an empty one if there is none."""
        value = self._fields.get(name)
        self.check(value is None or isinstance(value, list), name, "expected a list")
        items = value if isinstance(value, list) else []
        self.check(len(items) <= most, name, f"expected at most {most} entries")
        return items

    def parts(self, name: str, most: int) -> Iterator[ReplyPart]:
        """Yield the objects of a list."""
        for at, each in enumerate(self.items(name, most)):
            yield ReplyPart(each, f"{self.where}: {name}[{at}]")

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """Return a list of strings that are harmless on a terminal."""
        items = self.items(name, most)
        self.check(
            all(isinstance(each, str) and len(each) <= MAX_NAME for each in items), name, "expected names"
        )
        return tuple(printable(str(each)) for each in items)
