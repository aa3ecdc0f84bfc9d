"""What every command does alike: output that cannot be written, files that are opened, and ``-v``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.agents import running_agent
from support.audit import audited
from support.commands import Node, plain_pod, run_in_process
from support.images import build, push
from support.kubelets import Processes
from support.plugins import Node as PluginNode
from support.records import open_quickly
from support.registry import basic, running

# Each prints in a way of its own: by the parser, as text, as a document, line by line for a shell, or what it records.
PRINTING = [
    pytest.param(["--version"], id="version"),
    pytest.param(["kube", "raw", "--help"], id="help of a subcommand"),
    pytest.param(["get", "reg.io/app", "-o", "json"], id="get"),
    pytest.param(["get", "reg.io/app", "-o", "env"], id="get for a shell"),
    pytest.param(["explain", "reg.io/app"], id="explain"),
    pytest.param(["lint", "--list"], id="lint --list"),
    pytest.param(["records", "list"], id="records"),
    pytest.param(["kube", "token"], id="kube token"),
    pytest.param(["plugin", "trace"], id="plugin trace"),
    pytest.param(["completion", "bash"], id="completion"),
]
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: tok-en}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All that the commands ask about."""
    Node(tmp_path).add("one", ["reg.io"])
    plain_pod(tmp_path)
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    open_quickly(tmp_path).record_pulled("reg.io/app", "sha256:" + "a" * 64, None)
    return tmp_path


def command(words: list[str], folder: Path) -> list[str]:
    more = {
        "get": ["--config", "providers.yaml", "--bin-dir", "bin", "-f", "plain-pod.json"],
        "records": ["--root", str(folder)],
        "kube": ["--kubeconfig", "kubeconfig"],
    }
    more["explain"] = more["get"]
    options = [] if "--help" in words else more.get(words[0], [])
    if words[1:] == ["trace"]:
        options = [str(folder / "bin" / "one"), "reg.io/app"]
    return [sys.executable, "-m", "keyferry", *words, *options]


def in_a_shell(words: list[str], folder: Path, redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *command(words, folder)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize("words", PRINTING)
def test_a_full_disk_is_one_line_and_exit_code_3(folder: Path, words: list[str]) -> None:
    done = in_a_shell(words, folder, ">/dev/full")
    assert (done.returncode, done.stderr) == (
        3,
        "keyferry: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("words", [["--help"], ["get", "reg.io/app", "-o", "env"], ["records", "list"]])
def test_a_closed_output_is_one_line_and_exit_code_3(folder: Path, words: list[str]) -> None:
    done = in_a_shell(words, folder, ">&-")
    assert (done.returncode, done.stderr) == (
        3,
        "keyferry: standard output cannot be written: it is closed\n",
    )


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "reg.io/app", "-f", "-"],
        ["get", "reg.io/app", "--secret", "-"],
        ["can-pull", "reg.io/app", "--secret", "-"],
        ["pull", "reg.io/app", "--to", "layout", "--secret", "-"],
        ["lint", "-"],
        ["diff", "providers.yaml", "providers.yaml", "--images", "-"],
        ["records", "recover", "--root", ".", "--images", "-"],
    ],
    ids=lambda words: " ".join(words[:1] + words[-2:-1]),
)
def test_a_closed_input_that_is_asked_for_is_one_line_and_exit_code_3(folder: Path, words: list[str]) -> None:
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", sys.executable, "-m", "keyferry", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(r"keyferry: standard input:? cannot be read: it is closed\n", done.stderr)


def test_a_command_with_nothing_to_print_needs_no_output(folder: Path) -> None:
    done = in_a_shell(["lint", "providers.yaml"], folder, ">&-")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2>&- <&-"])
