"""What a file is, and who looks at it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from keyferry.api.kubeletconfig.records import ImagePullIntent, encode_intent, encode_record
from keyferry.lint.recognise import recognise
from keyferry.lint.run import lint_any
from support.lint import codes
from support.records import IMAGE, folder_of, plant, record

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "clusters": [{"name": "k", "cluster": {"server": "https://k:6443"}}],
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "users": [{"name": "u", "user": {"as-uid": "1"}}],
}
ALPHA = "kubelet.config.k8s.io/v1alpha1"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("kind: Config\n", "kubeconfig"),
        ('{"kind": "Config"}', "kubeconfig"),
        ("users: []\n", "kubeconfig"),
        ("contexts:\n- name: x\n", "kubeconfig"),
        ("clusters: {\n", "kubeconfig"),
        ("kind: Config\nusers: [\n", "kubeconfig"),
        ('{"kind": "Config", "users": [', "kubeconfig"),
        ("kind: Preference\n", "kuberc"),
        ("kind: Preference\naliases: [\n", "kuberc"),
        ("apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preferences\n", "kuberc"),
        ("apiVersion: kubectl.config.k8s.io/v1beta1\nusers: [\n", "kuberc"),
        ("credentialPluginPolicy: {\nusers:\n", "kuberc"),
        ("current-context: c\n", "kubeconfig"),
        ("kind: Other\n---\nkind: Preference\n", "kuberc"),
        ("kind: CredentialProviderConfig\nusers: []\n", "providers"),
        ("providers: []\n", "providers"),
        ("", "providers"),
        ("a: [", "providers"),
        ("[]", "providers"),
        ("kind: Pod\n", "providers"),
        ("kind: [Config]\n", "providers"),
    ],
)
def test_a_file_is_known_by_its_kind(text: str, kind: str) -> None:
    assert recognise(text.encode()) == kind


def test_a_pipe_is_read_once_whatever_it_brings(tmp_path: Path) -> None:
    provider = {
        "name": "p",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "defaultCacheDuration": "-1s",
        "matchImages": ["reg.example"],
    }
    providers = {
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [provider],
    }
    for document, code in ((KUBECONFIG, "KF227"), (providers, "KF126")):
        reading, writing = os.pipe()
        with open(writing, "w") as stream:
            json.dump(document, stream)
        path = f"/dev/fd/{reading}"
        report = lint_any(path)
        os.close(reading)
        assert [(each.code, each.file) for each in report.findings] == [(code, path)]
        assert (report.path, report.files) == (path, (path,))
    assert os.listdir(tmp_path) == []


def test_a_single_record_is_recognised(tmp_path: Path) -> None:
    """A record somewhere else is linted by its content alone."""
    path = tmp_path / "sha256-copy"
    path.write_bytes(encode_record(record(), ALPHA))
    assert codes(lint_any(str(path))) == ["KF422"]
    path.write_bytes(encode_intent(ImagePullIntent(image=IMAGE))[:-4])
    assert codes(lint_any(str(path))) == ["KF401"]


def test_one_of_the_two_folders_will_do(tmp_path: Path) -> None:
    """Pointing at the inner folder is fine too."""
    plant(tmp_path, b"x")
    assert codes(lint_any(str(folder_of(tmp_path)))) == ["KF402"]


def test_a_broken_kuberc_is_a_kuberc(tmp_path: Path) -> None:
    """A file of this name is a kuberc for kubectl, even if its content looks like a kubeconfig."""
    path = tmp_path / "kuberc"
    path.write_text("users: [\n")
    report = lint_any(str(path))
    assert (report.kind, codes(report)) == ("kuberc", ["KF301"])


def test_a_kubelet_configuration_is_not_an_old_provider_config(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
    path.chmod(0o644)
    report = lint_any(str(path))
    assert (report.kind, codes(report)) == ("kubelet config", [])
    assert codes(lint_any(str(path), is_read_by_kubelet=True)) == ["KF106"]
