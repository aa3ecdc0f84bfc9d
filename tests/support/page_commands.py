"""Run the commands of a page of the docs, in order, in one shell, and compare their outputs with those of the page.

A block of commands (``sh``) may be followed by a block of output (``text``), in which a line ``...``, or ``...`` at the
end of a line, stands for any text. White space counts as one blank.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from .pages import is_shown

__all__ = ["check_commands"]

_MARK = "== end of a block =="


def check_commands(page: str, folder: Path) -> None:
    """Run the commands of *page* in *folder*; fail with the first block whose output is not that of the page."""
    told = _steps(page)
    done = subprocess.run(
        ["sh", "-c", "exec 2>&1\n" + "".join(f"{commands}\necho '{_MARK}'\n" for commands, _ in told)],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
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
    outputs = done.stdout.split(f"{_MARK}\n")
    assert len(outputs) == len(told) + 1, done.stdout
    for (commands, shown), output in zip(told, outputs, strict=False):
        assert is_shown(shown, output), f"{commands}\n--- the page:\n{shown}\n--- found:\n{output}"


def _steps(page: str) -> list[tuple[str, str]]:
    """The blocks of commands, each with the output that the page shows, if it shows any."""
    found = re.findall(r"^```(sh|text)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [
        (text, found[at + 1][1] if at + 1 < len(found) and found[at + 1][0] == "text" else "...\n")
        for at, (kind, text) in enumerate(found)
        if kind == "sh"
    ]
