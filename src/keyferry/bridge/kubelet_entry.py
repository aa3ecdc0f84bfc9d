"""The entry of a shim beside the plugins in the kubelet's config: put in and taken out, every other byte kept.

Each edit is checked: the new text must mean exactly the old document with the one entry more or less.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

import yaml

from keyferry._core.documents import read_document
from keyferry._core.severity import Severity
from keyferry.bridge.file_change import FileChange, make_diff, make_part_diff, read_text
from keyferry.errors import DocumentError, EnvironmentProblem
from keyferry.images.config.read import read_config
from keyferry.lint.kinds.providers import lint

# For answers of a plugin behind the shim that name no duration; those of the agent say that they are not to be cached.
_DURATION = "10m"
_API_VERSION = "credentialprovider.kubelet.k8s.io/v1"
_HEAD = "# Written by 'keyferry bridge kubelet install --beside'; 'uninstall' removes it.\n"
_SHOWN = ("name", "matchImages", "defaultCacheDuration", "apiVersion")
_KINDS = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"


def plan_entry_install(
    path: str, name: str, match_images: Sequence[str], *, is_own: bool = False
) -> FileChange:
    """Return the change that adds a provider to the kubelet's config at *path*, a file or a folder.

    A config that has the provider stays as it is, unless the entry *is_own*, that is, was added here: then it gets
    these patterns. Raise EnvironmentProblem if the kubelet would refuse the config, with the entry or without.
    """
    entry: dict[str, object] = {
        "name": name,
        "matchImages": list(match_images),
        "defaultCacheDuration": _DURATION,
        "apiVersion": _API_VERSION,
    }
    if os.path.isdir(path):
        return _install_file(path, name, entry)
    before = _read(path)
    _check(path, before, "is refused by the kubelet as it is")
    present = next((each for each in _entries(path, before) if each.get("name") == name), None)
    if present is not None and (not is_own or present.get("matchImages") == entry["matchImages"]):
        return FileChange(
            path=path, before=before, after=before, notes=(_already(path, name, is_own=is_own),)
        )
    after = _add(path, before, entry) if present is None else _change(path, before, entry)
    _check(path, after, f"would be refused by the kubelet with the provider {name!r}")
    return FileChange(path=path, before=before, after=after, diff=_diff(path, present, entry))


def _already(path: str, name: str, *, is_own: bool) -> str:
    note = f"{path} has a provider {name!r} already"
    return note if is_own else f"{note}, which was not added here and stays as it is"


def plan_entry_uninstall(path: str, name: str) -> FileChange:
    """Return the change that removes a provider from the kubelet's config; its last one stays.

    If the config is gone, there is nothing to remove, and a note says so.
    """
    if os.path.isdir(path):
        own = _own_path(path, name)
        text = _read_own(own)
        return FileChange(path=own, before=text, after=None, diff=make_diff(own, text or "", ""))
    if not os.path.lexists(path):
        return FileChange(
            path=path, before=None, after=None, notes=(f"{path} is gone, and with it the entry of {name!r}",)
        )
    before = _read(path)
    entries = _entries(path, before)
    at = next((at for at, each in enumerate(entries) if each.get("name") == name), None)
    if at is None:
        return FileChange(path=path, before=before, after=before)
    if len(entries) == 1:
        return FileChange(
            path=path, before=before, after=before, notes=(f"{path} has no other provider than {name!r}",)
        )
    after = _remove(path, before, at)
    return FileChange(path=path, before=before, after=after, diff=_diff(path, entries[at], None))


def _diff(path: str, before: Mapping[str, object] | None, after: Mapping[str, object] | None) -> str:
    return make_part_diff(path, "providers", _shown(before), _shown(after))


def _shown(entry: Mapping[str, object] | None) -> str:
    shown = {name: value if name in _SHOWN else "..." for name, value in (entry or {}).items()}
    return _block(shown, "", "\n")


def _install_file(folder: str, name: str, entry: Mapping[str, object]) -> FileChange:
    path = _own_path(folder, name)
    before = _read_own(path)
    after = _HEAD + _KINDS + _block(entry, "", "\n")
    if before is not None and any(each.get("name") == name for each in _entries(path, before)):
        after = _change(path, before, entry)
    _check(path, after, f"would be refused by the kubelet with the provider {name!r}")
    if before == after:
        return FileChange(
            path=path, before=before, after=before, notes=(_already(folder, name, is_own=True),)
        )
    if before is None and any(provider.name == name for provider in read_config(folder).providers):
        return FileChange(
            path=path, before=before, after=before, notes=(_already(folder, name, is_own=False),)
        )
    return FileChange(
        path=path, before=before, after=after, diff=make_diff(path, before or "", after), mode=0o644
    )


def _own_path(folder: str, name: str) -> str:
    return os.path.join(folder, f"zz-{name}.yaml")


def _read_own(path: str) -> str | None:
    text = read_text(path)
    if text is not None and not text.startswith(_HEAD):
        raise EnvironmentProblem(f"{path!r} was not written by keyferry; nothing is changed")
    return text


def _read(path: str) -> str:
    text = read_text(path)
    if text is None:
        raise EnvironmentProblem(f"there is no config {path!r}")
    return text


def _check(path: str, text: str, problem: str) -> None:
    """Raise if the kubelet refuses a config, with what lint finds."""
    found = [each for each in lint(path, data=text.encode()).findings if each.severity is Severity.ERROR]
    if found:
        reasons = "; ".join(f"{each.code} {each.path}: {each.message}" for each in found[:3])
        raise EnvironmentProblem(f"{path!r} {problem}; nothing is changed: {reasons}")


def _entries(path: str, text: str) -> list[dict[str, object]]:
    try:
        value = read_document(text.encode()).value
    except DocumentError:
        value = None
    found = value.get("providers") if isinstance(value, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise EnvironmentProblem(f"{path!r} has no list of providers; nothing is changed")
    return found


def _add(path: str, text: str, entry: Mapping[str, object]) -> str:
    """Return the text with an entry after the last one."""
    items = _Items(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    start, end = items.spans[-1]
    line = text.rfind("\n", 0, start) + 1
    if items.is_flow:
        lead = text[line:start]
        indent = lead if not lead.strip() else ""
        between = f",{newline}{indent}" if not lead.strip() and line else ", "
        added = text[:end] + between + _flow(text, entry, indent, newline) + text[end:]
    else:
        at = _next_line(text, end)
        block = _block(entry, text[line:start].partition("-")[0], newline)
        is_open = at == len(text) and not text.endswith("\n")
        added = text[:at] + (newline + block.removesuffix(newline) if is_open else block) + text[at:]
    return _checked(path, text, added, [*_entries(path, text), dict(entry)])


def _change(path: str, text: str, entry: Mapping[str, object]) -> str:
    """Return the text with the patterns of *entry* in the entry of that name, which keeps its other fields."""
    items, entries = _Items(text), _entries(path, text)
    number = next(at for at, each in enumerate(entries) if each.get("name") == entry["name"])
    changed = {**entries[number], "matchImages": entry["matchImages"]}
    newline = "\r\n" if "\r\n" in text else "\n"
    start, end = items.spans[number]
    line = text.rfind("\n", 0, start) + 1
    if items.is_flow:
        lead = text[line:start]
        new = _flow(text, changed, "" if lead.strip() else lead, newline)
    else:
        new = _block(changed, text[line:start].partition("-")[0], newline)
        start, end = line, _next_line(text, end)
        if end == len(text) and not text.endswith("\n"):
            new = new.removesuffix(newline)
    wanted = [*entries[:number], changed, *entries[number + 1 :]]
    return _checked(path, text, text[:start] + new + text[end:], wanted)


def _remove(path: str, text: str, number: int) -> str:
    """Return the text without one of several entries."""
    items = _Items(text)
    start, end = items.spans[number]
    if items.is_flow and number:
        start = items.spans[number - 1][1]
    elif items.is_flow:
        end = items.spans[1][0]
    else:
        start, end = text.rfind("\n", 0, start) + 1, _next_line(text, end)
        if end == len(text) and not text.endswith("\n"):
            start -= 2 if text[:start].endswith("\r\n") else 1
    entries = _entries(path, text)
    return _checked(path, text, text[:start] + text[end:], entries[:number] + entries[number + 1 :])


def _checked(path: str, before: str, after: str, entries: list[dict[str, object]]) -> str:
    """Return the new text if it means the old one with these entries."""
    found = read_document(before.encode()).value
    wanted = {**found, "providers": entries} if isinstance(found, dict) else None
    try:
        is_right = read_document(after.encode()).value == wanted
    except DocumentError:
        is_right = False
    if not is_right:
        raise EnvironmentProblem(f"{path!r} is written in a way that cannot be edited; change it by hand")
    return after


def _block(entry: Mapping[str, object], indent: str, newline: str) -> str:
    """Return an entry as lines of YAML."""
    lines: list[str] = []
    for name, value in entry.items():
        lead = f"{indent}  " if lines else f"{indent}- "
        if isinstance(value, list):
            lines += [f"{lead}{name}:", *(f"{indent}  - {json.dumps(each)}" for each in value)]
        else:
            lines.append(f"{lead}{name}: {json.dumps(value)}")
    return "".join(line + newline for line in lines)


def _flow(text: str, entry: Mapping[str, object], indent: str, newline: str) -> str:
    """Return an entry as JSON: indented as the text is, if that is JSON over several lines."""
    second = text.partition("\n")[2]
    step = second[: len(second) - len(second.lstrip(" \t"))]
    if not indent or not text.lstrip().startswith("{"):
        return json.dumps(entry)
    return json.dumps(entry, indent=step or None).replace("\n", f"{newline}{indent}")


def _next_line(text: str, at: int) -> int:
    """Return where the line after a place begins; a place at the beginning of a line is one."""
    if at and text[at - 1] == "\n":
        return at
    return text.find("\n", at) + 1 or len(text)


class _Items:
    """Where each provider begins and ends in a text, and whether they are in brackets."""

    def __init__(self, text: str) -> None:
        self.is_flow = True
        self.spans: list[tuple[int, int]] = []
        # A parser of YAML does not take the tabs of JSON.
        if text.lstrip().startswith("{"):
            self._read_json(text)
        else:
            self._read_yaml(text)

    def _read_json(self, text: str) -> None:
        document = read_document(text.encode())
        decode = json.JSONDecoder().raw_decode
        number = 0
        while ("providers", number) in document.positions:
            position = document.positions["providers", number]
            start = sum(map(len, text.splitlines(keepends=True)[: position.line - 1])) + position.column - 1
            self.spans.append((start, decode(text, start)[1]))
            number += 1

    def _read_yaml(self, text: str) -> None:
        root = yaml.compose(text, yaml.SafeLoader)
        pairs = root.value if isinstance(root, yaml.MappingNode) else ()
        found = next((value for key, value in pairs if key.value == "providers"), None)
        if isinstance(found, yaml.SequenceNode):
            self.is_flow = bool(found.flow_style)
            self.spans = [(each.start_mark.index, _end(each)) for each in found.value]


def _end(node: yaml.Node) -> int:
    """Return where the text of a node ends: the mark of one in block style is after comments and blank lines."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)
