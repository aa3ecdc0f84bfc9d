"""Fixes that lint makes itself."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from keyferry.errors import EnvironmentProblem
from keyferry.lint.fixes import FixedFile, fix_file, write_file
from keyferry.lint.source import SourceFile
from support.commands import run_in_process
from support.lint import SECRET, Report, lint_target, write
from support.parts import need

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
    """The text of a file after its corrections."""
    path = Path(write(folder, text, name, 0o600))
    run_in_process("lint", "--fix", str(path))
    return path.read_bytes().decode()


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
    ("old", "wrong", "right"),
    [
        pytest.param("kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", None, id="version"),
        pytest.param("matchImages:", "match_images:", None, id="field"),
        pytest.param("matchImages:", '"MatchImages" :', '"matchImages" :', id="quoted field"),
        pytest.param("10m", "2d", "48h", id="days"),
    ],
)
def test_other_errors_are_corrected(tmp_path: Path, old: str, wrong: str, right: str | None) -> None:
    assert fixed(tmp_path, CONFIG.replace(old, wrong)) == CONFIG.replace(old, right or old)


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


def test_a_missing_mode_is_added(tmp_path: Path) -> None:
    old = "      apiVersion: client"
    assert fixed(tmp_path, KUBECONFIG) == KUBECONFIG.replace(
        old, f"      interactiveMode: IfAvailable\n{old}"
    )


def test_a_missing_mode_is_added_to_flow_style_and_json(tmp_path: Path) -> None:
    inner = "{apiVersion: client.authentication.k8s.io/v1, command: /bin/sh}"
    start = KUBECONFIG.partition("      #")[0].rstrip("\n").removesuffix("exec:")
    text = f"{start}exec: {inner}\n"
    assert fixed(tmp_path, text) == text.replace("{api", "{interactiveMode: IfAvailable, api")
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
    path = write(tmp_path, CONFIG.replace("- reg.example", "- reg.example/*"))
    source = SourceFile.parse(path, Path(path).read_bytes())

    def lint(new: SourceFile) -> Report:
        return lint_target(path if new.data == source.data else write(tmp_path, "kind: [", "refused"))

    assert fix_file(source, lint, lambda _: True).after == source.data


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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A config with one correction."""
    return Path(write(tmp_path, CONFIG.replace("- reg.example", "- reg.example/*"), mode=0o640))


def test_mode_and_owner_stay(file: Path) -> None:
    if os.geteuid() == 0:
        os.chown(file, 12345, 54321)
    before = file.stat()
    assert run_in_process("lint", "--fix", "--elsewhere", str(file)).returncode == 0
    after = file.stat()
    assert file.read_text() == CONFIG
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert os.listdir(file.parent) == ["config.yaml"]


def test_a_link_stays_a_link(file: Path) -> None:
    link = file.parent / "link"
    link.symlink_to(file)
    assert run_in_process("lint", "--fix", str(link)).returncode == 0
    assert link.is_symlink()
    assert file.read_text() == CONFIG


def test_a_file_that_changed_meanwhile_is_not_written(file: Path) -> None:
    file.write_bytes(b"edited\n")
    with pytest.raises(EnvironmentProblem, match="has changed since it was read"):
        write_file(FixedFile(path=str(file), before=b"old\n", after=b"new\n"))
    assert file.read_bytes() == b"edited\n"
    assert os.listdir(file.parent) == ["config.yaml"]


def test_a_file_with_two_names_is_not_written(file: Path) -> None:
    os.link(file, file.parent / "other")
    before = file.read_bytes()
    done = run_in_process("lint", "--fix", str(file))
    assert (done.returncode, file.read_bytes()) == (3, before)
    assert "not a regular file with one name" in done.stderr


def test_a_folder_that_is_gone_is_an_environment_problem(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        write_file(FixedFile(path=str(tmp_path / "nope" / "x"), before=b"old\n", after=b"new\n"))


HEAD = CONFIG.partition("  defaultCacheDuration")[0].replace("# The providers of our nodes.\n", "")


def test_a_diff_shows_each_changed_line_and_no_secret(tmp_path: Path) -> None:
    text = f"{HEAD}  args: [8080, {SECRET}]\n  matchImages: [b.example]\n  defaultCacheDuration: 2d\n"
    write(tmp_path, text, "c.yaml")
    done = run_in_process("lint", "-o", "diff", "c.yaml", cwd=tmp_path)
    assert SECRET not in done.stdout + done.stderr
    first, *lines = done.stdout.splitlines()
    assert first.startswith("# a line that changes is masked")
    assert lines[:2] == ["--- a/c.yaml", "+++ b/c.yaml"]
    assert [line for line in lines[2:] if line[0] in "+-"] == [
        "-  args: [********, ********]",
        "+  args: [********, ********]",
        "-  defaultCacheDuration: 2d",
        "+  defaultCacheDuration: 48h",
    ]


ARGUMENT = f"{HEAD}  args:\n  - {SECRET}\n  matchImages: [a.example/*]\n"
DURATION = f"  env:\n  - name: A\n    value: {SECRET}\n  defaultCacheDuration: 2d"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{ARGUMENT}{DURATION}\n", id="masked lines"),
        pytest.param(f"{ARGUMENT}  # its variables\n{DURATION}\n", id="a line that is shown"),
        pytest.param(f"{ARGUMENT}{DURATION}", id="no line end"),
        pytest.param(
            KUBECONFIG.replace("exec:", f"exec: # password: {SECRET}").replace(
                "# the plugin", f"args: [{SECRET}]"
            ),
            id="an inserted line",
        ),
    ],
)
def test_a_diff_with_secrets_around_the_changes_can_be_applied(tmp_path: Path, text: str) -> None:
    """Lines that are masked are left out around a change, so that they need not be found."""
    path = Path(write(tmp_path, text, "c.yaml"))
    done = run_in_process("lint", "-o", "diff", "c.yaml", cwd=tmp_path)
    assert SECRET not in done.stdout
    assert done.stdout.startswith("--- a/c.yaml\n")
    command = [need("git"), "apply", "--unidiff-zero", "-"]
    subprocess.run(command, input=done.stdout, text=True, cwd=tmp_path, check=True)
    applied = path.read_text()
    assert applied != text
    assert fixed(tmp_path, text) == applied
