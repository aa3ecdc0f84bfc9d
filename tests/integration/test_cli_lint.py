"""``keyferry lint`` as people run it: real processes, real files."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from keyferry.cli.main import main
from keyferry.lint.catalogue import CODES
from keyferry.lint.fixes import FIXABLE_CODES
from keyferry.lint.kinds.providers import lint
from support.commands import run_keyferry
from support.lint import write
from support.parts import BEYOND_CI
from support.public_configs import find_public_configs, verdicts
from support.records import plant
from support.schemas import check_output

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = find_public_configs()
SECRET = "hunter2-hunter2"

GOOD = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 10m
  matchImages:
  - reg.example
"""
WRONG = GOOD.replace("reg.example", "reg.example/*").replace("10m", "-1s")


def _run(*words: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("KEYFERRY_")}
    done = subprocess.run(
        [sys.executable, "-m", "keyferry", "lint", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=keep | environ,
    )
    check_output(done.stdout)
    return done


def test_a_clean_config_gives_no_output_and_status_0(tmp_path: Path) -> None:
    done = _run(write(tmp_path, GOOD))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "keyferry: no problems found in 1 provider (Kubernetes 1.36)\n"


def test_each_finding_is_one_line_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, WRONG)
    done = _run("config.yaml", "-o", "table", cwd=tmp_path)
    assert done.returncode == 1
    first, second = done.stdout.splitlines()
    assert first.startswith("config.yaml:6:3  error    KF126  providers[0].defaultCacheDuration: ")
    assert second.startswith("config.yaml:8:5  warning  KF151  providers[0].matchImages[0]: 'reg.example/*'")
    assert second.endswith("use 'reg.example'")
    assert (
        done.stderr == "keyferry: 1 error, 1 warning in 1 file (Kubernetes 1.36); 1 can be fixed with --fix\n"
    )
    assert "\033" not in done.stdout


def test_the_severity_limits_what_is_reported_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("reg.example", "reg.example/*"))
    assert _run(path).returncode == 1
    done = _run(path, "--severity", "error")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "keyferry: no such problems found in 1 provider (Kubernetes 1.36; 1 warning not shown)\n"
    )


@pytest.mark.parametrize("output", ["text", "json", "junit"])
def test_an_info_alone_is_shown_and_fails_only_when_strict(tmp_path: Path, output: str) -> None:
    path = write(tmp_path, GOOD.replace("reg.example", "reg.example/team"))
    for strict in ((), ("--strict",)):
        done = _run(path, "-o", output, *strict)
        assert done.returncode == len(strict)
        assert "KF162" in done.stdout
        assert done.stderr.startswith("keyferry: 1 info in 1 file")
        assert ("<failure" in done.stdout) == (output == "junit" and bool(strict))
    assert _run(path, "--strict", "--severity", "warning").returncode == 0
    assert _run(write(tmp_path, GOOD.replace("reg.example", "reg.example/*"))).returncode == 1


