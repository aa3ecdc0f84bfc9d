"""One target: by the rules of several versions, and for another machine."""

from __future__ import annotations

import os
from pathlib import Path

from support.lint import codes, config, lint_target, write

TOKENS: dict[str, object] = {
    "tokenAttributes": {
        "serviceAccountTokenAudience": "a",
        "requireServiceAccount": True,
        "cacheType": "Token",
    }
}


def test_each_version_has_its_findings(tmp_path: Path) -> None:
    path = write(tmp_path, config(TOKENS | {"matchImages": ["reg.example/*"]}))
    report = lint_target(path, versions=("1.32", "1.33", "1.34"))
    assert report.kubernetes == "1.32,1.33,1.34"
    found = {(each.code, each.path.rpartition(".")[2], each.versions) for each in report.findings}
    assert found == {
        ("KF138", "tokenAttributes", ("1.32",)),
        ("KF138", "cacheType", ("1.33",)),
        ("KF130", "tokenAttributes", ("1.33",)),
        ("KF151", "matchImages[0]", ()),
    }
    assert not report.accepted
    assert "unknown field" in report.kubernetes_text


def test_a_pipe_is_read_once_for_all_versions() -> None:
    reading, writing = os.pipe()
    with open(writing, "w") as stream:
        stream.write(config(TOKENS))
    report = lint_target(f"/dev/fd/{reading}", versions=("1.32", "1.34"))
    os.close(reading)
    assert [(each.code, each.versions) for each in report.findings] == [("KF138", ("1.32",))]


def test_findings_of_this_machine_can_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, config())
    os.chmod(path, 0o664)
    here = lint_target(path, bin_dir=str(tmp_path / "nowhere"))
    assert codes(here) == ["KF182", "KF140"]
    there = lint_target(path, bin_dir=str(tmp_path / "nowhere"), elsewhere=True)
    assert (there.findings, there.accepted, there.kubernetes_text) == ((), True, "")
