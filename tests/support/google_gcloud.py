"""A stand-in for the gcloud command: it notes how it is run, and prints what the test says."""

import json
from dataclasses import dataclass
from pathlib import Path

from support.scripted import write_python

_PROGRAM = """
import json, os, sys, time
folder = {folder!r}
with open(os.path.join(folder, "runs"), "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
told = json.load(open(os.path.join(folder, "told")))
time.sleep(told["seconds"])
sys.stderr.write(told["stderr"])
sys.stdout.write(told["stdout"])
sys.exit(told["status"])
"""


@dataclass
class Gcloud:
    """The command in a folder of its own, for the front of PATH."""

    folder: Path

    def prints(self, stdout: object, *, stderr: str = "", status: int = 0, seconds: float = 0.0) -> None:
        """Say what it prints: a document, or text as it is."""
        text = stdout if isinstance(stdout, str) else json.dumps(stdout)
        told = {"stdout": text, "stderr": stderr, "status": status, "seconds": seconds}
        (self.folder / "told").write_text(json.dumps(told))

    def prints_token(self, token: str, expiry: str = "2035-01-02T03:04:05Z", **more: object) -> None:
        """Say that it prints a token as config-helper does."""
        self.prints({"credential": {"access_token": token, "token_expiry": expiry}} | more)

    @property
    def runs(self) -> list[list[str]]:
        """The words of each run."""
        path = self.folder / "runs"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_gcloud(folder: Path) -> Gcloud:
    """Put the command into *folder*."""
    folder.mkdir()
    write_python(folder, "gcloud", _PROGRAM.format(folder=str(folder)))
    return Gcloud(folder)
