"""Where a kubelet searches for the node's docker config."""

from __future__ import annotations

import os

__all__ = ["node_config_candidates"]


def node_config_candidates(root: str, cwd: str, home: str) -> tuple[tuple[str, bool], ...]:
    """Return the paths of the node's docker config, in the kubelet's order, and whether each is a ``config.json``."""
    modern = (root, cwd, os.path.join(home, ".docker") if home else "", "/.docker")
    legacy = (root, cwd, home, "/")
    return (
        *((os.path.join(folder, "config.json"), True) for folder in modern if folder),
        *((os.path.join(folder, ".dockercfg"), False) for folder in legacy if folder),
    )
