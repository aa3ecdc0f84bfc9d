"""The plugins and configs of the benchmarks: compiled programs, and a script where its speed does not matter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence

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


def write_script(path: str, pause_seconds: float = 0.0, keys: Sequence[str] = (REGISTRY,)) -> None:
    """Write a plugin that records each run in a file beside it and answers for the whole registry, under *keys*."""
    answer = {
        "kind": "CredentialProviderResponse",
        "apiVersion": _API_VERSION,
        "cacheKeyType": "Registry",
        "cacheDuration": "1h",
        "auth": {key: {"username": "bench", "password": "made-up"} for key in keys},
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
    provider = {
        "name": plugin,
        "matchImages": patterns,
        "defaultCacheDuration": "0s",
        "apiVersion": _API_VERSION,
    }
    head = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig"}
    with open(path, "w", encoding="utf-8") as stream:
        if path.endswith(".json"):
            json.dump({**head, "providers": [provider]}, stream)
        else:
            stream.writelines(f"{name}: {value}\n" for name, value in head.items())
            stream.write(f"providers:\n- name: {plugin}\n  matchImages:\n")
            stream.writelines(f'  - "{pattern}"\n' for pattern in patterns)
            stream.write(f'  defaultCacheDuration: "0s"\n  apiVersion: {_API_VERSION}\n')
    return path
