"""Run keyferry as a user does: in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.schemas import check_output

PLUGIN = """\
#!/bin/sh
cat > "$0.request"
echo run >> "$0.runs"
{before}
cat <<'X'
{{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
 "cacheKeyType": "{cache_key_type}", "cacheDuration": "1h", "auth": {auth}}}
X
"""

PROVIDER = """\
- name: {name}
  matchImages: [{patterns}]
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
{extra}"""


class Node:
    """A folder with a provider config and plugins, like a node's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin_dir = folder / "bin"
        self.config = folder / "providers.yaml"
        self.bin_dir.mkdir()
        self._entries: list[str] = []

    def add(
        self,
        name: str,
        patterns: list[str],
        auth: str = '{"reg.io": {"username": "user", "password": "pass-word"}}',
        *,
        cache_key_type: str = "Registry",
        before: str = "",
        extra: str = "",
    ) -> Node:
        """Add a provider with a shell script as its plugin."""
        path = self.bin_dir / name
        path.write_text(PLUGIN.format(before=before, cache_key_type=cache_key_type, auth=auth))
        path.chmod(0o755)
        shown = ", ".join(f'"{pattern}"' for pattern in patterns)
        self._entries.append(PROVIDER.format(name=name, patterns=shown, extra=extra))
        self.config.write_text(
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
            + "".join(self._entries)
        )
        return self

    def options(self) -> list[str]:
        """Return the two options that every command takes."""
        return ["--config", str(self.config), "--bin-dir", str(self.bin_dir)]

    def request(self, name: str) -> str:
        """Return the last request of a plugin."""
        return Path(f"{self.bin_dir / name}.request").read_text()


def plain_pod(folder: Path) -> list[str]:
    """Return the option for a pod without pull secrets, so that no credential is unknown."""
    path = folder / "plain-pod.json"
    metadata = {"name": "web", "namespace": "team", "uid": "pod-uid"}
    spec = {"serviceAccountName": "default", "containers": []}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    return ["-f", str(path)]


def run_keyferry(*words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with empty standard input; check a printed document against its schema.

    Lines are not folded, so that a test finds a sentence in one of them.
    """
    done = subprocess.run(
        [sys.executable, "-m", "keyferry", *words],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "10000", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    check_output(done.stdout)
    return done