def test_json_has_stable_fields(tmp_path: Path) -> None:
    path = write(tmp_path, WRONG)
    done = _run(path, "-o", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert (report["apiVersion"], report["kind"]) == ("keyferry.dev/v1alpha1", "LintReport")
    assert report["targets"][0]["accepted"] is False
    assert report["targets"][0]["kubernetesText"].startswith(
        "failed to validate credential provider config: "
    )
    error, warning = report["findings"]
    assert set(error) == {"code", "severity", "file", "line", "column", "path", "message", "kubernetesText"}
    assert set(warning) == set(error) - {"kubernetesText"}
    assert (error["file"], error["line"], error["column"]) == (path, 6, 3)


def test_sarif_has_rules_and_locations(tmp_path: Path) -> None:
    write(tmp_path, WRONG, "my config.yaml")
    done = _run("my config.yaml", "nope", "-o", "sarif", cwd=tmp_path)
    log: dict[str, Any] = json.loads(done.stdout)
    (run,) = log["runs"]
    assert (log["version"], run["tool"]["driver"]["name"]) == ("2.1.0", "keyferry")
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(CODES)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
    first = run["results"][0]["locations"][0]
    assert first["physicalLocation"] == {
        "artifactLocation": {"uri": "my%20config.yaml"},
        "region": {"startLine": 6, "startColumn": 3},
    }
    assert first["logicalLocations"] == [{"fullyQualifiedName": "providers[0].defaultCacheDuration"}]
    assert "region" not in run["results"][-1]["locations"][0]["physicalLocation"]


def test_a_directory_is_merged_as_the_kubelet_does(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "10.yaml")
    write(tmp_path, GOOD, "2.yaml")
    done = _run(str(tmp_path))
    assert done.returncode == 1
    assert "2.yaml:4:3" in done.stdout
    assert "KF111" in done.stdout
    old = _run(str(tmp_path), "--kubernetes", "1.33", "--severity", "error")
    assert "KF112" in old.stdout


BAD_INPUT = [
    pytest.param("nope", 3, "cannot be read: no such file or directory", id="no such file"),
    pytest.param("config.yaml/x", 3, "cannot be read: not a directory", id="below a file"),
    pytest.param("not.yaml", 1, "not valid YAML", id="not YAML"),
    pytest.param("not.json", 1, "not valid JSON", id="not JSON"),
    pytest.param("pod.yaml", 1, "expected 'kubelet.config.k8s.io/v1'", id="wrong kind"),
    pytest.param("list.yaml", 1, "expected an object", id="no mapping"),
    pytest.param("bytes.yaml", 1, "not valid YAML", id="not text"),
    pytest.param("empty", 1, "holds no .json, .yaml or .yml file", id="empty directory"),
    pytest.param("/dev/null", 1, "the file is empty", id="empty file"),
]


@pytest.mark.parametrize(("target", "status", "part"), BAD_INPUT)
def test_bad_input_gives_one_clear_line(tmp_path: Path, target: str, status: int, part: str) -> None:
    write(tmp_path, GOOD)
    write(tmp_path, "a: [", "not.yaml")
    write(tmp_path, '{"a": // b\n}', "not.json")
    write(tmp_path, "apiVersion: v1\nkind: Pod\n", "pod.yaml")
    write(tmp_path, "- a\n", "list.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"a: \xff\xfe\n")
    (tmp_path / "bytes.yaml").chmod(0o644)
    (tmp_path / "empty").mkdir(mode=0o755)
    done = _run(target, "-o", "table", cwd=tmp_path)
    assert done.returncode == status
    assert len(done.stdout.splitlines()) == 1
    assert part in done.stdout
    assert "Traceback" not in done.stderr


def test_a_file_that_may_not_be_read_is_an_environment_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, GOOD)
    os.chmod(path, 0)
    was = os.geteuid()
    os.seteuid(was or 65534)  # root may read everything, so be somebody else for the moment
    try:
        status = main(["lint", str(path)])
    finally:
        os.seteuid(was)
    assert status == 3
    assert "permission denied" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--kubernetes", "1.25"), "the v1 provider config exists since 1.26"),
        (("--kubernetes", "latest"), "is not a Kubernetes version"),
        (("--feature-gates", "A"), "expected NAME=true or NAME=false"),
        (("--severity", "fatal"), "invalid choice"),
        (("--list", "KF999"), "'KF999' is not a code"),
        (("--nope",), "unrecognized arguments"),
    ],
)
def test_wrong_usage_gives_status_2(words: tuple[str, ...], part: str) -> None:
    done = _run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert part in done.stderr


def test_the_feature_gate_is_taken_as_the_kubelet_takes_it(tmp_path: Path) -> None:
    tokens = "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true}\n"
    path = write(tmp_path, GOOD + tokens)
    gate = "KubeletServiceAccountTokenForCredentialProviders"
    assert "KF130" in _run(path, "--kubernetes", "v1.33.1").stdout
    done = _run(path, "--kubernetes", "1.33", "--feature-gates", f"Other=false,{gate}=true")
    assert (done.returncode, done.stdout) == (0, "")
    assert "'Other' does not affect" in done.stderr


def test_codes_are_listed_with_what_to_do() -> None:
    done = _run("--list")
    assert done.returncode == 0
    assert [line[:5] for line in done.stdout.splitlines() if line.startswith("KF")] == list(CODES)
    one = _run("--list", "kf151", "-o", "json")
    (item,) = json.loads(one.stdout)["items"]
    assert set(item) == {"code", "severity", "title", "why", "fix"}


