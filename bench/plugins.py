"""The plugins and configs of the benchmarks: compiled programs, and a script where its speed does not matter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping

import yaml

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_API_VERSION = "credentialprovider.kubelet.k8s.io/v1"
REGISTRY = "registry.example"

_SCRIPT = """\
#!/bin/sh
echo run >> "$0.runs"
cat > /dev/null
sleep {pause}
cat << 'END'
{answer}
END
"""


def compile_program(name: str, target: str, *, libc: str = "") -> bool:
    """Compile ``bench/NAME.c``, statically if possible; return False if there is no compiler.

    With *libc* "musl" the program uses musl, otherwise the system's C library.
    """
    names = ("musl-gcc",) if libc == "musl" else ("cc", "gcc", "clang")
    compiler = next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        return False
    command = [compiler, "-O2", "-o", target, os.path.join(_FOLDER, f"{name}.c")]
    for options in (["-static"], []):
        if subprocess.run([*command, *options], capture_output=True, check=False).returncode == 0:
            return True
    return False


def write_script(path: str, pause_seconds: float = 0.0) -> None:
    """Write a plugin that records each run in a file beside it and answers for the whole registry."""
    answer = {
        "kind": "CredentialProviderResponse",
        "apiVersion": _API_VERSION,
        "cacheKeyType": "Registry",
        "cacheDuration": "1h",
        "auth": {REGISTRY: {"username": "bench", "password": "made-up"}},
    }
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(_SCRIPT.format(pause=pause_seconds, answer=json.dumps(answer)))
    os.chmod(path, 0o755)


def runs_of(path: str) -> int:
    """Return how often the script at *path* has run."""
    try:
        with open(f"{path}.runs", encoding="utf-8") as stream:
            return len(stream.readlines())
    except FileNotFoundError:
        return 0


def write_config(path: str, plugin: str, patterns: list[str]) -> str:
    """Write a config of one provider, in YAML if the name of *path* ends so; return *path*."""
    return write_providers(path, {plugin: patterns})


def write_providers(path: str, providers: Mapping[str, list[str]]) -> str:
    """Write a config with the patterns of each plugin, in YAML if the name of *path* ends so; return *path*."""
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [
            {
                "name": plugin,
                "matchImages": patterns,
                "defaultCacheDuration": "10m",
                "apiVersion": _API_VERSION,
            }
            for plugin, patterns in providers.items()
        ],
    }
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(document) if path.endswith(".json") else yaml.safe_dump(document))
    return path
