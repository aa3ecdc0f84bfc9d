"""Every command of docs/tutorial.md is run, in order, in one shell; its outputs are those of the page."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
MARK = "== end of a block =="
PORT = "5055"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the page is for a POSIX shell")


def steps(page: str) -> list[tuple[str, str]]:
    """The blocks of commands after the installation, each with the output that the page shows, if it shows any."""
    after = page.partition("Then make a folder")[2]
    found = re.findall(r"^```(sh|text)\n(.*?)^```", after, re.MULTILINE | re.DOTALL)
    return [
        (text, found[at + 1][1] if at + 1 < len(found) and found[at + 1][0] == "text" else "...\n")
        for at, (kind, text) in enumerate(found)
        if kind == "sh"
    ]


def is_shown(page: str, output: str) -> bool:
    """Return whether the output is what the page shows of it; a line ``...`` or a last ``...`` stands for any text."""
    parts = re.split(r"^\.\.\.$|\.\.\.$", page, flags=re.MULTILINE)
    pattern = ".*".join(re.escape(" ".join(part.split())) for part in parts)
    return re.fullmatch(pattern, " ".join(output.split()), re.DOTALL) is not None


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_the_tutorial_works_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    port = str(free_port())
    told = steps(PAGE.read_text("utf-8").replace(PORT, port))
    script = "exec 2>&1\n" + "".join(f"{commands}\necho '{MARK}'\n" for commands, _ in told)
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path / "home"),
            "COLUMNS": "10000",
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",  # lines in the order in which they are written, as on a terminal
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    outputs = done.stdout.split(f"{MARK}\n")
    assert len(outputs) == len(told) + 1, done.stdout
    for (commands, shown), output in zip(told, outputs, strict=False):
        assert is_shown(shown, output), f"{commands}\n--- the page:\n{shown}\n--- found:\n{output}"
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "home"])