def test_without_standard_error_the_answer_is_the_same(folder: Path, redirection: str) -> None:
    """Nothing that is said there turns up in the output, and the exit code is the command's."""
    full = os.path.exists("/dev/full")
    words = ["get", "other.io/app", "-o", "json"]
    done = in_a_shell(words, folder, redirection if full else "2>&-")
    assert done.returncode == 1
    assert done.stdout == in_a_shell(words, folder, "").stdout


def test_a_plugin_gets_no_descriptor_of_ours_where_one_was_closed(tmp_path: Path) -> None:
    """The next file that is opened would be standard output: it is not."""
    node = Node(tmp_path).add("one", ["reg.io"], before='ls -l /proc/$$/fd > "$0.fds"')
    plain_pod(tmp_path)
    done = in_a_shell(["get", "reg.io/app"], tmp_path, ">&- 2>&- <&-")
    assert done.returncode == 3
    if sys.platform == "linux":
        assert "providers.yaml" not in Path(f"{node.bin_dir / 'one'}.fds").read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(["--platform", "banana", "--to", "x"], 2, "platform 'banana'", id="no platform"),
        pytest.param(["--platform", "linux/amd64", "--cri", "/none"], 2, "requires --to", id="not for it"),
        pytest.param(["--to", "a-file"], 3, "a-file", id="a file for a folder"),
        pytest.param(["--to", "a-file/below"], 3, "a-file/below", id="below a file"),
    ],
)
def test_exit_codes_of_pulls_that_cannot_begin(
    tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    (tmp_path / "a-file").write_text("")
    done = run_in_process("pull", "127.0.0.1:1/app:v1", *words, cwd=tmp_path, KEYFERRY_CONFIG="")
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "x").exists()


linux = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")

IMAGE = "127.0.0.1:1/team/app:v1"
COMMANDS = {"get": (), "can-pull": (), "explain": (), "pull": ("--to", "layout")}


def opened_by(folder: Path, *words: str, **variables: str) -> Counter[str]:
    """The files and folders that a command opens, and how often."""
    with audited() as events:
        run_in_process(*words, cwd=folder, **variables)
    return Counter(path for event, path in events if event in ("open", "os.listdir", "os.scandir"))


@linux
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("by", ["options", "variables"])
def test_processes_are_not_looked_at_where_config_and_plugins_are_given(
    tmp_path: Path, processes: Processes, command: str, by: str
) -> None:
    """There are many of them, and each is a file to read."""
    node = Node(tmp_path).add("plugin", ["127.0.0.1:1"])
    words = [command, IMAGE, *COMMANDS[command]]
    if by == "options":
        opened = opened_by(tmp_path, *words, *node.options())
    else:
        given = {"KEYFERRY_CONFIG": str(node.config), "KEYFERRY_BIN_DIR": str(node.bin_dir)}
        opened = opened_by(tmp_path, *words, "--docker-config", "/missing", **given)
    assert str(node.config) in opened
    assert [path for path in opened if path.startswith(("/proc", str(processes)))] == []


@linux
@pytest.mark.parametrize("command", COMMANDS)
def test_a_kubelet_and_its_config_are_looked_at_once(
    processes: Processes, tmp_path: Path, command: str
) -> None:
    """What one part of a command has found out, the others are told."""
    node = Node(tmp_path).add("plugin", ["127.0.0.1:1"])
    flags = [
        f"--image-credential-provider-config={node.config}",
        f"--image-credential-provider-bin-dir={node.bin_dir}",
    ]
    with processes.kubelet(*flags, env={"PATH": "/usr/bin:/bin"}) as pid:
        opened = opened_by(tmp_path, command, IMAGE, *COMMANDS[command])
    process = processes.folder / str(pid)
    for path in (processes.folder, process / "cmdline", process / "environ", node.config):
        assert opened[str(path)] == 1, path


