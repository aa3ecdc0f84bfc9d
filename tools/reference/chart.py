"""The table of the chart's values: what its values.yaml says above each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml


def values_table(path: Path) -> str:
    """Return the table of all values with their defaults and their comments."""
    text = path.read_text(encoding="utf-8")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    rows = [
        f"| `{name}` | {default} | {comment} |\n" for name, default, comment in _rows(root, text.splitlines())
    ]
    return "".join(["| value | default | what |\n|---|---|---|\n", *rows])


def _rows(node: yaml.Node, lines: list[str], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield a row for each commented key; what stands below a key without commented ones is its default."""
    for key, value in node.value:
        name, comment = f"{prefix}{key.value}", _comment(lines, key.start_mark.line)
        inner = (
            list(_rows(value, lines, f"{name}."))
            if isinstance(value, yaml.MappingNode) and value.value
            else []
        )
        if comment:
            yield name, "" if inner else f"`{_plain(value)}`", comment
        yield from inner


def _comment(lines: list[str], line: int) -> str:
    """Return the comment directly above a line, on one line."""
    first = line
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(each.strip().lstrip("# ") for each in lines[first:line]).replace("|", "\\|")


def _plain(node: yaml.Node) -> str:
    return json.dumps(yaml.safe_load(yaml.serialize(node)))
