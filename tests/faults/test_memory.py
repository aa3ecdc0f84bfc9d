"""A system without memory, for a plugin's start, for a plugin that runs, or for keyferry: nothing is left of it."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from keyferry import ClusterAuthError, PluginExitError, load_providers
from support.agents import running_agent
from support.fault_table import Tried
from support.kube import TOKEN, Kube, credential
from support.parts import lacking
from support.plugins import (
    IMAGE,
    PATIENCE_SECONDS,
    REGISTRY,
    Node,
    answer,
    print_answer,
    run_script,
    write_executable,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="filters calls and limits memory as on Linux")

NO_START = "no memory to start a plugin (ENOMEM)"
NO_THREAD = "no memory to start a thread"
KILLED = "a plugin is killed with SIGKILL, as if out of memory"
LIMITED = "a plugin gets no more memory (RLIMIT_AS)"
FLOOD = "a plugin prints without end, and there is little memory"
SHORT = "no memory to read an answer, at every step"
NAMED = "an error that names the plugin; the next run succeeds"
SIGNAL = "an error that names the plugin and the signal; nothing it printed counts; the next run succeeds"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
BOUNDED = "the answer, an error that names the plugin, or a MemoryError; the next lookup succeeds"

# A filter for one thread: calls that make a process fail with ENOMEM; those that make a thread do, or are as ever.
WITHOUT_PROCESSES = """
import ctypes, errno, json, os, platform, struct, sys, threading
load, jump_equal, jump_set, leave, allow, fail = 0x20, 0x15, 0x45, 0x06, 0x7FFF0000, 0x50000
newest, clone_thread, arguments = 435, 0x10000, 16
forks, clone = {{"x86_64": ((57, 58), 56), "aarch64": ((), 220)}}.get(platform.machine(), ((), None))
# The newest call has its flags in memory, out of a filter's sight; without it, the older ones are made.
steps = (
    (load, 0, 0, 0),
    (jump_equal, len(forks) + 5, 0, newest),
    *((jump_equal, len(forks) + 3 - at, 0, call) for at, call in enumerate(forks)),
    (jump_equal, 0, 2, clone),
    (load, 0, 0, arguments),
    (jump_set, 0, 1, clone_thread if {has_threads} else 0),
    (leave, 0, 0, allow),
    (leave, 0, 0, fail | errno.ENOMEM),
    (leave, 0, 0, fail | (errno.ENOSYS if {has_threads} else errno.ENOMEM)),
)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
def without_processes(work):
    def filtered():
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(38, 1, 0, 0, 0)
        buffer = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
        program = Filter(len(steps), ctypes.addressof(buffer))
        told.append(libc.prctl(22, 2, ctypes.byref(program), 0, 0))
        work()
    if clone is None:
        sys.exit(77)
    told = []
    thread = threading.Thread(target=filtered)
    thread.start()
    thread.join()
    if told != [0]:
        sys.exit(77)
def tell(error):
    said.extend([type(error).__name__, str(error)])
said = []
"""
LOOKUP = """
from keyferry import load_providers
providers = load_providers({config!r}, {bin_dir!r})
before = len(os.listdir("/proc/self/fd"))
without_processes(lambda: tell(providers.lookup({image!r}).failures[0].error))
said.append(providers.lookup({image!r}).credentials[0].password)
said.append(len(os.listdir("/proc/self/fd")) - before)
print(json.dumps(said))
"""
CLUSTER = """
from keyferry import KeyferryError, PluginPolicy, load_cluster
session = load_cluster(kubeconfig={config!r}, policy=PluginPolicy())
def grant():
    try:
        session.grant()
    except KeyferryError as error:
        tell(error)
