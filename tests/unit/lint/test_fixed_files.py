"""Corrections are written at once or not at all, and shown without secrets."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.lint.fixes import FixedFile, masked_diff, write_file
from support.lint import SECRET
from support.parts import need


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"old\n")
    path.chmod(0o640)
    return path


def test_mode_and_owner_stay(file: Path) -> None:
    if os.geteuid() == 0:
        os.chown(file, 12345, 54321)
    before = file.stat()
    write_file(FixedFile(path=str(file), before=b"old\n", after=b"new\n"))
    after = file.stat()
    assert file.read_bytes() == b"new\n"
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert os.listdir(file.parent) == ["config.yaml"]


def test_a_link_stays_a_link(file: Path) -> None:
    link = file.parent / "link"
    link.symlink_to(file)
    write_file(FixedFile(path=str(link), before=b"old\n", after=b"new\n"))
    assert link.is_symlink()
    assert file.read_bytes() == b"new\n"


def test_a_file_that_changed_meanwhile_is_not_written(file: Path) -> None:
    file.write_bytes(b"edited\n")
    with pytest.raises(EnvironmentProblem, match="has changed since it was read"):
        write_file(FixedFile(path=str(file), before=b"old\n", after=b"new\n"))
    assert file.read_bytes() == b"edited\n"
    assert os.listdir(file.parent) == ["config.yaml"]


def test_a_file_with_two_names_is_not_written(file: Path) -> None:
    os.link(file, file.parent / "other")
    with pytest.raises(EnvironmentProblem, match="not a regular file with one name"):
        write_file(FixedFile(path=str(file), before=b"old\n", after=b"new\n"))
    assert file.read_bytes() == b"old\n"


def test_a_folder_that_is_gone_is_an_environment_problem(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        write_file(FixedFile(path=str(tmp_path / "nope" / "x"), before=b"old\n", after=b"new\n"))


def test_a_diff_shows_each_changed_line_and_no_secret() -> None:
    before = f"name: a\nargs: [8080, {SECRET}]\nkind: x\n".encode()
    after = before.replace(b"8080", b'"8080"').replace(b"kind: x", b"kind: y")
    lines = list(masked_diff(FixedFile(path="c.yaml", before=before, after=after), "c.yaml"))
    assert lines[0].startswith("# a line that changes is masked")
    assert lines[1:] == [
        "--- a/c.yaml",
        "+++ b/c.yaml",
        "@@ -1,3 +1,3 @@",
        " name: a",
        "-args: [********, ********]",
        "-kind: x",
        "+args: [********, ********]",
        "+kind: y",
    ]


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("between", ["", "  version: x\n"])
def test_a_diff_with_secrets_around_the_changes_can_be_applied(
    tmp_path: Path, end: str, between: str
) -> None:
    """Lines that are masked are left out around a change, so that they need not be found."""
    text = f"a:\n- token: {SECRET}\n  name: old\n{between}  token2: {SECRET}\n  version: old{end}"
    fixed = FixedFile(path="c.yaml", before=text.encode(), after=text.replace("old", "new").encode())
    (tmp_path / "c.yaml").write_text(text)
    lines = list(masked_diff(fixed, "c.yaml"))
    assert SECRET not in "\n".join(lines)
    assert lines[0] == "--- a/c.yaml"
    command = [need("git"), "apply", "--unidiff-zero", "-"]
    subprocess.run(command, input="\n".join(lines) + "\n", text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "c.yaml").read_bytes() == fixed.after


def test_a_line_between_masked_ones_is_inserted_at_its_number() -> None:
    before = f"token: {SECRET}\ntoken2: {SECRET}\n".encode()
    after = before.replace(b"\n", b"\nname: x\n", 1)
    lines = list(masked_diff(FixedFile(path="/dev/stdin", before=before, after=after), "-"))
    assert lines == ["--- a/-", "+++ b/-", "@@ -1,0 +2,1 @@", "+name: x"]


def test_a_change_that_is_masked_is_said() -> None:
    before = f"{{token: {SECRET}, name: old}}\n".encode()
    lines = list(masked_diff(FixedFile(path="c", before=before, after=before.replace(b"old", b"new")), "c"))
    assert lines[0].startswith("# a line that changes is masked")
