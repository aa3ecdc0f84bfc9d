"""``keyferry bridge kubelet``: a shim in the kubelet's folder, and never a moment without a plugin."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from keyferry.bridge.kubelet_install import install_in_front, uninstall
from support import parts
from support.agent_server import answered, serving
from support.commands import run_in_process
from support.kubelets import listening
from support.plugins import Node, compile_program, write_config, write_executable
from support.shims import build, request

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet's shim is for Linux")
PLUGIN = '#include <stdio.h>\nint main(void) { while (getchar() != EOF) {} puts("plugin"); return 0; }\n'
CYCLES = 20


def bridge(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    places = ("--bin-dir", str(node.bin_dir), "--config", str(node.config))
    # An argument may come after options.
    return run_in_process("bridge", "kubelet", words[0], *places, *words[1:])


def in_front(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    return bridge(node, "install", "--in-front-of", "plugin", *words)


def names(node: Node) -> list[str]:
    return sorted(each.name for each in node.bin_dir.iterdir())


@pytest.fixture
def filled(node: Node) -> Node:
    """A node with one plugin and its config."""
    node.recording()
    node.load()
    return node


def test_install_status_and_uninstall(filled: Node) -> None:
    path, socket = filled.bin_dir / "plugin", filled.root / "agent" / "agent.sock"
    before = path.read_bytes(), path.stat().st_ino
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
    assert (path.read_bytes(), path.stat().st_ino) == before
    assert names(filled) == ["plugin"]
    assert bridge(filled, "status").returncode == 1


def test_beside_says_what_is_left_to_do(filled: Node) -> None:
    done = bridge(filled, "install", "--beside")
    assert (done.returncode, names(filled)) == (0, ["keyferry", "keyferry.agent", "plugin"])
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
    assert bridge(filled, "uninstall", "--all", "--socket", str(socket)).returncode == 0
    assert sorted(filled.bin_dir.iterdir()) == before
    done = bridge(filled, "uninstall", "--all", "--socket", str(socket))
    assert (done.returncode, done.stdout) == (0, "")
    assert f"no shim in {filled.bin_dir}" in done.stderr


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
    linted = run_in_process("lint", str(filled.config), "--bin-dir", str(filled.bin_dir))
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
    assert names(filled) == ["plugin"]


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
    done = run_in_process(
        "bridge", "kubelet", "uninstall", "--all", *places, KUBERNETES_SERVICE_HOST="10.0.0.1"
    )
    assert (done.returncode, "this pod does not see the config" in done.stderr) == (3, True)
    assert names(filled) == ["keyferry", "keyferry.agent", "keyferry.entry", "plugin"]
    done = run_in_process("bridge", "kubelet", "uninstall", "--all", *places)
    assert done.returncode == 0
    assert f"{filled.config} is gone, and with it the entry of 'keyferry'" in done.stderr
    assert names(filled) == ["plugin"]


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
    assert names(filled) == ["plugin"]


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
    assert names(filled) == ["plugin"]


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
    in_front(filled)
    assert (filled.bin_dir / "plugin.agent").lstat().st_uid == 0
    bridge(filled, "uninstall", "plugin")
    assert names(filled) == ["plugin"]


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
        cycles = 0
        while cycles < CYCLES or len(ends) < 4:
            install_in_front(str(folder), "plugin", program)
            uninstall(str(folder), "plugin")
            cycles += 1
    finally:
        stopping.set()
        kubelet.join()
    assert set(ends) == {(0, b"plugin\n", b"")}


def test_the_bin_dir_may_be_the_nodes_own(filled: Node) -> None:
    write_config(filled.config, [])
    done = run_in_process("bridge", "kubelet", "status", KEYFERRY_BIN_DIR=str(filled.bin_dir))
    assert (done.returncode, "no shim in" in done.stderr) == (1, True)
    assert run_in_process("bridge", "kubelet", "status").returncode == 2


def test_installing_again_changes_the_shim_alone(filled: Node) -> None:
    in_front(filled)
    before = (filled.bin_dir / "plugin.real").read_bytes()
    in_front(filled, "--socket", "/run/x/agent.sock")
    assert (filled.bin_dir / "plugin.agent").readlink() == Path("/run/x/agent.sock")
    assert (filled.bin_dir / "plugin.real").read_bytes() == before


def test_a_plugin_that_is_a_link_stays_one(filled: Node) -> None:
    plugin = filled.bin_dir / "plugin"
    plugin.rename(plugin.with_name("target"))
    plugin.symlink_to("target")
    in_front(filled)
    assert plugin.with_name("plugin.real").is_symlink()
    bridge(filled, "uninstall", "plugin")
    assert plugin.readlink() == Path("target")


def test_a_plugin_of_the_same_folder_is_pointed_to_by_its_name(filled: Node, tmp_path: Path) -> None:
    """The folder may have another path where the shim runs; a plugin elsewhere has the path that it is given."""
    behind = filled.bin_dir / "keyferry.beside"
    far = write_executable(tmp_path / "far", "#!/bin/sh\n")
    for plugin, target in ((filled.bin_dir / "plugin", "plugin"), (far, str(far))):
        assert bridge(filled, "install", "--beside", "--plugin", str(plugin)).returncode == 0
        assert behind.readlink() == Path(target)
    # One that is installed anew keeps it.
    bridge(filled, "install", "--beside")
    assert behind.readlink() == far


def test_after_an_upgrade_the_new_plugin_is_behind_the_shim(filled: Node) -> None:
    in_front(filled)
    write_executable(filled.bin_dir / "plugin", "#!/bin/sh\necho new\n")
    in_front(filled)
    assert "echo new" not in (filled.bin_dir / "plugin").read_text()
    assert "echo new" in (filled.bin_dir / "plugin.real").read_text()
    assert names(filled) == ["plugin", "plugin.agent", "plugin.real"]


def test_a_removed_shim_gives_its_place_to_the_plugin(filled: Node) -> None:
    plugin = filled.bin_dir / "plugin"
    before = plugin.read_bytes()
    in_front(filled)
    plugin.unlink()
    bridge(filled, "uninstall", "plugin")
    assert plugin.read_bytes() == before


def test_somebody_elses_shim_is_not_touched(filled: Node) -> None:
    (filled.bin_dir / "plugin.real").write_text("theirs")
    before = (filled.bin_dir / "plugin").read_bytes()
    for done, problem in (
        (in_front(filled), "another program seems to stand in front of 'plugin'"),
        (bridge(filled, "uninstall", "plugin"), "is not a shim of keyferry"),
    ):
        assert (done.returncode, problem in done.stderr) == (3, True)
    assert (filled.bin_dir / "plugin").read_bytes() == before
    assert names(filled) == ["plugin", "plugin.real"]


def test_an_installation_that_was_cut_short_is_taken_up(filled: Node) -> None:
    """The plugin has its second name and nothing more: nobody stands in front of it."""
    plugin = filled.bin_dir / "plugin"
    before = plugin.read_bytes()
    os.link(plugin, f"{plugin}.real")
    assert in_front(filled).returncode == 0
    assert names(filled) == ["plugin", "plugin.agent", "plugin.real"]
    assert Path(f"{plugin}.real").read_bytes() == before


@pytest.mark.parametrize("words", [("install", "--in-front-of", "plugin"), ("uninstall", "plugin")])
def test_a_shim_that_cannot_be_read_is_left_alone_with_the_plugin_behind_it(
    filled: Node, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for a plugin, it would be put in the place of the one behind it, or that one removed as outdated."""
    plugin = (filled.bin_dir / "plugin").read_bytes()
    in_front(filled)
    before = names(filled)

    def refuse(*_: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("keyferry.bridge.kubelet_install.read_shim_mark", refuse)
    done = bridge(filled, *words)
    assert (done.returncode, "plugin' cannot be read: input/output error" in done.stderr) == (3, True)
    assert names(filled) == before
    assert (filled.bin_dir / "plugin.real").read_bytes() == plugin


@pytest.mark.parametrize("is_shimmed", [False, True])
def test_beside_takes_no_plugins_place(filled: Node, *, is_shimmed: bool) -> None:
    if is_shimmed:
        in_front(filled)
    done = bridge(filled, "install", "--beside", "plugin")
    assert (done.returncode, "use --in-front-of plugin" in done.stderr) == (3, True)
    done = bridge(filled, "install", "--beside", "--plugin", str(filled.bin_dir / "plugin"))
    assert (done.returncode, "is a shim; give the plugin itself" in done.stderr) == (
        3 * is_shimmed,
        is_shimmed,
    )


def test_a_shim_whose_plugin_is_gone_is_broken(filled: Node) -> None:
    bridge(filled, "install", "--beside", "--plugin", str(filled.bin_dir / "plugin"))
    (filled.bin_dir / "plugin").unlink()
    assert bridge(filled, "status").stdout.splitlines()[1].split()[:2] == ["keyferry", "broken"]
    bridge(filled, "uninstall", "keyferry")
    assert names(filled) == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *((name, "is not the name of a provider") for name in ("", ".", "..", "a/b", "x.real", "x.agent")),
        ("x.beside", "is not the name of a provider"),
        ("none", "no such file"),
        ("text", "not an executable"),
        ("folder", "not an executable"),
    ],
)
def test_what_is_no_plugin_gets_no_shim(filled: Node, name: str, problem: str) -> None:
    (filled.bin_dir / "text").write_text("x")
    (filled.bin_dir / "folder").mkdir()
    done = bridge(filled, "install", "--in-front-of", name)
    assert (done.returncode, problem in done.stderr) == (3, True)
    assert names(filled) == ["folder", "plugin", "text"]