before = len(os.listdir("/proc/self/fd"))
without_processes(grant)
said.append(dict(session.grant().headers))
said.append(len(os.listdir("/proc/self/fd")) - before)
print(json.dumps(said))
"""


def starved(code: str, *, has_threads: bool = True) -> list[Any]:
    """Return what a script said that found no memory for a process, and then enough."""
    done = run_script(WITHOUT_PROCESSES.format(has_threads=has_threads) + code)
    if done.returncode == 77:
        lacking("seccomp")
    assert done.returncode == 0, done.stderr
    said: list[Any] = json.loads(done.stdout)
    return said


def test_no_memory_to_start_a_plugin_of_an_image(node: Node, tried: Tried) -> None:
    node.shell(print_answer())
    node.load()
    code = LOOKUP.format(config=str(node.config), bin_dir=str(node.bin_dir), image=IMAGE)
    kind, text, again, left = starved(code)
    assert (kind, again, left) == ("PluginStartError", "pass", 0)
    assert "'plugin'" in text
    assert "cannot allocate memory" in text.lower()
    tried(NO_START, "a lookup", NAMED)


@pytest.mark.parametrize("has_threads", [True, False])
def test_no_memory_to_start_a_plugin_of_a_cluster(has_threads: bool, tmp_path: Path, tried: Tried) -> None:
    """Whether or not there is memory for a thread, which a run does not need."""
    kube = Kube(tmp_path)
    kube.write("https://127.0.0.1:1")
    kube.answer(credential(TOKEN))
    kind, text, headers, left = starved(CLUSTER.format(config=str(kube.path)), has_threads=has_threads)
    assert (kind, headers, left) == ("ClusterAuthError", AUTHORIZED, 0)
    plugin = tmp_path / "plugin"
    assert f"plugin '{plugin}': the executable {plugin} cannot be started: cannot allocate memory" in text
    tried(NO_START, "a cluster's credential", NAMED)


def test_a_plugin_of_an_image_that_is_killed(node: Node, tried: Tried) -> None:
    """Even a whole answer does not count: the kubelet takes none from a program that does not end well."""
    for said in ("", answer()[:40], answer()):
        node.shell(f"printf %s {shlex.quote(said)}; kill -KILL $$")
        providers = node.load()
        (failure,) = providers.lookup(IMAGE).failures
        expect_killed(failure.error, "plugin")
        node.shell(print_answer())
        assert providers.lookup(IMAGE).credentials[0].password == "pass"
    tried(KILLED, "a lookup", SIGNAL)


def test_a_plugin_of_a_cluster_that_is_killed(tmp_path: Path, tried: Tried) -> None:
    kube = Kube(tmp_path)
    kube.write("https://127.0.0.1:1")
    plugin = tmp_path / "plugin"
    whole = plugin.read_text()
    kube.answer(credential(TOKEN))
    write_executable(plugin, f"{whole}\nkill -KILL $$\n")
    session = kube.load()
    with pytest.raises(ClusterAuthError, match=r"https://127\.0\.0\.1:1") as caught:
        session.grant()
    expect_killed(caught.value.underlying, str(plugin))
    write_executable(plugin, whole)
    assert dict(session.grant().headers) == AUTHORIZED
    tried(KILLED, "a cluster's credential", SIGNAL)


def expect_killed(error: BaseException | None, name: str) -> None:
    assert isinstance(error, PluginExitError)
    assert error.status == -signal.SIGKILL
    assert f"plugin {name!r}: was killed by SIGKILL" in str(error)


def test_a_plugin_that_gets_no_more_memory(node: Node, tried: Tried) -> None:
    """Its own complaint is part of the error."""
    node.python(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\nbytearray(1 << 30)\n"
    )
    providers = node.load()
    (failure,) = providers.lookup(IMAGE).failures
    assert isinstance(failure.error, PluginExitError)
    assert "'plugin': exited with status 1" in str(failure.error)
    assert "MemoryError" in str(failure.error)
    node.shell(print_answer())
    assert providers.lookup(IMAGE).credentials[0].password == "pass"
    tried(
        LIMITED,
        "a lookup",
        "an error that names the plugin, with what it complained of; the next run succeeds",
    )


# Small thresholds let the system take back what is freed, so that the limit is reached at every step anew.
STRICT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "PYTHONMALLOC": "malloc"}
SHORT_OF_MEMORY = """
import gc, json, os, resource
from keyferry import KeyferryError, load_providers
def size():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
def password(providers):
    found = providers.lookup({image!r})
    return found.credentials[0].password if found.credentials else str(found.failures[0].error)
