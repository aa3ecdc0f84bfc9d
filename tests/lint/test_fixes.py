"""Fixes that lint makes itself."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.lint.fixes import FixedFile, fix_file, masked_diff, write_file
from keyferry.lint.report import LintReport
from keyferry.lint.run import LintRequest, lint_any, lint_files
from keyferry.lint.source import SourceFile
from support.lint import SECRET, write
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
        )
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
