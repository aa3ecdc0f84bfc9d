"""The named lists of a kubeconfig: extensions as JSON, and duplicate names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry._core.paths import Path
from keyferry.api.codec import Reader
from keyferry.errors import Detail, Kind

# Sections, each with the field that holds an entry's content, in the order in which client-go converts them.
SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}

_GO_TYPES = {
    "clusters": ("NamedCluster", "*api.Cluster"),
    "users": ("NamedAuthInfo", "*api.AuthInfo"),
    "contexts": ("NamedContext", "*api.Context"),
    "extensions": ("NamedExtension", "runtime.Object"),
}
_STRING_OR_NUMBER = r'"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*'


def encode_extension(value: object) -> str:
    """Return *value* as compact JSON with sorted keys, as Kubernetes converts it from YAML."""
    # Imported here: few kubeconfigs have extensions.
    import json

    text = dumps(json.loads(json.dumps(value, sort_keys=True)))
    return re.sub(_STRING_OR_NUMBER, _format_number, text)


def _format_number(token: re.Match[str]) -> str:
    text = token[0]
    if text[0] == '"' or not re.search("[.eE]", text):
        return text
    # Go writes an exponent below 1e-6, Python below 1e-4; Go does not pad the exponent with a zero.
    from decimal import Decimal

    tiny = abs(Decimal(text)) < Decimal("1e-6")
    return text.replace("e-0", "e-") if tiny or "e+" in text else f"{Decimal(text):f}"


def note_clashes(document: object, reader: Reader) -> None:
    """Record in *reader* every name that occurs more than once in a list of *document*."""
    for path, name, section in _find_clashes(document):
        listed, mapped = _GO_TYPES[section]
        # client-go's text ends with the whole list, which includes tokens, so the list is left out.
        text = (
            f'error converting *[]{listed} into *map[string]{mapped}: duplicate name "{name}" in list: <dump>'
        )
        reader.note(
            path, f"the name {name!r} is given twice in this list", text, Kind.OTHER, Detail.REPEATED_NAME
        )


def _find_clashes(document: object) -> Iterator[tuple[Path, str, str]]:
    """Yield path, name and section of each repeated name, in the order in which client-go finds them."""
    if not isinstance(document, dict):
        return
    yield from _find_extension_clashes(document.get("preferences"), ("preferences",))
    for section, key in SECTIONS.items():
        seen: set[str] = set()
        for index, entry in enumerate(_entries(document, section)):
            yield from _find_extension_clashes(entry.get(key), (section, index, key))
            name = entry.get("name") or ""
            if str(name) in seen:
                yield (section, index, "name"), str(name), section
            seen.add(str(name))
    yield from _find_extension_clashes(document, ())


def _find_extension_clashes(holder: object, path: Path) -> Iterator[tuple[Path, str, str]]:
    seen: set[str] = set()
    for index, entry in enumerate(_entries(holder, "extensions")):
        name = str(entry.get("name") or "")
        if name in seen:
            yield (*path, "extensions", index, "name"), name, "extensions"
        # client-go does not count the name of an extension that is null.
        if entry.get("extension") is not None:
            seen.add(name)


def _entries(holder: object, section: str) -> list[dict[str, object]]:
    items = holder.get(section) if isinstance(holder, dict) else None
    return [item if isinstance(item, dict) else {} for item in items] if isinstance(items, list) else []
