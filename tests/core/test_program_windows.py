"""What a program can be on Windows, where every file of some endings is run by a shell.

What a run promises there as everywhere is in ``tests/invoke/test_run.py``.
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest

from keyferry._core.program import start
from keyferry.errors import ProvideError
from keyferry.invoke.run import run
from keyferry.sdk import Deadline
from keyferry.sdk.process import run_program
from support.plugins import PATIENCE_SECONDS, write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


@pytest.fixture(autouse=True)
def as_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every system can do what is done there, but for the names of programs."""
    monkeypatch.setattr(start, "IS_WINDOWS", True)


@pytest.mark.parametrize("name", ["p.bat", "p.cmd", "P.CMD", "p.bat. ."])
def test_a_batch_file_is_refused(name: str, tmp_path: Path) -> None:
    """A shell would read its arguments anew."""
    path = write_executable(tmp_path / name, "#!/bin/sh\necho ran\n")
    with pytest.raises(OSError, match=r"[Ee]xec format error") as caught:
        run((str(path),))
    assert caught.value.errno == errno.ENOEXEC


def test_an_open_file_cannot_be_run() -> None:
    """Its descriptor would have to stay open in the program."""
    with pytest.raises(OSError, match="not implemented"):
        run(("x",), program=0, environ={})


@pytest.mark.parametrize(("path", "is_found"), [("", False), (".", False), ("/bin:{0}", True)])
def test_a_bare_name_is_found_in_path_alone(
    path: str, is_found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the working directory, whoever may have written there."""
    write_executable(tmp_path / "acme-login", "#!/bin/sh\nexit 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path.format(tmp_path))
    if is_found:
        assert run_program(["acme-login"], deadline=Deadline(PATIENCE_SECONDS)).status == 7
    else:
        with pytest.raises(ProvideError, match="'acme-login'"):
            run_program(["acme-login"], deadline=Deadline(PATIENCE_SECONDS))
