"""A pod in a file with all that its pull depends on, and what keyferry says of its image, as a Python user asks it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keyferry

from .commands import Node
from .kubernetes_api import Json
from .plugins import provider_entry, write_config
from .pod_world import pod_status
from .pull_reports import Report


def explain_file(
    folder: Path, *objects: Json, reports: Iterable[Report] = (), node: Node | None = None, **options: Any
) -> keyferry.Explanation:
    """Explain the image of the first of *objects*, a pod of which its kubelet has given *reports*.

    The others belong to it. *node* has the providers of its node, by default one for another registry. There is no
    docker config, so nothing is missing. *options* are fields of the request.
    """
    about, *others = objects
    about = {**about, "metadata": {"uid": "u-web", **about["metadata"]}}  # type: ignore[dict-item] # a map
    said = tuple(reports)
    if said:
        about["status"] = pod_status(about, [each for each in said if each.container])
    events = [event for each in said for event in each.event_documents(about)]
    file, empty = folder / "web.yaml", folder / "docker.json"
    file.write_text("---\n".join(f"{json.dumps(each)}\n" for each in (about, *others, *events)))
    empty.write_text("{}")
    given = {"filename": str(file), "docker_config": str(empty), **_providers(folder, node), **options}
    found = keyferry.explain_image(keyferry.Request(**given))
    assert "kf-marked" not in str(found)
    return found


def _providers(folder: Path, node: Node | None) -> dict[str, str]:
    if node is not None:
        return {"config": str(node.config), "bin_dir": str(node.bin_dir)}
    entry = provider_entry("unrelated", matchImages=["else.example"])
    return {"config": str(write_config(folder / "providers.json", [entry])), "bin_dir": str(folder)}


def lines_of(found: keyferry.Explanation) -> list[str]:
    """Return the lines to paste of all cures."""
    return [line for cure in found.cures for line in cure.lines]


def cures_of(found: keyferry.Explanation) -> str:
    """Return all cures as text, with their lines."""
    return "\n".join(line for cure in found.cures for line in (cure.text, *cure.lines))
