"""The kubelet's own config: the fields that decide about pulls, with code and position."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.images.node.settings import RECORDS_GATE
from support.lint import lint_target

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def found(folder: Path, text: str) -> list[tuple[str, str, int | None, str]]:
    """The code, severity, line and path of each finding."""
    path = folder / "kubelet.yaml"
    path.write_text(text)
    report = lint_target(str(path))
    assert report.kind == "kubelet config"
    return [(each.code, each.severity, each.line, each.path) for each in report.findings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "maxPods: 7\n", []),
        (
            HEAD + "imageCredentialProviderConfigFile: /p.yaml\nimageCredentialProviderBinDir: /bin\n",
            [
                ("KF750", "warning", 3, "imageCredentialProviderConfigFile"),
                ("KF750", "warning", 4, "imageCredentialProviderBinDir"),
            ],
        ),
        (HEAD + "maxPods: [\n", [("KF701", "error", 4, "")]),
        (HEAD.replace("v1beta1", "v1"), [("KF702", "error", 1, "")]),
    ],
    ids=["plain", "unknown-fields", "syntax", "version"],
)
def test_what_is_found(tmp_path: Path, text: str, expected: list[tuple[str, str, int | None, str]]) -> None:
    """Only what matters for pulls; the kubelet itself knows the other fields."""
    assert found(tmp_path, text) == expected


PULLS = HEAD + "maxParallelImagePulls: 32\n"
GATES = "featureGates:\n  KubeletEnsureSecretPulledImages: "


@pytest.mark.parametrize(
    ("text", "versions", "gates", "found"),
    [
        (PULLS, ("1.36",), {}, True),
        (PULLS.replace("32", "31"), ("1.36",), {}, False),
        (PULLS, ("1.37",), {}, False),
        (PULLS, ("1.34",), {}, False),
        (PULLS + GATES + "true\n", ("1.34",), {}, True),
        (PULLS + GATES + "false\n", ("1.36",), {}, False),
        (PULLS + GATES + "false\n", ("1.36",), {RECORDS_GATE: True}, True),
        (PULLS, ("1.37", "1.36"), {}, True),
    ],
)
def test_more_parallel_pulls_than_a_kubelet_has_locks(
    tmp_path: Path, text: str, versions: tuple[str, ...], gates: dict[str, bool], found: bool
) -> None:
    """An error in the versions that panic, if they keep records; with several versions, those are named."""
    path = tmp_path / "kubelet.yaml"
    path.write_text(text)
    findings = lint_target(str(path), versions=versions, gates=gates).findings
    shown = [(each.code, each.severity, each.line, each.versions) for each in findings]
    named = ("1.36",) if len(versions) > 1 else ()
    assert shown == ([("KF710", "error", 3, named)] if found else [])


def test_the_flag_is_named_that_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text(HEAD + "imageCredentialProviderBinDir: /bin\n")
    (finding,) = lint_target(str(path)).findings
    assert "--image-credential-provider-bin-dir" in finding.message
