"""``keyferry lint`` as people run it: provider configs, kubeconfigs, kuberc files, federation configs and records."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from keyferry.lint.fixes import FIXABLE_CODES
from support.commands import run_in_process
from support.federation import AUDIENCE, ISSUER
from support.lint import GOOD, KUBECONFIG, write
from support.pages import Machine, blocks
from support.records import plant
from support.terminal import keyferry_on_terminal

ROOT = Path(__file__).resolve().parents[2]
WRONG = GOOD.replace("reg.example", "reg.example/*").replace("10m", "-1s")
WRONG_KUBECONFIG = KUBECONFIG.replace("Never", "Maybe")
KUBERC = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n"
_FEDERATION = """\
apiVersion: keyferry.dev/v1alpha1
kind: FederationConfig
rules:
- registries: [zot.example.com]
  subject: {{audience: {audience}, issuer: '{issuer}'}}
  preset: passthrough
  params: {{username: hunter2-hunter2}}
"""
FEDERATION = _FEDERATION.format(audience=AUDIENCE, issuer=ISSUER)
PROVIDERS = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: keyferry-federate
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [zot.example.com]
  defaultCacheDuration: 0s
  args: [--config=/etc/keyferry/federation.json]
  tokenAttributes:
    serviceAccountTokenAudience: {audience}
    cacheType: {cache_type}
    requireServiceAccount: true
"""


def write_kube(folder: Path, text: str, name: str = "config") -> str:
    return write(folder, text, name, 0o600)


