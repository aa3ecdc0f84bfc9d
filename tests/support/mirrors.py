"""Files of container runtimes that name mirrors, below a root of a test's own."""

from __future__ import annotations

from pathlib import Path

from keyferry.pulls.mirrors.endpoints import Mirrors

MIRROR = '[host."https://mirror.example"]\n'
CERTS = Path("etc/containerd/certs.d")
CONFIG = Path("etc/containerd/config.toml")
REGISTRIES = Path("etc/containers/registries.conf")


def write(root: Path, path: str | Path, text: str) -> str:
    """Write a file below *root* and return its path."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return str(target)


def mirror_hosts(mirrors: Mirrors | None) -> list[str]:
    """The hosts that are not the registry itself; there must be some."""
    assert mirrors is not None
    assert mirrors.problem == ""
    return [each.host for each in mirrors.others]
