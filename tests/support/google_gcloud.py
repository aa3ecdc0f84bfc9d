"""A fake of the gcloud command: it records how it is run, and prints what the test sets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from support.scripted import write_python

_PROGRAM = """
import json, os, sys
folder = {folder!r}
with open(os.path.join(folder, "runs"), "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
told = json.load(open(os.path.join(folder, "told")))
sys.stderr.write(told["stderr"])
sys.stdout.write(told["stdout"])
sys.exit(told["status"])
"""


@dataclass
class Gcloud:
    """The command in its own folder, to be put first on PATH."""

    folder: Path

    def prints(self, stdout: object, *, stderr: str = "", status: int = 0) -> None:
        """Set the output: a document, or text."""
        text = stdout if isinstance(stdout, str) else json.dumps(stdout)
        told = {"stdout": text, "stderr": stderr, "status": status}
        (self.folder / "told").write_text(json.dumps(told))

    def prints_token(self, token: str, expiry: str = "2035-01-02T03:04:05Z", **more: object) -> None:
        """Set the output to a token in the format of config-helper."""
        self.prints({"credential": {"access_token": token, "token_expiry": expiry}} | more)

    @property
    def runs(self) -> list[list[str]]:
        """The arguments of each run."""
        path = self.folder / "runs"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_gcloud(folder: Path) -> Gcloud:
    """Write the command into *folder*."""
    folder.mkdir()
    write_python(folder, "gcloud", _PROGRAM.format(folder=str(folder)))
    return Gcloud(folder)