@linux
@pytest.mark.parametrize(
    "kind", ["CredentialProviderConfig", "FederationConfig", "Config", "Preference", "AgentConfig"]
)
def test_lint_reads_its_file_once(tmp_path: Path, kind: str) -> None:
    """Of whatever kind it is, and for as many versions as are asked for."""
    path = tmp_path / "config.yaml"
    path.write_text(f"kind: {kind}\n")
    opened = opened_by(tmp_path, "lint", str(path), "--kubernetes", "1.33,1.36", "-o", "diff")
    assert opened[str(path)] == 1


SECRET = "pass-word"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one provider."""
    return Node(tmp_path).add("own", ["reg.io"])


def test_the_lines_tell_what_is_done_and_how_long_it_takes(node: Node) -> None:
    words = ("get", "reg.io/team/app", "--reveal", *node.options(), *plain_pod(node.folder))
    plain, told = run_in_process(*words), run_in_process(*words, "-v")
    assert (plain.stdout, plain.returncode) == (told.stdout, told.returncode)
    assert SECRET in told.stdout
    lines = [line for line in told.stderr.splitlines() if line not in plain.stderr.splitlines()]
    assert all(line.startswith("keyferry: ") and " ms: images: " in line for line in lines)
    said = "\n".join(lines)
    assert f"config {node.config} (given), bin dir {node.bin_dir} (given)" in said
    assert f"the config {node.config} has the providers own" in said
    assert "reg.io/team/app: 1 provider matches" in said
    assert "reg.io/team/app: plugin own ran for " in said
    assert SECRET not in told.stderr


def test_a_plugin_that_fails_is_told_without_its_words(tmp_path: Path) -> None:
    node = Node(tmp_path).add("own", ["reg.io"], before=f"echo {SECRET} | tee /dev/stderr; exit 3")
    done = run_in_process("explain", "reg.io/app", "--verbose", *node.options())
    lines = [line for line in done.stderr.splitlines() if " ms: " in line]
    assert any("plugin own failed: exit" in line for line in lines)
    assert not any(SECRET in line for line in lines)


@pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")
def test_the_agent_is_told_or_why_it_is_not_used(node: Node) -> None:
    words = ("get", "reg.io/team/app", *node.options(), "-v", "--agent")
    with running_agent(PluginNode(node.folder), *node.options()) as agent:
        by_agent = run_in_process(*words, agent.socket)
        with_pod = run_in_process(*words, agent.socket, *plain_pod(node.folder))
    alone = run_in_process(*words, agent.socket)
    assert " ms: agent: reg.io/team/app: provider own: ran in the agent" in by_agent.stderr
    assert " ms: agent: reg.io/team/app: provider own: cached in the agent" in with_pod.stderr
    assert " ms: agent: not used: the agent at" in alone.stderr
    assert SECRET not in by_agent.stderr + with_pod.stderr + alone.stderr


def test_requests_to_a_registry_are_told_without_tokens(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with running(tmp_path / "registry") as registry:
        registry.set_users({"user": SECRET})
        push(registry, "team/app", "v1", build(b"app"), basic("user", SECRET))
        login = json.dumps({registry.host: {"username": "user", "password": SECRET}})
        node.add("own", [registry.host], login)
        image = f"{registry.host}/team/app:v1"
        done = run_in_process("can-pull", image, "-v", *node.options(), *plain_pod(tmp_path))
    assert done.returncode == 0
    assert " ms: registry: HEAD 127.0.0.1: status 401" in done.stderr
    assert " ms: registry: HEAD 127.0.0.1: status 200" in done.stderr
    assert SECRET not in done.stderr
    assert basic("user", SECRET).split()[1] not in done.stderr


def test_a_line_cannot_harm_a_terminal(tmp_path: Path) -> None:
    """Nor begin another one: names of files come from elsewhere."""
    folder = tmp_path / "\x1b[2J\nkeyferry: forged"
    folder.mkdir()
    done = run_in_process("get", "reg.io/app", "-v", *Node(folder).add("own", ["reg.io"]).options())
    assert "\x1b" not in done.stderr
    assert "\nkeyferry: forged" not in done.stderr
