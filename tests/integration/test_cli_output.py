"""Where output cannot be written, and where a part is not installed: a message and an exit code, no traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import Node, plain_pod, run_keyferry
from support.records import open_quickly

EVERY_COMMAND = [
    pytest.param(["--help"], id="help"),
    pytest.param(["--version"], id="version"),
    pytest.param(["get", "--help"], id="help of a command"),
    pytest.param(["kube", "raw", "--help"], id="help of a subcommand"),
    pytest.param(["get", "reg.io/app", "-o", "json"], id="get"),
    pytest.param(["get", "reg.io/app", "-o", "env"], id="get for a shell"),
    pytest.param(["explain", "reg.io/app"], id="explain"),
    pytest.param(["lint", "--list"], id="lint --list"),
    pytest.param(["lint", "--list", "-o", "json"], id="lint --list as JSON"),
    pytest.param(["records", "list"], id="records"),
    pytest.param(["kube", "contexts"], id="kube contexts"),
    pytest.param(["kube", "token"], id="kube token"),
    pytest.param(["plugin", "test", "--list"], id="plugin test --list"),
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
@pytest.mark.parametrize("words", EVERY_COMMAND)
def test_a_full_disk_is_one_line_and_exit_code_3(folder: Path, words: list[str]) -> None:
    done = in_a_shell(words, folder, ">/dev/full")
    assert (done.returncode, done.stderr) == (
        3,
        "keyferry: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("words", EVERY_COMMAND)
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


def test_the_demo_goes_on_without_standard_input(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", sys.executable, "-m", "keyferry", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


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


def test_the_doors_of_the_package_open_by_themselves() -> None:
    program = (
        "import keyferry\nprint(keyferry.errors.KeyferryError, keyferry.sdk.serve, keyferry.api.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
    done = run_keyferry("pull", "127.0.0.1:1/app:v1", *words, cwd=tmp_path, KEYFERRY_CONFIG="")
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "x").exists()
