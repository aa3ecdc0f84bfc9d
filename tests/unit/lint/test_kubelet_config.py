"""The kubelet's own config: the fields that decide about pulls, with code and position."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.lint.target import lint_target

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


def test_the_flag_is_named_that_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text(HEAD + "imageCredentialProviderBinDir: /bin\n")
    (finding,) = lint_target(str(path)).findings
    assert "--image-credential-provider-bin-dir" in finding.message
