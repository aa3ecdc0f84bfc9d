"""Comments suppress what is valid, and never an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.lint.ignores import apply_ignores
from keyferry.lint.report import LintReport
from keyferry.lint.run import lint_any
from support.lint import codes, write

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 10m
  matchImages:
  - reg.example/team/*
"""
LINE = "  - reg.example/team/*"


def linted(folder: Path, text: str) -> LintReport:
    return apply_ignores(lint_any(write(folder, text)))


@pytest.mark.parametrize(
    "line",
    [
        f"{LINE} # keyferry: ignore KF151",
        f"{LINE} # keyferry: ignore KF151: it is meant",
        f"{LINE} # keyferry: ignore KF151 -- it is meant",
        f"{LINE} #keyferry:ignore kf151",
        f"  # keyferry: ignore KF151\n{LINE}",
        f"  # keyferry: ignore KF151: a reason\n  # and more about it\n{LINE}",
        f"{LINE} # keyferry: ignore KF151\r",
    ],
)
def test_a_comment_on_the_line_or_above_suppresses(tmp_path: Path, line: str) -> None:
    report = linted(tmp_path, CONFIG.replace(LINE, line))
    assert report.findings == ()
    assert [each.code for each in report.suppressed] == ["KF151"]


def test_several_codes_are_separated_by_commas(tmp_path: Path) -> None:
    text = CONFIG.replace("name: plugin", "name: '-p' # keyferry: ignore KF171,KF150")
    report = linted(tmp_path, text)
    assert codes(report) == ["KF050", "KF151"]
    assert [each.code for each in report.suppressed] == ["KF171"]
    assert "there is no KF150 in line 4" in report.findings[0].message


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (f"{LINE} # keyferry: ignore KF162", "there is no KF162 in line 8"),
        (f"{LINE} # keyferry: ignore KF999", "'KF999' is not a code"),
        (f"{LINE} # keyferry: ignore", "names no code"),
        (f"  # keyferry: ignore KF151\n\n{LINE}", "there is no KF151 in line 9"),
        (f"  - b.example # keyferry: ignore KF151\n{LINE}", "there is no KF151 in line 8"),
    ],
)
def test_a_comment_without_effect_is_information(tmp_path: Path, line: str, part: str) -> None:
    report = linted(tmp_path, CONFIG.replace(LINE, line))
    assert sorted(codes(report)) == ["KF050", "KF151"]
    (useless,) = (each for each in report.findings if each.code == "KF050")
    assert useless.severity == "info"
    assert part in useless.message
    assert (useless.line, report.suppressed) == (8, ())


def test_an_error_cannot_be_ignored(tmp_path: Path) -> None:
    text = CONFIG.replace("10m", "-1s # keyferry: ignore KF126").replace("/team/*", "")
    report = linted(tmp_path, text)
    assert codes(report) == ["KF126", "KF050"]
    assert report.findings[1].message == "KF126 is an error, which cannot be ignored"
    assert not report.accepted


def test_what_depends_on_the_machine_may_be_ignored_for_another(tmp_path: Path) -> None:
    """There is no bin dir here, so no finding; on a node there may be one."""
    text = CONFIG.replace("name: plugin", "name: plugin # keyferry: ignore KF191").replace("/team/*", "")
    assert linted(tmp_path, text).findings == ()


def test_a_kubeconfig_has_comments_too(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "kind: Config\nclusters:\n- name: k # keyferry: ignore KF255\n  cluster: {server: https://k}\n"
    )
    path.chmod(0o600)
    report = apply_ignores(lint_any(str(path)))
    assert "KF050" in codes(report)
