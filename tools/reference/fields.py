"""The fields that a decoder knows, and their types: it is run on values that fit nowhere, and asks for each field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from keyferry._core.paths import Path
from keyferry.api.wire import Reader
from keyferry.errors import Detail, Kind

__all__ = ["find_fields"]

# A decoder may distinguish objects, lists and texts before it asks the reader for one of them.
_PROBES: tuple[object, ...] = ({}, [], "?%")


def find_fields(decode: Callable[[object, Reader], object]) -> dict[str, str]:
    """Return the type of each field by its path; ``[]`` is any place of a list, and ``*`` any name of a map."""
    readers = [_Asking(probe) for probe in _PROBES]
    for reader in readers:
        decode(reader.probe, reader)
    paths = dict.fromkeys(path for reader in readers for path in reader.types)
    return {
        _written(path): _joined([reader.types[path] for reader in readers if path in reader.types])
        for path in paths
    }


def _written(path: Path) -> str:
    return ".".join(map(str, path)).replace(".[]", "[]")


def _joined(types: list[str]) -> str:
    """Return what all probes found; a message about what is expected says it best."""
    messages = [each.removeprefix("!") for each in types if each.startswith("!")]
    return " or ".join(dict.fromkeys(messages or types))


class _Asking(Reader):
    """A reader that finds its probe everywhere, and notes what it was asked for."""

    def __init__(self, probe: object) -> None:
        super().__init__()
        self.probe = probe
        self.types: dict[Path, str] = {}

    def _note_type(self, path: Path, kind: str) -> None:
        # What is at this path belongs to a list or a map, or is decoded by one of the methods below.
        if path and path not in self.types:
            self.types[path] = kind

    def struct(self, value: object, path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Ask for every field."""
        self._note_type(path, "object")
        for name, decode in fields.items():
            decode(self.probe, (*path, name))
        return {}

    def list_of(self, decode: Callable[[object, Path], Any]) -> Callable[[object, Path], Any]:
        """Return a decoder that asks for one item."""

        def decode_list(value: object, path: Path) -> None:
            self._note_type(path, "list")
            decode(self.probe, (*path, "[]"))

        return decode_list

    def map_of(self, decode: Callable[[object, Path], Any]) -> Callable[[object, Path], Any]:
        """Return a decoder that asks for one value."""

        def decode_map(value: object, path: Path) -> None:
            self._note_type(path, "map")
            decode(self.probe, (*path, "*"))

        return decode_map

    def text(self, value: object, path: Path) -> str:
        """Note a text."""
        self._note_type(path, "text")
        return ""

    def boolean(self, value: object, path: Path) -> bool | None:
        """Note a switch."""
        self._note_type(path, "`true` or `false`")
        return None

    def duration(self, value: object, path: Path) -> int | None:
        """Note a duration."""
        self._note_type(path, "duration")
        return None

    def note(
        self, path: Path, message: str, kubernetes_text: str, kind: Kind, detail: Detail = Detail.NONE
    ) -> None:
        """Note what was expected, in the decoder's own words."""
        self.types[path] = "!" + message.partition("expected ")[2]