def _run(
    *words: str, stdin: str = "", cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    return run_in_process("lint", *words, stdin=stdin, cwd=cwd, **env)


def _listed(*words: str) -> list[str]:
    """The codes that are explained."""
    done = _run("--list", *words)
    assert done.returncode == 0
    return re.findall(r"^KF\d+", done.stdout, re.MULTILINE)


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
    assert [rule["id"] for rule in rules] == _listed()
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
    first = run["results"][0]["locations"][0]
    assert first["physicalLocation"] == {
        "artifactLocation": {"uri": "my%20config.yaml"},
        "region": {"startLine": 6, "startColumn": 3, "endColumn": 28},
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


def test_a_file_that_may_not_be_read_is_an_environment_problem(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    os.chmod(path, 0)
    was = os.geteuid()
    os.seteuid(was or 65534)  # root may read everything, so be somebody else for the moment
    try:
        done = _run(path)
    finally:
        os.seteuid(was)
    assert done.returncode == 3
    assert "permission denied" in done.stdout


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
    listed = _listed()
    assert {"KF101", "KF860"} <= set(listed)
    assert listed == sorted(listed)
    assert _listed("KF225", "kf312") == ["KF225", "KF312"]
    (item,) = json.loads(_run("--list", "kf151", "-o", "json").stdout)["items"]
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


def test_strange_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """Control characters of a file's name or content are replaced, and each finding stays on one line."""
    path = write(tmp_path, f'{GOOD}  "x\\ny\\e[2J": 1\n', "a\n\033[2J.yaml")
    text, table = _run(path), _run(path, "-o", "table")
    assert "\033" not in text.stdout + text.stderr + table.stdout
    assert (table.returncode, len(table.stdout.splitlines())) == (1, 1)


def test_several_folders_of_records_are_counted_as_such(tmp_path: Path) -> None:
    folders = []
    for name in ("one", "two"):
        plant(tmp_path / name)
        folders.append(str(tmp_path / name / "image_manager"))
    assert "no problems found in 2 folders of pull records" in _run(*folders).stderr
    assert "no problems found in 1 folder of pull records" in _run(folders[0]).stderr


FIXABLE = GOOD.replace("reg.example", "reg.example/*  # all of it")


def test_the_text_has_the_line_with_a_mark_below_the_place(tmp_path: Path) -> None:
    path = write(tmp_path, FIXABLE)
    done = _run(path)
    head, *frame = done.stdout.splitlines()
    assert done.returncode == 1
    assert head.startswith(f"{path}:8:5: warning KF151: providers[0].matchImages[0]: 'reg.example/*': ")
    assert frame == ["  |", "8 |   - reg.example/*  # all of it", "  |     ^^^^^^^^^^^^^"]
    assert done.stderr == "keyferry: 1 warning in 1 file (Kubernetes 1.36); 1 can be fixed with --fix\n"


@pytest.mark.parametrize("columns", [40, 120])
def test_a_terminal_is_never_too_narrow(tmp_path: Path, columns: int) -> None:
    """In a real pseudo-terminal nothing is wider than the screen but words that cannot be broken."""
    write(tmp_path, FIXABLE.replace("all of it", "x" * 200), "c.yaml")
    lines = keyferry_on_terminal("lint", "c.yaml", columns=columns, cwd=tmp_path).screen.splitlines()
    assert lines[0].startswith("c.yaml:8:5: warning KF151:")
    assert all(len(line) <= columns for line in lines if not line.startswith("keyferry:"))
    mark = next(line for line in lines if "^" in line)
    source = lines[lines.index(mark) - 1]
    assert source[mark.index("^") :].startswith("reg.example/*")


@pytest.mark.parametrize("options", [(), ("-o", "diff")], ids=["fix", "fix with a diff"])
def test_a_diff_shows_what_a_fix_writes(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = write(tmp_path, FIXABLE)
    diff = _run(path, "-o", "diff")
    assert diff.returncode == 1
    assert diff.stdout.splitlines()[-2:] == [
        "-  - reg.example/*  # all of it",
        "+  - reg.example  # all of it",
    ]
    assert Path(path).read_text() == FIXABLE
    done = _run(path, "--fix", *options)
    assert (done.returncode, done.stdout) == (0, diff.stdout if options else "")
    assert done.stderr.startswith(f"keyferry: corrected {path}\n")
    assert Path(path).read_text() == FIXABLE.replace("/*", "")
    again = _run(path, "--fix", *options)
    assert (again.returncode, again.stdout) == (0, "")


def test_every_file_of_a_directory_is_corrected(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0o755)
    for name in ("a", "b"):
        write(
            tmp_path / "d",
            FIXABLE.replace("name: plugin", f"name: {name}").replace("reg", name),
            f"{name}.yaml",
        )
    assert _run(str(tmp_path / "d"), "--fix").returncode == 0
    assert "a.example  # all" in (tmp_path / "d" / "a.yaml").read_text()
    assert "b.example  # all" in (tmp_path / "d" / "b.yaml").read_text()


@pytest.mark.parametrize("options", [("--severity", "error"), ("--ignore", "KF1")])
def test_only_what_is_shown_is_corrected(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = write(tmp_path, FIXABLE)
    assert _run(path, "--fix", *options).returncode == 0
    assert Path(path).read_text() == FIXABLE


def test_standard_input_is_a_dash() -> None:
    done = _run("-", "-o", "github", stdin=FIXABLE)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "::warning file=/dev/stdin,line=8,col=5,title=KF151%3A a pattern has a wildcard"
    )
    assert _run("-", "-o", "diff", stdin=FIXABLE).stdout.startswith("--- a/-\n+++ b/-\n")
    assert "1 kubeconfig" in _run("/dev/stdin", stdin=KUBECONFIG).stderr
    fixing = _run("-", "--fix", stdin=FIXABLE)
    assert fixing.returncode == 2
    assert "--fix cannot correct standard input" in fixing.stderr


@pytest.mark.parametrize(
    ("text", "kind", "mode"),
    [
        (GOOD, "1 provider", 0o666),
        (FEDERATION, "1 federation config", 0o666),
        (KUBECONFIG, "1 kubeconfig", 0o600),
        (KUBERC, "1 kuberc", 0o600),
    ],
    ids=["providers", "federation", "kubeconfig", "kuberc"],
)
def test_a_pipe_is_no_file_that_others_could_change(text: str, kind: str, mode: int) -> None:
    reading, writing = os.pipe()
    os.fchmod(writing, mode)
    with open(writing, "w") as stream:
        stream.write(text)
    done = _run(f"/dev/fd/{reading}")
    os.close(reading)
    assert (done.returncode, done.stdout) == (0, "")
    assert kind in done.stderr


def test_junit_has_a_case_for_each_finding_and_each_clean_file(tmp_path: Path) -> None:
    wrong, good = write(tmp_path, WRONG), write(tmp_path, GOOD, "good.yaml")
    done = _run(wrong, good, "-o", "junit")
    suite = ET.fromstring(done.stdout)[0]
    assert done.returncode == 1
    assert [(case.get("classname"), case.get("name")) for case in suite] == [
        (wrong, "KF126 providers[0].defaultCacheDuration"),
        (wrong, "KF151 providers[0].matchImages[0]"),
        (good, "no problems"),
    ]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")


def test_json_counts_what_is_suppressed_and_what_can_be_fixed(tmp_path: Path) -> None:
    text = FIXABLE.replace("name: plugin", "name: -p # keyferry: ignore KF171: it is called so")
    done = _run(write(tmp_path, text), "-o", "json")
    (target,) = json.loads(done.stdout)["targets"]
    assert (done.returncode, target["suppressed"], target["fixable"]) == (1, 1, 1)


def test_several_versions_are_named(tmp_path: Path) -> None:
    tokens = (
        "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true, cacheType: Token}\n"
    )
    path = write(tmp_path, GOOD + tokens)
    done = _run(path, "--kubernetes", "1.32,v1.34.1", "-o", "table")
    assert done.returncode == 1
    assert done.stdout.rstrip().endswith("(Kubernetes 1.32)")
    assert done.stderr == "keyferry: 1 error in 1 file (Kubernetes 1.32, 1.34)\n"
    finding = json.loads(_run(path, "--kubernetes", "1.32,1.34", "-o", "json").stdout)["findings"][0]
    assert finding["versions"] == ["1.32"]


def test_a_version_newer_than_known_is_a_warning(tmp_path: Path) -> None:
    done = _run(write(tmp_path, GOOD), "--kubernetes", "1.99")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "keyferry: warning: Kubernetes 1.99 is newer than this version of keyferry knows; the newest rules are used",
        "keyferry: no problems found in 1 provider (Kubernetes 1.99)",
    ]


def test_the_example_of_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "node.md").read_text(encoding="utf-8")
    blocks = dict(reversed(re.findall(r"```(yaml|text|diff)\n(.*?)```", page, re.DOTALL)))
    write(tmp_path, blocks["yaml"], "providers.yaml")
    monkeypatch.chdir(tmp_path)
    assert _run("providers.yaml").stdout == blocks["text"]
    assert _run("providers.yaml", "-o", "diff").stdout == blocks["diff"]


def test_the_page_lists_what_can_be_corrected() -> None:
    page = (ROOT / "docs" / "node.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (KF[^|]*) \|", page, re.MULTILINE)
    assert {code for row in rows for code in row.split(", ")} == set(FIXABLE_CODES)


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    with path.open("wb") as stream:
        stream.truncate((16 << 20) + 1)
    done = _run(str(path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"keyferry: {path} is not linted: it has more than 16 MiB\n"


@pytest.mark.skipif(sys.platform == "win32", reason="makes a pipe with a name")
def test_a_pipe_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path, 0o600)

    def write_on() -> None:
        with suppress(BrokenPipeError), path.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(1 << 16))

    writer = threading.Thread(target=write_on)
    writer.start()
    done = _run(str(path))
    writer.join()
    assert (done.returncode, "more than 16 MiB" in done.stderr) == (3, True)


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


def test_good_files_give_no_output_and_status_0(tmp_path: Path) -> None:
    done = _run(write_kube(tmp_path, KUBECONFIG), write_kube(tmp_path, KUBERC, "kuberc"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "keyferry: no problems found in 1 kubeconfig, 1 kuberc\n"


def test_json_says_what_a_file_is(tmp_path: Path) -> None:
    path = write_kube(tmp_path, WRONG_KUBECONFIG)
    (target,) = json.loads(_run(path, "-o", "json").stdout)["targets"]
    assert target["kubernetesText"].startswith("invalid configuration: invalid interactiveMode for u")
    assert {name: target[name] for name in ("path", "kind", "files", "accepted")} == {
        "path": path,
        "kind": "kubeconfig",
        "files": [path],
        "accepted": False,
    }
    assert "providers" not in target


def test_files_of_all_kinds_at_once(tmp_path: Path) -> None:
    done = _run(
        write_kube(tmp_path, KUBECONFIG),
        write_kube(tmp_path, "kind: CredentialProviderConfig\n", "providers"),
        "nope",
    )
    assert done.returncode == 3
    assert "KF104" in done.stdout
    assert "KF101" in done.stdout


def write_federation(folder: Path, *, cache_type: str = "Token", issuer: str = ISSUER) -> None:
    """Write both files."""
    write(folder, _FEDERATION.format(audience=AUDIENCE, issuer=issuer), "federation.yaml")
    write(folder, PROVIDERS.format(audience=AUDIENCE, cache_type=cache_type), "providers.yaml")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two files that fit each other."""
    write_federation(tmp_path)
    return tmp_path


def test_the_file_of_the_arguments_is_elsewhere(files: Path) -> None:
    """It is not on this machine; for another machine that is no finding."""
    done = _run("providers.yaml", "-o", "table", cwd=files)
    assert "KF678" in done.stdout
    assert _run("providers.yaml", "--elsewhere", cwd=files).returncode == 0


def test_what_both_show_is_in_the_provider_config(files: Path) -> None:
    """At its line, in any order of the files."""
    write_federation(files, cache_type="ServiceAccount")
    done = _run("federation.yaml", "providers.yaml", cwd=files)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "providers.yaml:11:5: warning KF670: providers[0].tokenAttributes.cacheType: "
    )
    assert "\n11 |     cacheType: ServiceAccount\n" in done.stdout


def test_the_page_shows_what_both_show(files: Path) -> None:
    write_federation(files, cache_type="ServiceAccount")
    (block,) = blocks("docs/plugins/federation.md", "console")
    Machine(files).show(block)


def test_what_has_one_right_answer_is_corrected(files: Path) -> None:
    """The provider config is, because the other file says what it must be."""
    write_federation(files, cache_type="ServiceAccount")
    path = files / "providers.yaml"
    path.write_text(path.read_text().replace("defaultCacheDuration: 0s", "defaultCacheDuration: 10m"))
    done = _run("federation.yaml", "providers.yaml", "--fix", cwd=files)
    assert (done.returncode, done.stdout) == (0, "")
    assert "cacheType: Token\n" in path.read_text()
    assert "defaultCacheDuration: 0s\n" in path.read_text()


def test_a_frame_has_no_parameter(files: Path) -> None:
    """Issuers are shown, and what a parameter holds is not."""
    write_federation(files, issuer="http://kubernetes.example.com")
    text = (files / "federation.yaml").read_text() + "  unknown: hunter2-hunter2\n"
    (files / "federation.yaml").write_text(text)
    done = _run("federation.yaml", cwd=files)
    assert "KF651" in done.stdout
    assert "KF603" in done.stdout
    assert "issuer: 'http://kubernetes.example.com'" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["providers.yaml", "federation.yaml"])
def test_rbac_that_kubelets_need(files: Path, name: str) -> None:
    """A ClusterRole and its binding, which kubectl can apply."""
    done = _run(name, "--rbac", cwd=files)
    assert done.returncode == 0
    role, binding = yaml.safe_load_all(done.stdout)
    assert role["rules"] == [
        {"apiGroups": [""], "resources": [AUDIENCE], "verbs": ["request-serviceaccounts-token-audience"]}
    ]
    assert binding["subjects"][0]["name"] == "system:nodes"


def test_no_rbac_without_tokens(files: Path) -> None:
    """A provider without tokenAttributes needs none."""
    text = (files / "providers.yaml").read_text().partition("  tokenAttributes")[0]
    (files / "providers.yaml").write_text(text)
    done = _run("providers.yaml", "--rbac", cwd=files)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no provider of the files receives service account tokens" in done.stderr
