"""The lists of named things a kubeconfig is made of: extensions as JSON, and names given twice."""

import re
from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry._core.paths import Path
from keyferry.api.codec import Reader
from keyferry.errors import Detail, Kind

# Sections, and the field that holds an entry's content beside its name; in the order client-go converts them.
SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}

_GO_TYPES = {
    "clusters": ("NamedCluster", "*api.Cluster"),
    "users": ("NamedAuthInfo", "*api.AuthInfo"),
    "contexts": ("NamedContext", "*api.Context"),
    "extensions": ("NamedExtension", "runtime.Object"),
}
_STRING_OR_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*')


def encode_extension(value: object) -> str:
    """Compact JSON with sorted keys, as Kubernetes' conversion from YAML writes it."""
    # Few kubeconfigs have extensions.
    import json

    text = dumps(json.loads(json.dumps(value, sort_keys=True)))
    return _STRING_OR_NUMBER.sub(_format_number, text)


def _format_number(token: re.Match[str]) -> str:
    text = token[0]
    if text[0] == '"' or not re.search("[.eE]", text):
        return text
    # Go uses an exponent below 1e-6, where Python begins to at 1e-4, and pads it with no zero.
    from decimal import Decimal

    tiny = abs(Decimal(text)) < Decimal("1e-6")
    return text.replace("e-0", "e-") if tiny or "e+" in text else f"{Decimal(text):f}"


def note_clashes(document: object, reader: Reader) -> None:
    """Note in *reader* every name that a list of *document* gives twice."""
    for path, name, section in _find_clashes(document):
        listed, mapped = _GO_TYPES[section]
        # client-go ends with the whole list, tokens and all; nobody needs that.
        text = (
            f'error converting *[]{listed} into *map[string]{mapped}: duplicate name "{name}" in list: <dump>'
        )
        reader.note(
            path, f"the name {name!r} is given twice in this list", text, Kind.OTHER, Detail.REPEATED_NAME
        )


def _find_clashes(document: object) -> Iterator[tuple[Path, str, str]]:
    """Names given twice in a list, in the order client-go would come upon them: path, name and section."""
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
        # An extension that is null leaves its name free.
        if entry.get("extension") is not None:
            seen.add(name)


def _entries(holder: object, section: str) -> list[dict[str, object]]:
    items = holder.get(section) if isinstance(holder, dict) else None
    return [item if isinstance(item, dict) else {} for item in items] if isinstance(items, list) else []