def test_without_targets_the_nodes_config_is_linted(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    alone = _run(KEYFERRY_CONFIG=path)
    assert alone.returncode == 0
    assert f"linting config {path} (KEYFERRY_CONFIG), without its plugins" in alone.stderr
    home = tmp_path / "bin"
    home.mkdir(mode=0o755)
    both = _run(KEYFERRY_CONFIG=path, KEYFERRY_BIN_DIR=str(home))
    assert both.returncode == 1
    assert "KF141" in both.stdout
    assert "KF141" in _run(path, KEYFERRY_BIN_DIR=str(home)).stdout
    assert "KF141" in _run(path, "--bin-dir", str(home)).stdout


@pytest.mark.parametrize("output", ["text", "table", "json", "sarif", "junit", "github", "diff"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"env: [{{name: PASSWORD, value: {SECRET}}}]\n", id="no kind"),
        pytest.param(GOOD + f"  env: [{{name: PASSWORD, value: {SECRET}}}]\n", id="variable"),
        pytest.param(GOOD + f"  args: [--password={SECRET}]\n", id="argument"),
        pytest.param(GOOD + f"  args: [!!int {SECRET}]\n", id="tag"),
        pytest.param(GOOD + f"  ~: {SECRET}\n", id="null key"),
        pytest.param(GOOD + f"  args: [*{SECRET}]\n", id="alias"),
        pytest.param(GOOD.replace("reg.example", f"u:{SECRET}@reg.example"), id="user info"),
        pytest.param(GOOD.replace("reg.example", f"u:{SECRET}@reg[.example"), id="user info, refused"),
        pytest.param(GOOD.replace("reg.example", f"'u:\"{SECRET}@reg.example'"), id="user info with a quote"),
        pytest.param(GOOD.replace("reg.example", f"https://u:{SECRET}@reg.example"), id="whole URL"),
        pytest.param(GOOD.replace("reg.example", f'"oci://u:{SECRET}@reg\\t"'), id="whole URL, refused"),
    ],
)
def test_no_secret_is_ever_printed(tmp_path: Path, text: str, output: str) -> None:
    done = _run(write(tmp_path, text), "-o", output)
    assert done.returncode == 1
    assert SECRET not in done.stdout + done.stderr


def test_strange_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """Control characters of a file's name or content are replaced, and each finding stays on one line."""
    name = "a\n\033[2J.yaml"
    path = write(tmp_path, GOOD + '  "x\\ny\\e[2J": 1\n', name)
    assert "\033" not in _run(path).stdout
    done = _run(path, "-o", "table")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1
    assert "\033" not in done.stdout


def _verdicts() -> list[dict[str, Any]]:
    return verdicts("credential-provider-config")


@pytest.mark.skipif(not _verdicts(), reason=BEYOND_CI["public-configs"])
def test_public_configs_get_the_verdict_of_kubernetes() -> None:
    wrong = {}
    for entry in _verdicts():
        want, path = entry["verdict"], str(PUBLIC / entry["file"])
        report = lint(path)
        texts = [finding.kubernetes_text for finding in report.findings if finding.severity == "error"]
        if report.accepted != want["accepted"]:
            wrong[entry["file"]] = f"accepted: {report.accepted}"
        elif want["errors"] is not None and texts != want["errors"]:
            wrong[entry["file"]] = f"errors: {texts}"
        elif _shape(report.kubernetes_text) != _shape(want["error"] or ""):
            wrong[entry["file"]] = report.kubernetes_text
        # As the config of a node; given as a file, a document with a config inside is linted for that one.
        elif (_run("--severity", "error", KEYFERRY_CONFIG=path).returncode == 0) != want["accepted"]:
            wrong[entry["file"]] = "exit status"
    assert wrong == {}


def _shape(text: str) -> str:
    """A text without the file's name, the name of Go's scheme, and the details of its JSON parser."""
    stage, colon, rest = text.partition('": ')
    if stage.startswith("error decoding config"):
        text = "error decoding config" + colon + rest
    return text.partition(" in scheme ")[0].partition("json parse error: ")[0]


def test_several_folders_of_records_are_counted_as_such(tmp_path: Path) -> None:
    folders = []
    for name in ("one", "two"):
        plant(tmp_path / name)
        folders.append(str(tmp_path / name / "image_manager"))
    done = run_keyferry("lint", *folders)
    assert "no problems found in 2 folders of pull records" in done.stdout + done.stderr
    alone = run_keyferry("lint", folders[0])
    assert "no problems found in 1 folder of pull records" in alone.stdout + alone.stderr


