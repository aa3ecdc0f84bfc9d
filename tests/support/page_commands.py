"""Run the commands of a page of the docs, in order, in one shell, and compare their outputs with those of the page.

A block of commands (``sh``) may be followed by a block of output (``text``), in which a line ``...``, or ``...`` at the
end of a line, stands for any text. White space counts as one blank.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .commands import WIDTH
from .pages import check_shown, machine_without_kubelet

__all__ = ["check_commands"]

_MARK = "== end of a block =="


def check_commands(
    page: Path, folder: Path, *, after: str = "", replaced: Mapping[str, str] | None = None
) -> None:
    """Run the commands of *page* that follow the words *after*, in *folder*; compare what they print with the page.

    *replaced* has the test's own words for some of the page's.
    """
    names = replaced or {}
    text = page.read_text(encoding="utf-8")
    shown = _steps(text.partition(after)[2] if after else text)
    told = [(_replace(commands, names), output) for commands, output in shown]
    done = subprocess.run(
        ["sh", "-c", "exec 2>&1\n" + "".join(f"{commands}\necho '{_MARK}'\n" for commands, _ in told)],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "COLUMNS": WIDTH,
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",  # lines in the order in which they are written, as on a terminal
            **machine_without_kubelet(),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    outputs = done.stdout.split(f"{_MARK}\n")
    assert len(outputs) == len(told) + 1, done.stdout
    for (_, text), output in zip(told, outputs, strict=False):
        check_shown(page, text, _replace(output, {own: word for word, own in names.items()}))


def _replace(text: str, names: Mapping[str, str]) -> str:
    for word, own in names.items():
        text = text.replace(word, own)
    return text


def _steps(page: str) -> list[tuple[str, str]]:
    """The blocks of commands, each with the output that the page shows, if it shows any."""
    found = re.findall(r"^```(sh|text)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [
        (text, found[at + 1][1] if at + 1 < len(found) and found[at + 1][0] == "text" else "...\n")
        for at, (kind, text) in enumerate(found)
        if kind == "sh"
    ]
