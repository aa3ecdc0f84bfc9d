"""A run of lint over files: kinds, versions, configs inside other documents, and comments that ignore findings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from support.commands import run_in_process
from support.lint import GOOD, Report, codes, config, lint_target, only, write
from support.records import folder_of, plant, plant_intent

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
    found = {(each.code, each.path.rpartition(".")[2], each.versions) for each in report.findings}
    assert found == {
        ("KF138", "tokenAttributes", ("1.32",)),
        ("KF138", "cacheType", ("1.33",)),
        ("KF130", "tokenAttributes", ("1.33",)),
        ("KF151", "matchImages[0]", ()),
    }
    assert not report.accepted
    assert "unknown field" in report.kubernetes_text


def test_findings_of_this_machine_can_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, config())
    os.chmod(path, 0o664)
    here = lint_target(path, bin_dir=str(tmp_path / "nowhere"))
    assert codes(here) == ["KF182", "KF140"]
    there = lint_target(path, bin_dir=str(tmp_path / "nowhere"), elsewhere=True)
    assert (there.findings, there.accepted, there.kubernetes_text) == ((), True, "")


KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "clusters": [{"name": "k", "cluster": {"server": "https://k:6443"}}],
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "users": [{"name": "u", "user": {"as-uid": "1"}}],
}


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
def test_a_file_is_known_by_its_kind(tmp_path: Path, text: str, kind: str) -> None:
    assert lint_target(write(tmp_path, text)).kind == kind


TOO_SHORT = config({"defaultCacheDuration": "-1s"})


@pytest.mark.parametrize(
    ("text", "code", "versions"),
    [
        pytest.param(json.dumps(KUBECONFIG), "KF227", (), id="kubeconfig"),
        pytest.param(TOO_SHORT, "KF126", (), id="providers"),
        pytest.param(config(TOKENS), "KF138", ("1.32",), id="in two versions"),
    ],
)
def test_a_pipe_is_read_once_whatever_it_brings(text: str, code: str, versions: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    with open(writing, "w") as stream:
        stream.write(text)
    path = f"/dev/fd/{reading}"
    report = lint_target(path, versions=("1.32", "1.34"))
    os.close(reading)
    finding = only(report)
    assert (finding.code, finding.file, finding.versions) == (code, path, versions)
    assert report.files == (path,)


def test_a_single_record_is_recognised(tmp_path: Path) -> None:
    """A record somewhere else is linted by its content alone."""
    content = plant(tmp_path).read_bytes().replace(b"v1beta1", b"v1alpha1")
    path = tmp_path / "sha256-copy"
    path.write_bytes(content)
    assert codes(lint_target(str(path))) == ["KF422"]
    path.write_bytes(plant_intent(tmp_path).read_bytes()[:-4])
    assert codes(lint_target(str(path))) == ["KF401"]


def test_one_of_the_two_folders_will_do(tmp_path: Path) -> None:
    """Pointing at the inner folder is fine too."""
    plant(tmp_path, b"x")
    assert codes(lint_target(str(folder_of(tmp_path)))) == ["KF402"]


def test_a_broken_kuberc_is_a_kuberc(tmp_path: Path) -> None:
    """A file of this name is a kuberc for kubectl, even if its content looks like a kubeconfig."""
    report = lint_target(write(tmp_path, "users: [\n", "kuberc"))
    assert (report.kind, codes(report)) == ("kuberc", ["KF301"])


def test_a_kubelet_configuration_is_not_an_old_provider_config(tmp_path: Path) -> None:
    text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    path = write(tmp_path, text, "kubelet.yaml")
    report = lint_target(path)
    assert (report.kind, codes(report)) == ("kubelet config", [])
    assert codes(lint_target(path, is_read_by_kubelet=True)) == ["KF106"]


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
    read = lint_target(path, is_read_by_kubelet=True)
    assert {each.code for each in read.findings} == {refusal, "KF184", finding[0]}
    assert (read.accepted, bool(read.kubernetes_text)) == (False, True)
    report = lint_target(path)
    found = {each.code: each for each in report.findings}
    assert set(found) == {"KF184", finding[0]}
    # The text is that of the config inside.
    assert report.accepted == (not report.kubernetes_text) == (finding[0] == "KF151")
    pointer, inner = found["KF184"], found[finding[0]]
    assert (pointer.path, pointer.line, pointer.column) == nested
    assert (inner.code, inner.path, inner.line, inner.column) == finding


def test_a_folded_text_is_pointed_at_as_a_whole(tmp_path: Path) -> None:
    inner = CLOUD_INIT.partition("|\n")[2].replace("\n    ", "\\n")
    report = lint_target(write(tmp_path, f'files:\n- content: "{inner.strip()}"\n'))
    found = {each.code: (each.line, each.column) for each in report.findings}
    assert found["KF151"] == found["KF184"] == (2, 3)


def test_other_documents_stay_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, "kind: ConfigMap\napiVersion: v1\ndata: {a: CredentialProviderConfig}\n")
    assert codes(lint_target(path)) == ["KF105"]


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
    """The findings of a file: path, line and column by code."""
    return {each.code: (each.path, each.line, each.column) for each in lint_target(path).findings}


def audiences(path: str) -> list[str]:
    """The audiences that kubelets must be permitted to request."""
    role, _ = yaml.safe_load_all(run_in_process("lint", path, "--rbac").stdout)
    return [name for rule in role["rules"] for name in rule["resources"]]


def test_both_configs_in_one_document_are_linted_together(tmp_path: Path) -> None:
    """As the files of a ConfigMap: what only both show is found at its place there."""
    path = write(tmp_path, CONFIG_MAP)
    assert places(path) == {
        "KF184": ("data.providers.yaml", 5, 3),
        "KF670": ("data.providers.yaml.providers[0].tokenAttributes.cacheType", 16, 9),
        "KF659": ("data.federation.json", 18, 3),
    }
    assert audiences(path) == ["registry.example.com"]


def test_a_federation_config_is_refused_at_its_place_in_a_document(tmp_path: Path) -> None:
    """As text of a ConfigMap and as a part of the values of a chart; nobody reads the document itself as a config."""
    path = write(tmp_path, CONFIG_MAP.replace('"passthrough"', '"nexus"'))
    assert places(path)["KF608"] == ("data.federation.json.rules[0].preset", 20, 43)
    path = write(tmp_path, VALUES)
    assert places(path) == {
        "KF659": ("nodes.federation", 2, 3),
        "KF608": ("nodes.federation.rules[0].preset", 7, 7),
    }
    assert audiences(path) == ["other.example.com"]


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [("federation.json", "other.json", "KF670"), ("other.json", "federation.json", "KF679")],
)
def test_a_file_that_cloud_init_writes_has_its_own_name(
    tmp_path: Path, right: str, wrong: str, code: str
) -> None:
    """By which the arguments of the other config name it."""
    providers, _, inner = CONFIG_MAP.partition("providers.yaml: |\n")[2].partition("  federation.json: |\n")
    files = {"providers.yaml": providers, right: inner, wrong: inner.replace("passthrough", "nexus")}
    text = "".join(f"- path: /etc/keyferry/{name}\n  content: |\n{each}" for name, each in files.items())
    assert code in places(write(tmp_path, f"write_files:\n{text}"))


CONFIG = GOOD.replace("reg.example", "reg.example/team/*")


LINE = "  - reg.example/team/*"


def lint_text(folder: Path, text: str) -> Report:
    return lint_target(write(folder, text))


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
    report = lint_text(tmp_path, CONFIG.replace(LINE, line))
    assert report.findings == ()
    assert [each.code for each in report.suppressed] == ["KF151"]


def test_several_codes_are_separated_by_commas(tmp_path: Path) -> None:
    text = CONFIG.replace("name: plugin", "name: '-p' # keyferry: ignore KF171,KF150")
    report = lint_text(tmp_path, text)
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
    report = lint_text(tmp_path, CONFIG.replace(LINE, line))
    assert sorted(codes(report)) == ["KF050", "KF151"]
    (useless,) = (each for each in report.findings if each.code == "KF050")
    assert useless.severity == "info"
    assert part in useless.message
    assert (useless.line, report.suppressed) == (8, ())


def test_an_error_cannot_be_ignored(tmp_path: Path) -> None:
    text = CONFIG.replace("10m", "-1s # keyferry: ignore KF126").replace("/team/*", "")
    report = lint_text(tmp_path, text)
    assert codes(report) == ["KF126", "KF050"]
    assert report.findings[1].message == "KF126 is an error, which cannot be ignored"
    assert not report.accepted


def test_what_depends_on_the_machine_may_be_ignored_for_another(tmp_path: Path) -> None:
    """There is no bin dir here, so no finding; on a node there may be one."""
    text = CONFIG.replace("name: plugin", "name: plugin # keyferry: ignore KF191").replace("/team/*", "")
    assert lint_text(tmp_path, text).findings == ()


def test_a_kubeconfig_has_comments_too(tmp_path: Path) -> None:
    text = "kind: Config\nclusters:\n- name: k # keyferry: ignore KF255\n  cluster: {server: https://k}\n"
    assert "KF050" in codes(lint_target(write(tmp_path, text, "config", 0o600)))


@pytest.mark.parametrize("hundred", ["KF1", "KF2", "KF3", "KF6"])
def test_refusals_are_errors_and_the_rest_is_not(hundred: str) -> None:
    """The hundreds of provider configs, kubeconfigs, kuberc files and federation configs have refusals below 50."""
    items = json.loads(run_in_process("lint", "--list", "-o", "json").stdout)["items"]
    severities = {each["code"]: each["severity"] for each in items if each["code"].startswith(hundred)}
    assert {severity for code, severity in severities.items() if code[3:] < "50"} == {"error"}
    assert {severity for code, severity in severities.items() if code[3:] >= "50"} == {"warning", "info"}