def _in_terminal(*words: str, columns: int, cwd: Path) -> list[str]:
    """What a pseudo-terminal of this width gets, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "keyferry", "lint", *words]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environ
    ) as process:
        os.close(theirs)
        chunks = []
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not chunk:
                break
            chunks.append(chunk)
        process.wait()
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", b"".join(chunks).decode()).replace("\r", "").splitlines()


FIXABLE = GOOD.replace("reg.example", "reg.example/*  # all of it")


def _call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["lint", *words])
    shown = capsys.readouterr()
    check_output(shown.out)
    return status, shown.out, shown.err


def test_the_text_has_the_line_with_a_mark_below_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, FIXABLE)
    status, out, err = _call(capsys, path)
    head, *frame = out.splitlines()
    assert status == 1
    assert head.startswith(f"{path}:8:5: warning KF151: providers[0].matchImages[0]: 'reg.example/*': ")
    assert frame == ["  |", "8 |   - reg.example/*  # all of it", "  |     ^^^^^^^^^^^^^"]
    assert err == "keyferry: 1 warning in 1 file (Kubernetes 1.36); 1 can be fixed with --fix\n"


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_terminal_is_never_too_narrow(tmp_path: Path, columns: int) -> None:
    """In a real pseudo-terminal nothing is wider than the screen but words that cannot be broken."""
    write(tmp_path, FIXABLE.replace("all of it", "x" * 200), "c.yaml")
    lines = _in_terminal("c.yaml", columns=columns, cwd=tmp_path)
    assert lines[0].startswith("c.yaml:8:5: warning KF151:")
    assert all(len(line) <= columns for line in lines if not line.startswith("keyferry:"))
    mark = next(line for line in lines if "^" in line)
    source = lines[lines.index(mark) - 1]
    assert source[mark.index("^") :].startswith("reg.example/*")


def test_a_diff_shows_what_a_fix_would_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, FIXABLE)
    status, out, _ = _call(capsys, path, "-o", "diff")
    assert status == 1
    assert out.splitlines()[-2:] == ["-  - reg.example/*  # all of it", "+  - reg.example  # all of it"]
    assert Path(path).read_text() == FIXABLE
    status, out, err = _call(capsys, path, "--fix")
    assert (status, out) == (0, "")
    assert err.startswith(f"keyferry: corrected {path}\n")
    assert Path(path).read_text() == FIXABLE.replace("/*", "")
    assert _call(capsys, path, "--fix")[0] == 0


def test_a_fix_can_show_what_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, FIXABLE)
    shown = _call(capsys, path, "-o", "diff")[1]
    status, out, err = _call(capsys, path, "--fix", "-o", "diff")
    assert (status, out) == (0, shown)
    assert err.startswith(f"keyferry: corrected {path}\n")
    assert Path(path).read_text() == FIXABLE.replace("/*", "")
    assert _call(capsys, path, "--fix", "-o", "diff")[:2] == (0, "")


def test_every_file_of_a_directory_is_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d").mkdir(mode=0o755)
    for name in ("a", "b"):
        write(
            tmp_path / "d",
            FIXABLE.replace("name: plugin", f"name: {name}").replace("reg", name),
            f"{name}.yaml",
        )
    assert _call(capsys, str(tmp_path / "d"), "--fix")[0] == 0
    assert "a.example  # all" in (tmp_path / "d" / "a.yaml").read_text()
    assert "b.example  # all" in (tmp_path / "d" / "b.yaml").read_text()


def test_only_what_is_shown_is_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, FIXABLE)
    assert _call(capsys, path, "--fix", "--severity", "error")[0] == 0
    assert Path(path).read_text() == FIXABLE


def test_standard_input_is_a_dash() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "keyferry", "lint", "-", "-o", "github"],
        input=FIXABLE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.startswith(
        "::warning file=/dev/stdin,line=8,col=5,title=KF151%3A a pattern has a wildcard"
    )
    fixing = subprocess.run(
        [sys.executable, "-m", "keyferry", "lint", "-", "--fix"],
        input=FIXABLE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert fixing.returncode == 2
    assert "--fix cannot correct standard input" in fixing.stderr


def test_junit_has_a_case_for_each_finding_and_each_clean_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, good = write(tmp_path, WRONG), write(tmp_path, GOOD, "good.yaml")
    status, out, _ = _call(capsys, wrong, good, "-o", "junit")
    suite = ET.fromstring(out)[0]
    assert status == 1
    assert [(case.get("classname"), case.get("name")) for case in suite] == [
        (wrong, "KF126 providers[0].defaultCacheDuration"),
        (wrong, "KF151 providers[0].matchImages[0]"),
        (good, "no problems"),
    ]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")


def test_json_counts_what_is_suppressed_and_what_can_be_fixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = FIXABLE.replace("name: plugin", "name: -p # keyferry: ignore KF171: it is called so")
    status, out, _ = _call(capsys, write(tmp_path, text), "-o", "json")
    (target,) = json.loads(out)["targets"]
    assert (status, target["suppressed"], target["fixable"]) == (1, 1, 1)


def test_several_versions_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = (
        "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true, cacheType: Token}\n"
    )
    path = write(tmp_path, GOOD + tokens)
    status, out, err = _call(capsys, path, "--kubernetes", "1.32,v1.34.1", "-o", "table")
    assert status == 1
    assert out.rstrip().endswith("(Kubernetes 1.32)")
    assert err == "keyferry: 1 error in 1 file (Kubernetes 1.32, 1.34)\n"
    finding = json.loads(_call(capsys, path, "--kubernetes", "1.32,1.34", "-o", "json")[1])["findings"][0]
    assert finding["versions"] == ["1.32"]


def test_a_version_newer_than_known_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = _call(capsys, write(tmp_path, GOOD), "--kubernetes", "1.99")
    assert status == 0
    assert err.splitlines() == [
        "keyferry: warning: Kubernetes 1.99 is newer than this version of keyferry knows; the newest rules are used",
        "keyferry: no problems found in 1 provider (Kubernetes 1.99)",
    ]


def test_findings_of_this_machine_can_be_switched_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, GOOD)
    nowhere = str(tmp_path / "nowhere")
    assert _call(capsys, path, "--bin-dir", nowhere)[0] == 1
    assert _call(capsys, path, "--bin-dir", nowhere, "--elsewhere")[:2] == (0, "")


def test_the_example_of_the_page_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    blocks = dict(reversed(re.findall(r"```(yaml|text|diff)\n(.*?)```", page, re.DOTALL)))
    write(tmp_path, blocks["yaml"], "providers.yaml")
    monkeypatch.chdir(tmp_path)
    assert _call(capsys, "providers.yaml")[1] == blocks["text"]
    assert _call(capsys, "providers.yaml", "-o", "diff")[1] == blocks["diff"]


def test_the_page_lists_what_can_be_corrected() -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (KF[^|]*) \|", page, re.MULTILINE)
    assert {code for row in rows for code in row.split(", ")} == set(FIXABLE_CODES)


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """Also from a pipe, which is not read to its end."""
    path = tmp_path / "long.yaml"
    with path.open("wb") as stream:
        stream.truncate((16 << 20) + 1)
    done = _run(str(path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"keyferry: {path} is not linted: it has more than 16 MiB\n"
    command = [sys.executable, "-m", "keyferry", "lint", "-"]
    refused = subprocess.run(command, input=path.read_bytes(), capture_output=True, check=False)
    assert (refused.returncode, b"more than 16 MiB" in refused.stderr) == (3, True)


@pytest.mark.skipif(sys.platform == "win32", reason="makes a pipe with a name")
def test_a_pipe_that_is_waited_for_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path, 0o600)
    command = [sys.executable, "-m", "keyferry", "lint", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == f"keyferry: reading {path}, a pipe, until its writer closes it\n"
        path.write_text(GOOD)
        assert "no problems found" in running.stderr.read()
    assert running.returncode == 0


@pytest.mark.parametrize(
    "text", ["correct horse battery staple\n", "'correct horse'\n", "correct\n  horse\n", "4711\n"]
)
def test_a_file_that_is_one_plain_value_is_not_shown(tmp_path: Path, text: str) -> None:
    """It may be a password."""
    (tmp_path / "password").write_text(text)
    for output in ("text", "table", "json", "github", "diff"):
        done = run_keyferry("lint", "password", "-o", output, cwd=tmp_path)
        assert done.returncode == 1
        assert not re.search("correct|horse|battery|4711", done.stdout + done.stderr)
