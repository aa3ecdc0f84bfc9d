"""``keyferry bridge kubelet``: a shim in the kubelet's folder, and never a moment without a plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from keyferry.bridge.kubelet_install import install_in_front, uninstall
from keyferry.invoke.shim import is_shim
from support import parts
from support.agent_server import answered, serving
from support.commands import run_keyferry
from support.plugins import Node, compile_program, write_config, write_executable
from support.shims import build, request

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet's shim is for Linux")
PLUGIN = '#include <stdio.h>\nint main(void) { while (getchar() != EOF) {} puts("plugin"); return 0; }\n'
CYCLES = 40


def bridge(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    places = ("--bin-dir", str(node.bin_dir), "--config", str(node.config))
    # An argument may come after options.
    return run_keyferry("bridge", "kubelet", words[0], *places, *words[1:])


@pytest.fixture
def filled(node: Node) -> Node:
    """A node with one plugin and its config."""
    node.recording()
    node.load()
    return node


def test_install_status_and_uninstall(filled: Node) -> None:
    path, socket = filled.bin_dir / "plugin", filled.root / "agent" / "agent.sock"
    before = path.read_bytes()
    done = bridge(filled, "install", "--in-front-of", "plugin", "--socket", str(socket))
    assert (done.returncode, done.stdout) == (0, f"{path}: a shim, in front of {path}.real\n")
    assert "the kubelet's own cache may still answer until 20" in done.stderr
    assert "UTC (defaultCacheDuration), or for as long as" in done.stderr
    assert "until it can be reached, the shim runs the plugin behind it" in done.stderr
    with serving(socket, lambda _: answered()) as server:
        run = subprocess.run([path], input=request(), capture_output=True, check=True, env={})
        assert b"agent" in run.stdout
        shown = bridge(filled, "status")
    assert len(server.requests) == 1
    row = ["plugin", "in", "front", "Python", f"{path}.real", str(socket)]
    assert shown.stdout.splitlines()[1].split() == row
    (shim,) = json.loads(bridge(filled, "status", "-o", "json").stdout)["shims"]
    assert "cannot be reached" in shim.pop("agentProblem")
    assert shim == {
        "provider": "plugin",
        "position": "in front",
        "native": False,
        "program": str(path),
        "plugin": f"{path}.real",
        "socket": str(socket),
    }
    done = bridge(filled, "uninstall", "plugin")
    assert (done.returncode, done.stdout) == (0, f"{path}: the plugin again\n")
    assert path.read_bytes() == before
    assert bridge(filled, "status").returncode == 1


def test_beside_says_what_is_left_to_do(filled: Node) -> None:
    done = bridge(filled, "install", "--beside")
    assert (done.returncode, is_shim(str(filled.bin_dir / "keyferry"))) == (0, True)
    assert "add a provider 'keyferry' to the kubelet's config" in done.stderr
    assert "no plugin is behind this shim" in done.stderr
    assert "until it can be reached, the shim fails" in done.stderr
    done = bridge(filled, "uninstall", "keyferry")
    assert "does not start without this program" in done.stderr


def test_everything_is_uninstalled_at_once_and_again(filled: Node) -> None:
    before = sorted(filled.bin_dir.iterdir())
    socket = filled.root / "agent" / "agent.sock"
    bridge(filled, "install", "--in-front-of", "plugin", "--socket", str(socket))
    bridge(filled, "install", "--beside", "--socket", str(socket))
    with serving(socket, lambda _: answered()):
        (socket.parent / "agent.sock.lock").touch()
        done = bridge(filled, "uninstall", "--all", "--socket", str(socket))
        assert (done.returncode, "an agent listens here; stop it first" in done.stderr) == (3, True)
    assert sorted(filled.bin_dir.iterdir()) == before
    (socket.parent / "mine\x1b[31m").touch()
    done = bridge(filled, "uninstall", "--all", "--socket", str(socket))
    assert done.returncode == 0
    assert "\x1b" not in done.stderr
    (socket.parent / "mine\x1b[31m").unlink()
    done = bridge(filled, "uninstall", "--all", "--socket", str(socket))
    assert (done.returncode, done.stdout) == (0, "")
    assert f"no shim in {filled.bin_dir}" in done.stderr
    assert not socket.parent.exists()


def test_beside_adds_its_entry_and_takes_it_back(filled: Node) -> None:
    """Shown first, and the whole config is what it was in the end; the kubelet has to be restarted both times."""
    before = filled.config.read_bytes()
    words = ("install", "--beside", "--plugin", str(filled.bin_dir / "plugin"))
    patterns = ("--match-images", "ghcr.io", "--match-images", "*.example")
    dry = bridge(filled, *words, *patterns, "--dry-run")
    assert (dry.returncode, filled.config.read_bytes(), (filled.bin_dir / "keyferry").exists()) == (
        0,
        before,
        False,
    )
    assert '+- name: "keyferry"\n+  matchImages:\n+  - "ghcr.io"\n+  - "*.example"\n' in dry.stdout
    done = bridge(filled, *words, *patterns)
    assert (done.returncode, done.stdout.startswith(dry.stdout)) == (0, True)
    assert f"restart the kubelet: it reads {filled.config} when it starts" in done.stderr
    linted = run_keyferry("lint", str(filled.config), "--bin-dir", str(filled.bin_dir))
    assert linted.returncode == 0, linted.stdout
    # What the kubelet does with it: the plugin behind the shim answers, since there is no agent.
    run = subprocess.run(
        [filled.bin_dir / "keyferry"], input=request(), capture_output=True, check=True, env={}
    )
    assert b'"user"' in run.stdout
    again = bridge(filled, *words, *patterns)
    assert "has a provider 'keyferry' already" in again.stderr
    other = bridge(filled, *words, "--match-images", "quay.io")
    assert ('-  - "ghcr.io"\n' in other.stdout, '+  - "quay.io"\n' in other.stdout) == (True, True)
    assert "restart the kubelet" in other.stderr
    assert "ghcr.io" not in filled.config.read_text()
    done = bridge(filled, "uninstall", "keyferry")
    assert (done.returncode, '-- name: "keyferry"' in done.stdout) == (0, True)
    assert "restart the kubelet" in done.stderr
    assert filled.config.read_bytes() == before
    assert sorted(each.name for each in filled.bin_dir.iterdir()) == ["plugin"]


def test_beside_writes_nothing_if_the_config_would_be_refused(filled: Node) -> None:
    before = filled.config.read_bytes()
    done = bridge(filled, "install", "--beside", "--match-images", "a b")
    assert (done.returncode, "nothing is changed: KF" in done.stderr) == (3, True)
    assert (filled.config.read_bytes(), (filled.bin_dir / "keyferry").exists()) == (before, False)


def test_a_config_that_is_gone_does_not_keep_the_shim(filled: Node) -> None:
    """But in a pod, which may only not see it, and the other shims go in any case."""
    bridge(filled, "install", "--beside", "--match-images", "ghcr.io")
    bridge(filled, "install", "--in-front-of", "plugin")
    places = ("--bin-dir", str(filled.bin_dir))
    filled.config.unlink()
    done = run_keyferry(
        "bridge", "kubelet", "uninstall", "--all", *places, KUBERNETES_SERVICE_HOST="10.0.0.1"
    )
    assert (done.returncode, "this pod does not see the config" in done.stderr) == (3, True)
    assert sorted(each.name for each in filled.bin_dir.iterdir()) == [
        "keyferry", "keyferry.agent", "keyferry.entry", "plugin"
    ]  # fmt: skip
    done = run_keyferry("bridge", "kubelet", "uninstall", "--all", *places)
    assert done.returncode == 0
    assert f"{filled.config} is gone, and with it the entry of 'keyferry'" in done.stderr
    assert [each.name for each in filled.bin_dir.iterdir()] == ["plugin"]


def test_an_entry_written_by_hand_stays(filled: Node) -> None:
    bridge(filled, "install", "--beside")
    text = filled.config.read_text()
    done = bridge(filled, "uninstall", "keyferry")
    assert filled.config.read_text() == text
    assert "does not start without this program" in done.stderr


def test_an_overwritten_shim_is_left(filled: Node) -> None:
    """The other program is no shim, whatever it is written in."""
    bridge(filled, "install", "--in-front-of", "plugin", "--shim", "python")
    assert bridge(filled, "status").stdout.splitlines()[1].split()[:4] == ["plugin", "in", "front", "Python"]
    write_executable(filled.bin_dir / "plugin", "#!/bin/sh\necho new\n")
    assert bridge(filled, "status").stdout.splitlines()[1].split()[:3] == ["plugin", "overwritten", "-"]
    assert "left as it is" in bridge(filled, "uninstall", "plugin").stdout
    assert "new" in (filled.bin_dir / "plugin").read_text()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["install"], "give --in-front-of NAME or --beside"),
        (["status", "--beside"], "are for install, not for status"),
        (["install", "--in-front-of", "a", "--plugin", "/x"], "--plugin is for --beside"),
        (["install", "--in-front-of", "a", "--match-images", "x"], "--match-images is for --beside"),
        (["install", "--beside", "--dry-run"], "--dry-run is for --match-images"),
        (["uninstall"], "uninstall takes the NAME of a provider, or --all"),
        (["uninstall", "plugin", "--all"], "uninstall takes the NAME of a provider, or --all"),
        (["status", "plugin"], "only uninstall takes a NAME"),
        (["status", "--all"], "only uninstall takes --all"),
        (["install", "--beside", "--socket", "x"], "not an absolute path"),
        (["install", "--beside", "--native", "x", "--shim", "python"], "leave one of them out"),
        (["install", "--beside", "--agent-user", "1"], "--agent-user is for install, with --socket PATH"),
        (["uninstall", "x", "--socket", "/x", "--agent-user", "1"], "--agent-user is for install"),
        (["install", "--beside", "--socket", "/x", "--agent-user", "65534"], "this is every user that"),
        (["install", "--beside", "--socket", "/x", "--agent-user=-1"], "not the number of a user"),
    ],
)
def test_wrong_usage_is_explained(filled: Node, words: list[str], problem: str) -> None:
    done = bridge(filled, *words)
    assert done.returncode == 2
    assert problem in done.stderr


def test_a_file_that_is_no_static_shim_is_not_installed(filled: Node) -> None:
    done = bridge(filled, "install", "--in-front-of", "plugin", "--native", "/bin/sh")
    assert (done.returncode, "is not the static shim" in done.stderr) == (3, True)
    assert not is_shim(str(filled.bin_dir / "plugin"))


def test_a_static_shim_is_installed_where_keyferry_brings_one(filled: Node, tmp_path: Path) -> None:
    """As keyferry's image does, for the machine that it runs on."""
    done = bridge(filled, "install", "--in-front-of", "plugin", "--shim", "native")
    assert done.returncode == 3
    assert "no static shim for this machine is installed; the package keyferry-shim has it" in done.stderr
    program = build("native", tmp_path).program
    place = tmp_path / "prefix" / "lib" / "keyferry"
    place.mkdir(parents=True)
    (place / f"keyferry-shim-{os.uname().machine}").write_bytes(program)
    code = f"import sys; sys.prefix = {str(tmp_path / 'prefix')!r}; from keyferry.cli.main import run; sys.exit(run())"
    words = ["bridge", "kubelet", "install", "--bin-dir", str(filled.bin_dir), "--in-front-of", "plugin"]
    for more, is_native in (([], True), (["--shim", "python"], False), (["--shim", "native"], True)):
        subprocess.run([sys.executable, "-c", code, *words, *more], check=True, capture_output=True)
        assert ((filled.bin_dir / "plugin").read_bytes() == program) is is_native


