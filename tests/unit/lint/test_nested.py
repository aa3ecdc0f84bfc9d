"""Configs inside other documents are found, and their findings have positions in the whole file."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.lint.recognise import add_nested
from keyferry.lint.report import LintReport
from keyferry.lint.run import find_audiences, lint_any
from keyferry.lint.source import SourceFile
from support.lint import federations, write

TALOS = """\
version: v1alpha1
machine:
  kubelet:
    image: ghcr.io/siderolabs/kubelet:v1.34.1
    credentialProviderConfig:
      apiVersion: kubelet.config.k8s.io/v1
      kind: CredentialProviderConfig
      providers:
        - name: ecr-credential-provider
          apiVersion: credentialprovider.kubelet.k8s.io/v1
          defaultCacheDuration: 12h
          matchImages:
            - "reg.example/*"
"""
CLOUD_INIT = """\
#cloud-config
write_files:
- path: /etc/kubernetes/providers.yaml
  content: |
    apiVersion: kubelet.config.k8s.io/v1
    kind: CredentialProviderConfig
    providers:
    - name: ecr
      apiVersion: credentialprovider.kubelet.k8s.io/v1
      defaultCacheDuration: 12h
      matchImages:
      - reg.example/*
"""
DYNAMIC = """\
apiVersion: credentialprovider.d2iq.com/v1alpha1
kind: DynamicCredentialProviderConfig
mirror:
  endpoint: mirror.example
credentialProviders:
  apiVersion: kubelet.config.k8s.io/v1
  kind: CredentialProviderConfig
  providers:
  - name: static
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages: [reg.example]
"""


@pytest.mark.parametrize(
    ("text", "refusal", "nested", "finding"),
    [
        pytest.param(
            TALOS,
            "KF104",
            ("machine.kubelet.credentialProviderConfig", 5, 5),
            ("KF151", "machine.kubelet.credentialProviderConfig.providers[0].matchImages[0]", 13, 15),
            id="Talos",
        ),
        pytest.param(
            CLOUD_INIT,
            "KF104",
            ("write_files[0].content", 4, 3),
            ("KF151", "write_files[0].content.providers[0].matchImages[0]", 12, 9),
            id="cloud-init",
        ),
        pytest.param(
            DYNAMIC,
            "KF105",
            ("credentialProviders", 5, 1),
            ("KF125", "credentialProviders.providers[0].defaultCacheDuration", 9, 5),
            id="D2iQ",
        ),
    ],
)
def test_a_nested_config_is_pointed_at(
    tmp_path: Path, text: str, refusal: str, nested: tuple[str, int, int], finding: tuple[str, str, int, int]
) -> None:
    path = write(tmp_path, text)
    read = lint_any(path, is_read_by_kubelet=True)
    assert {each.code for each in read.findings} == {refusal, "KF184", finding[0]}
    assert (read.accepted, bool(read.kubernetes_text)) == (False, True)
    report = lint_any(path)
    found = {each.code: each for each in report.findings}
    assert set(found) == {"KF184", finding[0]}
    # The text is that of the config inside.
    assert report.accepted == (not report.kubernetes_text) == (finding[0] == "KF151")
    pointer, inner = found["KF184"], found[finding[0]]
    assert (pointer.path, pointer.line, pointer.column) == nested
    assert (inner.code, inner.path, inner.line, inner.column) == finding
    assert report.providers == 1


def test_a_folded_text_is_pointed_at_as_a_whole(tmp_path: Path) -> None:
    inner = CLOUD_INIT.partition("|\n")[2].replace("\n    ", "\\n")
    report = lint_any(write(tmp_path, f'files:\n- content: "{inner.strip()}"\n'))
    found = {each.code: (each.line, each.column) for each in report.findings}
    assert found["KF151"] == found["KF184"] == (2, 3)


def test_other_documents_stay_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, "kind: ConfigMap\napiVersion: v1\ndata: {a: CredentialProviderConfig}\n")
    report = lint_any(path)
    assert [each.code for each in report.findings] == ["KF105"]
    broken = LintReport(path=path, kubernetes="1.36", findings=report.findings)
    assert add_nested(broken, SourceFile.parse(path, b"a: ["), {}) == broken


CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: node-files}
data:
  providers.yaml: |
    apiVersion: kubelet.config.k8s.io/v1
    kind: CredentialProviderConfig
    providers:
    - name: keyferry-federate
      apiVersion: credentialprovider.kubelet.k8s.io/v1
      matchImages: [zot.example.com]
      defaultCacheDuration: 0s
      args: [--config=/etc/keyferry/federation.json]
      tokenAttributes:
        serviceAccountTokenAudience: registry.example.com
        cacheType: ServiceAccount
        requireServiceAccount: true
  federation.json: |
    {"apiVersion": "keyferry.dev/v1alpha1", "kind": "FederationConfig", "rules": [
      {"registries": ["zot.example.com"], "preset": "passthrough",
       "subject": {"audience": "registry.example.com", "issuer": "https://kubernetes.example.com"}}
    ]}
"""
VALUES = """\
nodes:
  federation:
    apiVersion: keyferry.dev/v1alpha1
    kind: FederationConfig
    rules:
    - registries: [zot.example.com]
      preset: nexus
      subject: {audience: other.example.com, issuer: "https://kubernetes.example.com"}
"""


def places(path: str) -> dict[str, tuple[str, int | None, int | None]]:
    """The findings of a file, linted with the federation configs in it: path, line and column by code."""
    found = lint_any(path, beside=federations(path)).findings
    return {each.code: (each.path, each.line, each.column) for each in found}


def test_both_configs_in_one_document_are_linted_together(tmp_path: Path) -> None:
    """As the files of a ConfigMap: what only both show is found at its place there."""
    path = write(tmp_path, CONFIG_MAP)
    assert places(path) == {
        "KF184": ("data.providers.yaml", 5, 3),
        "KF670": ("data.providers.yaml.providers[0].tokenAttributes.cacheType", 16, 9),
        "KF659": ("data.federation.json", 18, 3),
    }
    assert find_audiences([path]) == ("registry.example.com",)


def test_a_federation_config_is_refused_at_its_place_in_a_document(tmp_path: Path) -> None:
    """As text of a ConfigMap and as a part of the values of a chart; nobody reads the document itself as a config."""
    path = write(tmp_path, CONFIG_MAP.replace('"passthrough"', '"nexus"'))
    assert places(path)["KF608"] == ("data.federation.json.rules[0].preset", 20, 43)
    path = write(tmp_path, VALUES)
    assert places(path) == {
        "KF659": ("nodes.federation", 2, 3),
        "KF608": ("nodes.federation.rules[0].preset", 7, 7),
    }
    assert find_audiences([path]) == ("other.example.com",)
    assert [each.path for each in federations(path)] == ["federation"]


def test_a_file_that_cloud_init_writes_has_its_own_name(tmp_path: Path) -> None:
    inner = CONFIG_MAP.partition("federation.json: |\n")[2]
    text = f"write_files:\n- path: /etc/keyferry/f.json\n  content: |\n{inner}"
    (found,) = federations(write(tmp_path, text))
    assert found.path == "/etc/keyferry/f.json"