def limited(providers, spare):
    resource.setrlimit(resource.RLIMIT_AS, (size() + spare, hard))
    try:
        return password(providers)
    except MemoryError:
        return "MemoryError"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
def attempt(spare):
    providers = load_providers({config!r}, {bin_dir!r})
    said = limited(providers, spare)
    return said, password(providers)
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
before = len(os.listdir("/proc/self/fd"))
said = [attempt(spare) for spare in range(0, {spare}, {spare} // 8)]
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    left = len(os.listdir("/proc/self/fd")) - before
else:
    left = "a process"
print(json.dumps([said, left]))
"""


def big_answer(node: Node) -> None:
    """Let the plugin answer with most of a megabyte."""
    others = {f"r{number}.{REGISTRY}": ("user", "p" * 1000) for number in range(900)}
    node.file("answer").write_text(answer(auth={REGISTRY: ("user", "pass"), **others}))
    node.shell('cat "$HERE/answer"')


def test_no_memory_for_an_answer(node: Node, tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in STRICT.items():
        monkeypatch.setenv(name, value)
    big_answer(node)
    node.load()
    done = run_script(
        SHORT_OF_MEMORY.format(config=str(node.config), bin_dir=str(node.bin_dir), image=IMAGE, spare=6 << 20)
    )
    assert done.returncode == 0, done.stderr
    said, left = json.loads(done.stdout)
    assert left == 0
    found = {first for first, _ in said}
    assert all(each in {"MemoryError", "pass"} or each.startswith("plugin 'plugin': ") for each in found)
    assert len(found) > 1
    assert said[-1][0] == "pass"
    assert {again for _, again in said} == {"pass"}
    tried(SHORT, "a lookup", BOUNDED)


def test_a_flood_takes_no_more_memory_than_its_limit(node: Node, tried: Tried) -> None:
    """Eight times the limit of an answer is enough for one that never ends."""
    node.shell("exec cat /dev/zero")
    node.load()
    code = SHORT_OF_MEMORY.replace("range(0, {spare}, {spare} // 8)", "[{spare}]")
    done = run_script(
        code.format(config=str(node.config), bin_dir=str(node.bin_dir), image=IMAGE, spare=32 << 20)
    )
    assert done.returncode == 0, done.stderr
    ((said, _),), left = json.loads(done.stdout)
    assert left == 0
    assert "'plugin': wrote too much to standard output" in said
    tried(FLOOD, "a lookup", "an error that names the plugin, which is killed")


def test_an_agent_without_memory(node: Node, tried: Tried) -> None:
    """There is not enough for a thread's stack: the library does the work itself.

    The agent answers once it has memory; or its event loop itself had none and it ended, for its service to start anew.
    """
    big_answer(node)
    for spare in (0, 1 << 20):
        with running_agent(node, environ=STRICT) as agent:
            providers = load_providers(node.config, node.bin_dir, agent=agent.socket)
            with little_memory(agent.process.pid, spare):
                assert providers.lookup(IMAGE).credentials[0].password == "pass"
            if os.path.exists(agent.socket):
                assert agent.look_up(IMAGE).status == 200
                # The lack shows in the request, or in the start of the plugin, which needs no thread.
                lacks = ("a request failed error=", "MemoryError", "cannot allocate memory")
                assert any(words in agent.log for words in lacks), agent.log
            else:
                assert agent.process.wait(PATIENCE_SECONDS) != 0, agent.log
                with running_agent(node) as successor:
                    assert successor.look_up(IMAGE).status == 200
    tried(
        NO_THREAD,
        "the agent",
        "the plugin is run instead; the agent answers once there is memory, or ends and can be started anew",
    )


@contextmanager
def little_memory(pid: int, spare: int) -> Iterator[None]:
    """Let a process have no more memory than it has now, and *spare* bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    hard = resource.prlimit(pid, resource.RLIMIT_AS)[1]
    resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + spare, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, (hard, hard))