USER = 1234


def give(node: Node, place: Path) -> subprocess.CompletedProcess[str]:
    """Install a shim for an agent of a user, whose folder is to be made or given."""
    return in_front(node, "--socket", str(place), "--agent-user", str(USER))


@parts.root
def test_a_folder_is_made_and_given(filled: Node, tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "agent.sock"
    give(filled, place)
    found = place.parent.stat()
    assert (found.st_uid, found.st_mode & 0o777) == (USER, 0o750)
    assert place.parent.parent.stat().st_uid == 0


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A socket that nobody listens to any more, and its lock."""
    path = tmp_path / "keyferry" / "agent.sock"
    with listening(path):
        Path(f"{path}.lock").touch(0o600)
    return path


@parts.root
def test_what_an_agent_of_root_left_is_given_too(filled: Node, place: Path) -> None:
    """Its successor, which is not root, replaces the socket, and locks the file beside it."""
    place.parent.chmod(0o777)
    give(filled, place)
    assert {each.stat().st_uid for each in (place.parent, *place.parent.iterdir())} == {USER}
    assert place.parent.stat().st_mode & 0o777 == 0o755


@parts.root
@pytest.mark.parametrize("kind", ["other", "folder", "hard link"])
def test_a_folder_with_anything_else_is_not_given(filled: Node, tmp_path: Path, kind: str) -> None:
    """Not /run for /run/agent.sock; nor a second name of a file that is elsewhere."""
    folder = tmp_path / "run"
    folder.mkdir()
    if kind == "other":
        (folder / "other").touch()
    elif kind == "folder":
        (folder / "agent.sock.d").mkdir()
    else:
        (tmp_path / "shadow").touch()
        os.link(tmp_path / "shadow", folder / "agent.sock.lock")
    done = give(filled, folder / "agent.sock")
    assert (done.returncode, "give the socket a folder of its own" in done.stderr) == (3, True)
    assert {each.stat().st_uid for each in (folder, *folder.iterdir())} == {0}


@parts.root
def test_what_is_given_already_is_left(filled: Node, place: Path) -> None:
    """An agent's user could have put anything there; none of it is given to that user."""
    os.chown(place.parent, USER, -1)
    give(filled, place)
    assert {each.stat().st_uid for each in place.parent.iterdir()} == {0}


@parts.root
def test_a_folder_that_cannot_be_made_is_explained(filled: Node, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = give(filled, tmp_path / "file" / "agent.sock")
    assert done.returncode == 3
    assert "cannot be given to user 1234: not a directory" in done.stderr


def clear(node: Node, place: Path) -> subprocess.CompletedProcess[str]:
    return bridge(node, "uninstall", "--all", "--socket", str(place))


@pytest.mark.parametrize("name", ["agent.sock", "agent.sock.4711"], ids=["ended", "killed while it started"])
def test_a_folder_that_an_agent_has_left_is_removed(filled: Node, place: Path, name: str) -> None:
    place.rename(place.with_name(name))
    for _ in range(2):
        assert clear(filled, place).returncode == 0
        assert not place.parent.exists()


def test_files_of_others_stay_and_are_named(filled: Node, place: Path) -> None:
    """So does what is no socket, and the text is harmless."""
    others = ["agent.sock", "agent.sock.txt", "agent.sock.x1", "mine\x1b[31m"]
    place.unlink()
    for name in others:
        place.with_name(name).touch()
    done = clear(filled, place)
    assert done.returncode == 0
    assert "since it has other files: agent.sock, agent.sock.txt, agent.sock.x1, mine" in done.stderr
    assert "\x1b" not in done.stderr
    assert sorted(os.listdir(place.parent)) == others


def test_nothing_is_removed_while_an_agent_listens(filled: Node, tmp_path: Path) -> None:
    path = tmp_path / "keyferry" / "agent.sock"
    with listening(path):
        done = clear(filled, path)
        assert (done.returncode, "an agent listens here; stop it first" in done.stderr) == (3, True)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
