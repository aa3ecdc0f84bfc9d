"""The units work under a real systemd: the sandbox leaves an agent and its plugins what they need, and no more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.parts import need_part, root
from support.plugins import IMAGE, PLUGIN, Node, answer, provider_entry, write_config, write_executable
from support.systemd import KEYFERRY, PLACE, interpreter, run_under_systemd

pytestmark = root
UNITS = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
AGENT = "keyferry-agent.service"
SOCKET = "keyferry-agent.socket"
LOOK_UP = (
    f'curl -s --unix-socket /run/keyferry/agent.sock http://agent/v1/lookup -d \'{{"image": "{IMAGE}"}}\''
)
# A service with the name and the flags of a kubelet, which has the rights of a real one.
KUBELET = f"""\
[Service]
ExecStart=@/bin/sh kubelet -c "while sleep 60; do :; done" --image-credential-provider-config={PLACE}/config.json \
--image-credential-provider-bin-dir={PLACE}/bin
"""
# What a JIT does: write a program into memory, then run it. What is not allowed is an error, and no end.
PYTHON_PLUGIN = """\
#!{interpreter} -IS
import mmap, os
mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).write(b"program")
refused = []
for attempt in (
    lambda: os.chown("/proc/self", 1, 1),
    lambda: os.setpriority(os.PRIO_PROCESS, 0, 5),
    lambda: open("/etc/planted", "w"),
    lambda: open("/home/planted", "w"),
):
    try:
        attempt()
    except OSError as error:
        refused.append(error.strerror)
assert len(refused) == 4, refused
print({answer!r})
"""
NODE_PLUGIN = """\
#!{interpreter}
let sum = 0;
for (let turn = 0; turn < 1e6; turn++) sum += turn % 7;
console.log({answer!r});
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A folder with the units as they are installed, but for the place of the program, and with a plugin."""
    units = tmp_path / "units"
    units.mkdir()
    for name in (AGENT, SOCKET):
        (units / name).write_text((UNITS / name).read_text().replace("/usr/bin/keyferry", str(KEYFERRY)))
    (units / "kubelet.service").write_text(KUBELET)
    made = Node(tmp_path)
    write_plugin(made, PLUGIN, PYTHON_PLUGIN, str(interpreter()))
    write_config(made.config, [provider_entry()])
    return made


def write_plugin(node: Node, name: str, source: str, interpreter: str) -> None:
    text = source.format(interpreter=interpreter, answer=answer())
    write_executable(node.bin_dir / name, text)


def drop_in(node: Node, settings: str) -> None:
    """Add settings to the agent's unit, as an administrator does."""
    folder = node.root / "units" / f"{AGENT}.d"
    folder.mkdir()
    (folder / "own.conf").write_text(f"[Service]\n{settings}\n")


def password(reply: str) -> str:
    return str(json.loads(reply)["credentials"][0]["password"])


@pytest.mark.parametrize("user", ["root", "daemon"])
def test_an_agent_in_its_sandbox_finds_the_kubelets_flags_and_runs_plugins(node: Node, user: str) -> None:
    """It has no capability; the kubelet has all of them, and may belong to another user. After a crash it is back."""
    drop_in(node, f"User={user}")
    done = run_under_systemd(
        node.root,
        f"""
        systemctl start kubelet.service {SOCKET} {AGENT}
        {LOOK_UP}; echo
        first=$(systemctl show -P MainPID {AGENT})
        grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/$first/status
        systemctl kill -s KILL {AGENT}
        until [ "$(systemctl show -P NRestarts {AGENT})" = 1 ]; do sleep 0.05; done
        {LOOK_UP}; echo
        systemctl is-active {AGENT}
        """,
    )
    assert done.returncode == 0, done.stderr
    first, *status, second, state = done.stdout.splitlines()
    assert (password(first), password(second), state) == ("pass", "pass", "active")
    assert [line.split() for line in status] == [
        ["CapEff:", "0" * 16],
        ["NoNewPrivs:", "1"],
        ["Seccomp:", "2"],
    ]


def test_an_agent_that_hangs_is_started_again(node: Node) -> None:
    """By the watchdog, which is quicker here than the unit's."""
    drop_in(node, "WatchdogSec=5\nTimeoutAbortSec=1")
    done = run_under_systemd(
        node.root,
        f"""
        systemctl start kubelet.service {SOCKET} {AGENT}
        systemctl kill -s STOP {AGENT}
        until [ "$(systemctl show -P NRestarts {AGENT})" != 0 ]; do sleep 0.1; done
        {LOOK_UP}
        """,
    )
    assert done.returncode == 0, done.stderr
    assert password(done.stdout) == "pass", done.stdout


def test_a_plugin_with_a_jit_answers(node: Node) -> None:
    """Of a real engine, which writes the programs that it runs."""
    # Below the mounted folder: the sandbox hides /home and /tmp, where the part may be.
    shutil.copy(Path(need_part("node/bin/node")).resolve(), node.root / "node")
    write_plugin(node, PLUGIN, NODE_PLUGIN, str(PLACE / "node"))
    done = run_under_systemd(node.root, f"systemctl start kubelet.service {SOCKET}\n{LOOK_UP}\n")
    assert done.returncode == 0, done.stderr
    assert password(done.stdout) == "pass", done.stdout


def test_an_agent_without_a_config_rests_until_somebody_asks_and_a_config_is_there(node: Node) -> None:
    """It is not started again and again; who asks meanwhile is told at once, and does not wait."""
    failed = f'until [ "$(systemctl is-active {AGENT})" = failed ]; do sleep 0.05; done'
    done = run_under_systemd(
        node.root,
        f"""
        systemctl start {SOCKET}
        systemctl start {AGENT} || echo not started
        systemctl show -P SubState -P NRestarts -P ExecMainStatus {AGENT}
        {LOOK_UP} --max-time 60 || echo rejected $?
        {failed}
        systemctl show -P SubState -P NRestarts {AGENT}
        systemctl is-active {SOCKET}
        systemctl start kubelet.service
        {LOOK_UP}
        """,
    )
    assert done.returncode == 0, done.stderr
    *texts, reply = done.stdout.splitlines()
    assert texts[:4] == ["not started", "0", "3", "failed"], done.stdout
    # An empty reply, or a connection that is reset.
    assert texts[4] in ("rejected 52", "rejected 56"), done.stdout
    assert texts[5:] == ["0", "failed", "active"], done.stdout
    assert password(reply) == "pass"
