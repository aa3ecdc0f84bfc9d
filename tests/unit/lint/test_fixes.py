"""What has one right answer is corrected, and every other byte stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyferry.lint.fixes import fix_file
from keyferry.lint.report import LintReport
from keyferry.lint.run import LintRequest, lint_any, lint_files
from keyferry.lint.source import SourceFile
from support.lint import write

CONFIG = """\
# The providers of our nodes.
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin   # ours
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 10m
  matchImages:
  - reg.example
"""
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: k, cluster: {server: "https://k:6443"}}]
contexts: [{name: c, context: {cluster: k, user: u}}]
users:
- name: u
  user:
    exec:
      # the plugin
      apiVersion: client.authentication.k8s.io/v1
      command: /bin/sh
"""


def fixed(folder: Path, text: str, name: str = "config.yaml") -> str:
    """The text of a file after its corrections, none of which is written to the file."""
    path = folder / name
    path.write_bytes(text.encode())
    path.chmod(0o600)
    done = lint_files(LintRequest(targets=((str(path), None),), corrects=True)).fixed
    assert path.read_bytes() == text.encode()
    assert [each.before for each in done] == [text.encode()] * len(done)
    return done[0].after.decode() if done else text


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("reg.example/*", "reg.example"),
        ("reg.example/team/*   # all", "reg.example/team/   # all"),
        ('"reg.example/**"', '"reg.example"'),
        ("'https://reg.example/*'", "'reg.example'"),
        ("https://u:p@reg.example/", "reg.example"),
        ("reg.example/Team/", "reg.example/team/"),
        ("reg.example/app:v1", "reg.example/app"),
        ("reg.example/app@sha256:abc", "reg.example/app"),
        ("user@reg.example", "reg.example"),
        ("reg.example.", "reg.example"),
        ("index.docker.io", "docker.io"),
        ("'*.dkr.ecr.*.amazonaws.cn'", "'*.dkr.ecr.*.amazonaws.com.cn'"),
    ],
)
def test_a_pattern_becomes_what_was_meant(tmp_path: Path, wrong: str, right: str) -> None:
    text = CONFIG.replace("- reg.example", f"- {wrong}")
    assert fixed(tmp_path, text) == CONFIG.replace("- reg.example", f"- {right}")


@pytest.mark.parametrize(
    "wrong", ["reg.example/*/app", "registry", "'*'", "reg.example:443", "reg.example/app"]
)
def test_a_pattern_without_one_right_answer_stays(tmp_path: Path, wrong: str) -> None:
    text = CONFIG.replace("- reg.example", f"- {wrong}")
    assert fixed(tmp_path, text) == text


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", id="version"),
        pytest.param("matchImages:", "match_images:", id="field"),
        pytest.param("matchImages:", '"MatchImages" :', id="quoted field"),
        pytest.param("10m", "2d", id="days"),
    ],
)
def test_other_errors_are_corrected(tmp_path: Path, right: str, wrong: str) -> None:
    done = fixed(tmp_path, CONFIG.replace(right, wrong))
    expected = CONFIG.replace("10m", "48h") if wrong == "2d" else CONFIG
    assert done == (expected if '"' not in wrong else CONFIG.replace(right, '"matchImages" :'))


def test_a_scalar_that_must_be_text_gets_quotes(tmp_path: Path) -> None:
    tail = "  args: [8080, --x, no]  # p\n  env:\n  - {name: A, value: 010}\n  - name: B\n    value: 1.50   # x\n"
    right = (
        tail.replace("8080", '"8080"')
        .replace("no]", '"no"]')
        .replace("010", '"010"')
        .replace("1.50", '"1.50"')
    )
    assert fixed(tmp_path, CONFIG + tail) == CONFIG + right


def test_line_ends_and_all_else_stay(tmp_path: Path) -> None:
    text = CONFIG.replace("- reg.example", "- reg.example/*").replace("\n", "\r\n") + "# ümlaut 名\r\n\r\n"
    assert fixed(tmp_path, text) == text.replace("example/*", "example")