@parts.root
def test_an_agent_that_is_not_root_gets_its_folder_and_is_trusted(filled: Node) -> None:
    socket = filled.root / "run" / "agent" / "agent.sock"
    words = ["install", "--in-front-of", "plugin", "--socket", str(socket), "--agent-user", "1234"]
    assert bridge(filled, *words).returncode == 0
    assert (socket.parent.stat().st_uid, socket.parent.stat().st_mode & 0o777) == (1234, 0o750)
    assert (filled.bin_dir / "plugin.agent").lstat().st_uid == 1234
    with serving(socket, lambda _: answered()):
        os.chown(socket, 1234, -1)
        (shim,) = json.loads(bridge(filled, "status", "-o", "json").stdout)["shims"]
        assert shim["agentProblem"] == ""
        run = subprocess.run(
            [filled.bin_dir / "plugin"], input=request(), capture_output=True, check=True, env={}
        )
    assert b"agent" in run.stdout
    bridge(filled, "uninstall", "plugin")
    assert sorted(each.name for each in filled.bin_dir.iterdir()) == ["plugin"]


def test_there_is_never_a_moment_without_a_plugin(tmp_path: Path) -> None:
    """A kubelet that executes the plugin all the time, while shims come and go, always gets its answer."""
    program = build("native", tmp_path).program
    folder = tmp_path / "bin"
    folder.mkdir()
    path = compile_program(folder / "plugin", PLUGIN, static=True)
    ends: list[tuple[int, bytes, bytes]] = []
    stopping = threading.Event()

    def execute() -> None:
        while not stopping.is_set():
            done = subprocess.run(
                [path], input=request(), env={"KEYFERRY_AGENT": "off"}, capture_output=True, check=False
            )
            ends.append((done.returncode, done.stdout, done.stderr))

    kubelet = threading.Thread(target=execute)
    kubelet.start()
    try:
        for _ in range(CYCLES):
            install_in_front(str(folder), "plugin", program)
            uninstall(str(folder), "plugin")
    finally:
        stopping.set()
        kubelet.join()
    assert len(ends) > 3
    assert set(ends) == {(0, b"plugin\n", b"")}


def test_the_bin_dir_may_be_the_nodes_own(filled: Node) -> None:
    write_config(filled.config, [])
    done = run_keyferry("bridge", "kubelet", "status", KEYFERRY_BIN_DIR=str(filled.bin_dir))
    assert (done.returncode, "no shim in" in done.stderr) == (1, True)
    assert run_keyferry("bridge", "kubelet", "status").returncode == 2
