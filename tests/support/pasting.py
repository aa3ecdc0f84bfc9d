"""A desk: a folder with files of its own, in which somebody pastes commands into a shell, with the real kubectl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .parts import PARTS, missing
from .plugins import PATIENCE_SECONDS, write_executable

Json = dict[str, Any]
Objects = Mapping[tuple[str, str, str, str], Json]

# Names that a cure could take for its own files, and which belong to the user.
OWN_FILES = ("web.yaml", "regcred.yaml", "regcred.json", "regcred-saved.yaml", "regcred-typed.yaml", "token")
OWN_TEXT = "the user's own file\n"
# What the server itself sets, and what kubectl keeps for itself.
_SYSTEM_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
EDITOR = """\
#!/bin/sh
exec {python} - "$1" <<'END'
import json, sys
with open(sys.argv[1]) as file:
    content = json.load(file)
content.get("auths", content).update({entries})
with open(sys.argv[1], "w") as file:
    json.dump(content, file)
END
"""


@dataclass
class Desk:
    """A folder and the variables of a shell; ``pasted`` has what each shell wrote."""

    folder: Path
    env: dict[str, str]
    pasted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # The kubectl that tools/parts.sh unpacks, or else any.
        self.path = f"{PARTS / 'usr' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        if shutil.which("kubectl", path=self.path) is None:
            missing("kubectl is not installed: 'make parts' installs it, as root on Debian")
        self.folder.mkdir()
        for name in OWN_FILES:
            (self.folder / name).write_text(OWN_TEXT)
            (self.folder / name).chmod(0o644)

    def paste(self, lines: Iterable[str], *, one_by_one: bool) -> bool:
        """Run lines in a shell each, whatever became of those before, or in one; return whether all succeeded."""
        blocks = list(lines) if one_by_one else ["\n".join(lines)]
        return False not in [self._run(each) for each in blocks]

    def _run(self, text: str) -> bool:
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self.folder,
            env={"PATH": self.path, **self.env},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,
        )
        self.pasted.append(f"$ {text}\n{done.stdout}{done.stderr}")
        return done.returncode == 0

    def set_editor(self, python: str, entries: Mapping[str, object]) -> None:
        """Let the editor add entries to a docker config."""
        text = EDITOR.format(python=python, entries=json.dumps(entries))
        self.env["EDITOR"] = str(write_executable(self.folder.parent / "editor", text))

    @property
    def files(self) -> list[Path]:
        """The files that the pasted lines wrote."""
        return [path for path in sorted(self.folder.iterdir()) if path.name not in OWN_FILES]

    def saved(self) -> Iterator[Json]:
        """Yield the objects in files."""
        for path in self.files:
            document = yaml.safe_load(path.read_text())
            if isinstance(document, dict) and "kind" in document:
                yield document

    def check(self, before: Objects, now: Objects) -> None:
        """Check that nothing is lost: each object is there, with all that it had, or it is in a file."""
        log = "\n".join(self.pasted)
        for name in OWN_FILES:
            assert (self.folder / name).read_text() == OWN_TEXT, (name, log)
        for path in self.files:
            assert path.stat().st_mode & 0o077 == 0, (path.name, log)
        saved = list(self.saved())
        for key, then in before.items():
            if key[1] != "events":
                kept = [now[key], *saved] if key in now else saved
                assert any(has_all(each, then) for each in kept), (key, now.get(key), log)


def has_all(now: object, then: object) -> bool:
    """Return whether an object has all that it had then; in lists, in any place."""
    return _has_all(_own_part(now), _own_part(then))


def _has_all(now: object, then: object) -> bool:
    if isinstance(then, dict):
        return isinstance(now, dict) and all(
            name in now and _has_all(now[name], value) for name, value in then.items()
        )
    if isinstance(then, list):
        return isinstance(now, list) and all(any(_has_all(one, each) for one in now) for each in then)
    return now == then


def _own_part(document: object) -> object:
    """Return an object without what the server sets, and without empty lists and maps, which it does not keep."""
    if not isinstance(document, dict) or "metadata" not in document:
        return document
    own = deepcopy({name: value for name, value in document.items() if name != "status"})
    for name in _SYSTEM_FIELDS:
        own["metadata"].pop(name, None)
    own["metadata"].get("annotations", {}).pop(_LAST_APPLIED, None)
    return _without_empty(own)


def _without_empty(value: object) -> object:
    if isinstance(value, dict):
        inner = {name: _without_empty(each) for name, each in value.items()}
        return {name: each for name, each in inner.items() if each not in ({}, [])}
    return value