def test_json_is_corrected_in_place(tmp_path: Path) -> None:
    for indent in (None, 1):
        document = {
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": [
                {
                    "name": "plugin",
                    "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
                    "defaultCacheDuration": "10m",
                    "matchImages": ["reg.example/*", "index.docker.io"],
                    "args": [8080],
                }
            ],
        }
        text = json.dumps(document, indent=indent)
        right = text.replace("/*", "").replace("index.", "").replace("8080", '"8080"')
        assert fixed(tmp_path, text, "config.json") == right


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "      apiVersion: client",
            "      interactiveMode: IfAvailable\n      apiVersion: client",
            id="block",
        ),
    ],
)
def test_a_missing_mode_is_added(tmp_path: Path, old: str, new: str) -> None:
    assert fixed(tmp_path, KUBECONFIG) == KUBECONFIG.replace(old, new)


def test_a_missing_mode_is_added_to_flow_style_and_json(tmp_path: Path) -> None:
    inner = "{apiVersion: client.authentication.k8s.io/v1, command: /bin/sh}"
    start = KUBECONFIG.partition("      #")[0].rstrip("\n").removesuffix("exec:")
    text = f"{start}exec: {inner}\n"
    assert fixed(tmp_path, text) == text.replace("{api", "{interactiveMode: IfAvailable, api")
    import yaml

    whole = json.dumps(yaml.safe_load(KUBECONFIG), indent=2)
    done = fixed(tmp_path, whole)
    assert json.loads(done)["users"][0]["user"]["exec"]["interactiveMode"] == "IfAvailable"
    assert done.replace('"interactiveMode": "IfAvailable",\n          ', "") == whole


def test_a_mode_is_not_guessed_for_other_versions(tmp_path: Path) -> None:
    text = KUBECONFIG.replace("k8s.io/v1\n", "k8s.io/v9\n")
    assert fixed(tmp_path, text) == text


def test_an_ignored_finding_is_not_corrected(tmp_path: Path) -> None:
    text = CONFIG.replace("- reg.example", "- reg.example/* # keyferry: ignore KF151")
    assert fixed(tmp_path, text) == text


def test_a_config_nested_in_another_document_is_corrected(tmp_path: Path) -> None:
    inner = "".join(
        f"    {line}\n" for line in CONFIG.replace("- reg.example", "- reg.example/*").splitlines()
    )
    text = f"machine:\n  config:\n{inner}"
    assert fixed(tmp_path, text) == text.replace("/*", "")


def test_what_would_be_refused_afterwards_is_not_corrected(tmp_path: Path) -> None:
    """A linter that refuses everything but the first text stands for a correction that would do harm."""
    text = CONFIG.replace("- reg.example", "- reg.example/*").encode()
    path = str(tmp_path / "config.yaml")

    source = SourceFile.parse(path, text)

    def lint(new: SourceFile) -> LintReport:
        return lint_any(path, source=new if new.data == text else SourceFile.parse(path, b"kind: ["))

    assert fix_file(source, lint, lambda _: True).after == text


def test_what_can_be_corrected_is_counted(tmp_path: Path) -> None:
    text = CONFIG.replace("- reg.example", "- a.example/*\n  - index.docker.io\n  - registry")
    for content, count in ((text, 2), ("a: [", 0)):
        result = lint_files(LintRequest(targets=((write(tmp_path, content), None),)))
        assert result.fixable == (count,)


@pytest.mark.parametrize("text", ["\ufeff" + CONFIG, CONFIG.replace("ours", "o\u2028urs")])
def test_a_text_with_unusual_line_ends_stays(tmp_path: Path, text: str) -> None:
    wrong = text.replace("- reg.example", "- reg.example/*")
    assert fixed(tmp_path, wrong) == wrong


@pytest.mark.parametrize(
    ("patterns", "after"),
    [
        pytest.param(
            "\n  - reg.example/*\n  - b.example\n  - https://reg.example\n  - https://reg.example/*",
            "\n  - reg.example\n  - b.example",
            id="block",
        ),
        pytest.param("\n  - reg.example/*\n  - reg.example", "\n  - reg.example", id="there already"),
        pytest.param(" [reg.example/*, https://reg.example]", " [reg.example]", id="flow"),
        pytest.param(' ["reg.example/*", reg.example]', " [reg.example]", id="flow, there already"),
        pytest.param(
            "\n  - reg.example/*\n  - https://reg.example  # why",
            "\n  - reg.example\n  - https://reg.example  # why",
            id="a comment stays",
        ),
    ],
)
def test_a_correction_repeats_no_pattern(tmp_path: Path, patterns: str, after: str) -> None:
    text = CONFIG.replace("\n  - reg.example", patterns)
    assert fixed(tmp_path, text) == CONFIG.replace("\n  - reg.example", after)
