"""Hostile plugins against the process runner: they hang, flood, fork, trace, die and hold on."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keyferry.api.credentialprovider.v1 import CredentialProviderRequest
from keyferry.errors import (
    ConfigError,
    KeyferryError,
    PluginExitError,
    PluginNotFoundError,
    PluginOutputError,
    PluginProtocolError,
    PluginStartError,
    PluginTimeoutError,
    ProvideError,
)
from keyferry.images.answer import Failure
from keyferry.invoke.run import Ending, Limits, ProcessOutcome, Tail, run
from keyferry.kit.lab.launch import Launch, launch
from keyferry.sdk import Deadline
from keyferry.sdk.process import run_program
from support.children import child_states
from support.parts import lacking
from support.plugins import (
    IMAGE,
    PATIENCE_SECONDS,
    PLUGIN,
    Node,
    answer,
    is_running,
    print_answer,
    read_pids,
    run_script,
    wait_until,
    write_executable,
)

DEADLINE_SECONDS = 0.5
# Plugins that are not ended sleep for a minute; a busy machine is late by some seconds.
GRACE_SECONDS = 20
MEGABYTE = 1024 * 1024

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def fail(node: Node, timeout_seconds: float = PATIENCE_SECONDS) -> Failure:
    """How the plugin of a node fails."""
    (failure,) = node.load(timeout_seconds=timeout_seconds).lookup(IMAGE).failures
    return failure


def usernames(node: Node, timeout_seconds: float = PATIENCE_SECONDS) -> list[str]:
    """The user names the plugin of a node gives; its failure is raised."""
    found = node.load(timeout_seconds=timeout_seconds).lookup(IMAGE)
    found.raise_for_failures()
    return [credential.username for credential in found.credentials]


def big_request() -> CredentialProviderRequest:
    """A request that no pipe holds at once."""
    return CredentialProviderRequest(image=IMAGE, service_account_annotations={"a": "x" * MEGABYTE})


def note_pid(who: str = "$$") -> str:
    """Shell text that leaves a process id for the test."""
    return f'echo {who} >>"$HERE/pids"'


def await_death(pids: list[int]) -> None:
    """Wait until none of the processes runs; fail if one goes on."""
    wait_until(lambda: not any(map(is_running, pids)), f"the end of {pids}")


# Time


SLEEPERS = {
    "it sleeps": "exec sleep 60",
    "it leaves sleeping to a child": "sleep 60",
    "it ignores every polite signal": "trap '' TERM INT HUP QUIT; sleep 60; sleep 60",
    "it stopped itself": "kill -STOP $$",
    "it closed its outputs and sleeps": "exec sleep 60 >/dev/null 2>&1",
    "it spins": "while :; do :; done",
}


@pytest.mark.parametrize("body", SLEEPERS.values(), ids=SLEEPERS)
def test_a_plugin_past_its_time_is_ended_at_the_deadline(node: Node, body: str) -> None:
    """The deadline ends a plugin whatever it does, and it is dead then."""
    node.shell(f"{note_pid()}\n{body}")
    started = time.monotonic()
    failure = fail(node, DEADLINE_SECONDS)
    elapsed = time.monotonic() - started
    assert isinstance(failure.error, PluginTimeoutError)
    assert failure.error.timeout_seconds == DEADLINE_SECONDS
    assert ": context deadline exceeded: " in failure.kubernetes_text
    assert DEADLINE_SECONDS <= elapsed < DEADLINE_SECONDS + GRACE_SECONDS
    await_death(read_pids(node.file("pids"), 1))


def test_the_whole_group_is_dead_after_the_deadline(node: Node) -> None:
    """A grandchild that ignores SIGTERM and holds the output neither delays the end nor survives it."""
    grandchild = f'trap "" TERM; {note_pid()}; sleep 60; sleep 60'
    node.shell(f"sh -c '{grandchild}' &\n{note_pid()}\ntrap '' TERM\nsleep 60")
    started = time.monotonic()
    failure = fail(node, DEADLINE_SECONDS)
    elapsed = time.monotonic() - started
    assert isinstance(failure.error, PluginTimeoutError)
    assert elapsed < DEADLINE_SECONDS + GRACE_SECONDS
    pids = read_pids(node.file("pids"), 2)
    assert len(set(pids)) == 2
    await_death(pids)


def test_a_grandchild_that_keeps_the_output_makes_a_timeout(node: Node) -> None:
    """A plugin that answered and exited 0 has timed out if its child holds stdout, as in the kubelet."""
    node.shell(f"{print_answer()}\nsleep 60 &\n{note_pid('$!')}\nexit 0")
    started = time.monotonic()
    failure = fail(node, DEADLINE_SECONDS)
    elapsed = time.monotonic() - started
    assert isinstance(failure.error, PluginTimeoutError)
    assert failure.kubernetes_text.endswith(
        f"error execing credential provider plugin {PLUGIN} for image {IMAGE}: context deadline exceeded: "
    )
    assert DEADLINE_SECONDS <= elapsed < DEADLINE_SECONDS + GRACE_SECONDS
    await_death(read_pids(node.file("pids"), 1))


def test_a_grandchild_out_of_reach_does_not_move_the_deadline(node: Node) -> None:
    """A grandchild in a session of its own holds the output, and the call still ends."""
    node.shell(f"{print_answer()}\nsetsid sh -c '{note_pid()}; exec sleep 60' &")
    started = time.monotonic()
    failure = fail(node, DEADLINE_SECONDS)
    elapsed = time.monotonic() - started
    (pid,) = read_pids(node.file("pids"), 1)
    os.kill(pid, signal.SIGKILL)
    assert isinstance(failure.error, PluginTimeoutError)
    assert elapsed < DEADLINE_SECONDS + GRACE_SECONDS


def test_the_deadline_of_one_question_is_the_one_reported(node: Node) -> None:
    """A deadline given with a question replaces the configured one, none at all included."""
    node.shell("exec sleep 60")
    providers = node.load()
    for seconds in (0.0, 0.2):
        (failure,) = providers.lookup(IMAGE, timeout_seconds=seconds).failures
        assert isinstance(failure.error, PluginTimeoutError)
        assert failure.error.timeout_seconds == seconds


def test_a_plugin_that_hangs_for_one_does_not_hold_up_another(node: Node) -> None:
    """Who waits for a run that somebody else gave more time gets a failure in their own time; the run goes on."""
    node.shell(f"{note_pid()}\nexec sleep 60")
    providers = node.load(timeout_seconds=60)
    patient = threading.Thread(target=providers.lookup, args=(IMAGE,), daemon=True)
    patient.start()
    (pid,) = read_pids(node.file("pids"), 1)
    (failure,) = providers.lookup(IMAGE, timeout_seconds=DEADLINE_SECONDS).failures
    assert is_running(pid)
    assert patient.is_alive()
    os.kill(pid, signal.SIGKILL)
    patient.join(PATIENCE_SECONDS)
    assert isinstance(failure.error, PluginTimeoutError)
    assert failure.error.timeout_seconds == DEADLINE_SECONDS
    assert len(read_pids(node.file("pids"), 1)) == 1


def test_a_plugin_that_leaves_a_daemon_is_answered_at_once(node: Node) -> None:
    """A daemon that closed its streams does not hold up the answer."""
    daemon = f"{note_pid()}; exec sleep 60"
    node.shell(f"setsid sh -c '{daemon}' </dev/null >/dev/null 2>&1 &\n{print_answer()}")
    started = time.monotonic()
    found = usernames(node, timeout_seconds=30)
    elapsed = time.monotonic() - started
    (pid,) = read_pids(node.file("pids"), 1)
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)
    assert found == ["user"]
    assert elapsed < 15


# Standard input


def test_a_plugin_that_closes_its_input_early_is_heard(node: Node) -> None:
    """A broken pipe while the request is written is not an error."""
    node.shell(f"exec <&-\n{print_answer()}")
    response, _ = node.plugin()(big_request())
    assert response.cache_key_type == "Registry"


def test_a_plugin_that_never_reads_its_input_is_heard(node: Node) -> None:
    """A request that nobody reads blocks neither the plugin nor us."""
    node.shell(f"{print_answer()}\nsleep 0.2")
    response, _ = node.plugin()(big_request())
    assert response.cache_key_type == "Registry"


def test_a_plugin_gets_all_of_a_large_request_while_it_floods_us(node: Node) -> None:
    """Writing much and reading much at once does not deadlock."""
    node.python(
        "import sys\n"
        "sys.stderr.write('e' * 300_000)\n"
        "size = len(sys.stdin.buffer.read())\n"
        f"print({answer(auth={'registry.example': ('SIZE', 'x')})!r}.replace('SIZE', str(size)))\n"
    )
    response, _ = node.plugin()(big_request())
    (auth,) = (response.auth or {}).values()
    assert int(auth.username) > MEGABYTE


def test_a_plugin_gets_all_of_a_request_after_it_closed_its_outputs(node: Node) -> None:
    """A plugin that is done with writing is still given the rest of its input, and may then end well."""
    node.shell(f'{print_answer()}\nexec >&- 2>&-\nsleep 0.1\nwc -c >"$HERE/size"')
    response, _ = node.plugin()(big_request())
    assert response.cache_key_type == "Registry"
    assert int(node.file("size").read_text()) > MEGABYTE


# Floods


def test_endless_output_is_cut_off(node: Node) -> None:
    """Standard output beyond the cap ends the plugin, and the error says so."""
    node.shell(f"{note_pid()}\nexec cat /dev/zero")
    failure = fail(node)
    assert isinstance(failure.error, PluginOutputError)
    assert "standard output" in str(failure.error)
    assert str(4 * MEGABYTE) in str(failure.error)
    await_death(read_pids(node.file("pids"), 1))


def test_endless_errors_are_cut_off(node: Node) -> None:
    """Standard error beyond the cap ends the plugin, and the error says so without quoting it."""
    node.shell(f"{note_pid()}\nexec cat /dev/zero >&2")
    failure = fail(node)
    assert isinstance(failure.error, PluginOutputError)
    assert "standard error" in str(failure.error)
    assert len(str(failure.error)) < 500
    await_death(read_pids(node.file("pids"), 1))


def test_twenty_megabytes_of_errors_before_the_answer_are_no_harm(node: Node) -> None:
    """A plugin that logs much before it answers is not blocked on its standard error."""
    node.shell(f"head -c {20 * MEGABYTE} /dev/zero >&2\n{print_answer()}")
    assert usernames(node) == ["user"]


FLOOD_OF_ERRORS = ("/bin/sh", "-c", f"head -c {40 * MEGABYTE} /dev/zero >&2")
FLOODED: dict[str, Callable[[], ProcessOutcome]] = {
    "run": lambda: run(FLOOD_OF_ERRORS),
    "the kit's": lambda: launch(Launch(argv=FLOOD_OF_ERRORS, environ={"PATH": os.environ["PATH"]})).outcome,
}


@pytest.mark.parametrize("flooded", FLOODED.values(), ids=FLOODED)
def test_errors_that_are_dropped_take_no_memory(flooded: Callable[[], ProcessOutcome]) -> None:
    """Of a flood of errors no more is held at any time than a few times what is kept."""
    import tracemalloc

    tracemalloc.start()
    try:
        outcome = flooded()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = Limits().stderr_bytes
    assert (outcome.ending, len(outcome.stderr)) == (Ending.EXITED, kept)
    assert peak < 20 * kept


def test_output_in_tiny_pieces_costs_no_more_than_its_size(node: Node) -> None:
    """A plugin cannot make each byte of its output cost a hundred of ours."""
    import tracemalloc

    pieces = 20_000
    path = node.program(
        "#include <unistd.h>\n#include <sys/ioctl.h>\n"
        f"int main(void) {{ for (int i = 0; i < {pieces}; i++) {{\n"
        '  int left = 1; write(1, "ab", 2);\n'
        "  while (left > 0) ioctl(1, FIONREAD, &left); } return 0; }\n"
    )
    tracemalloc.start()
    try:
        outcome = run((str(path),), limits=Limits(timeout_seconds=240))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(outcome.stdout) == 2 * pieces
    assert peak < 10 * len(outcome.stdout)


# Ends


def test_no_output_is_a_protocol_error(node: Node) -> None:
    """Exit status 0 without an answer is no answer."""
    node.shell("exit 0")
    failure = fail(node)
    assert isinstance(failure.error, PluginProtocolError)
    assert "unexpected end of JSON input" in failure.kubernetes_text


def test_a_good_answer_with_a_bad_status_is_a_failure(node: Node) -> None:
    """An exit status other than 0 counts for more than what was printed."""
    node.shell(f"{print_answer()}\nexit 3")
    failure = fail(node)
    assert isinstance(failure.error, PluginExitError)
    assert failure.error.status == 3
    assert failure.kubernetes_text.endswith(": exit status 3: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [("KILL", "signal: killed"), ("TERM", "signal: terminated"), ("SEGV", "signal: segmentation fault")],
)
def test_a_plugin_killed_by_a_signal_is_reported_as_go_does(node: Node, name: str, text: str) -> None:
    """The signal is in the status, and Go's name for it in Kubernetes' text."""
    node.shell(f"ulimit -c 0\n{print_answer()}\nkill -{name} $$\nsleep 60")
    failure = fail(node)
    assert isinstance(failure.error, PluginExitError)
    assert failure.error.status == -getattr(signal, f"SIG{name}")
    assert failure.kubernetes_text.endswith(
        f"error execing credential provider plugin {PLUGIN} for image {IMAGE}: {text}: "
    )


TRACED_BY_ITS_PARENT = """
#include <signal.h>
#include <sys/ptrace.h>
#include <unistd.h>
int main(void) {
  if (ptrace(PTRACE_TRACEME, 0, 0, 0)) return 77;
  close(1); close(2);
  raise(SIGSTOP);
  for (;;) pause();
}
"""

TRACED_BY_ITS_CHILD = """
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>
int main(void) {
  int ready[2]; char seized = 'n'; pid_t plugin = getpid();
  const char *answer = %s;
  pipe(ready); prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  if (fork() == 0) {
    setsid(); close(0); close(1); close(2); close(ready[0]);
    char result = ptrace(PTRACE_SEIZE, plugin, 0, 0) ? 'n' : 'y';
    write(ready[1], &result, 1); close(ready[1]);
    usleep(600000); _exit(0);
  }
  close(ready[1]); read(ready[0], &seized, 1);
  if (seized != 'y') return 77;
  write(1, answer, strlen(answer));
  return 0;
}
"""


def skip_without_ptrace(error: KeyferryError | None) -> None:
    """Leave a test where the system forbids tracing, which such a plugin says by status 77."""
    if isinstance(error, PluginExitError) and error.status == 77:
        lacking("ptrace")


def test_a_plugin_that_makes_us_its_tracer_is_ended_at_the_deadline(node: Node) -> None:
    """The stop of a traced child is not mistaken for its end."""
    node.program(TRACED_BY_ITS_PARENT)
    before = open_descriptors()
    failure = fail(node, DEADLINE_SECONDS)
    skip_without_ptrace(failure.error)
    assert isinstance(failure.error, PluginTimeoutError)
    assert open_descriptors() == before
    assert not zombies()


def test_the_kit_does_not_mistake_a_stop_for_an_end(node: Node) -> None:
    """Nor does it take a program that makes us its tracer for one that is done."""
    program = str(node.program(TRACED_BY_ITS_PARENT))
    outcome = launch(
        Launch(argv=(program,), environ={}, limits=Limits(timeout_seconds=DEADLINE_SECONDS))
    ).outcome
    if outcome.status == 77:
        lacking("ptrace")
    assert outcome.ending is Ending.TIMED_OUT


def test_the_sdk_does_not_mistake_a_stop_for_an_end(node: Node) -> None:
    """Nor does it take a program that makes us its tracer for one that is done."""
    program = str(node.program(TRACED_BY_ITS_PARENT))
    if run((program,), limits=Limits(timeout_seconds=DEADLINE_SECONDS)).status == 77:
        lacking("ptrace")
    with pytest.raises(ProvideError, match="did not end in time, and was killed"):
        run_program([program], deadline=Deadline(DEADLINE_SECONDS))


def test_a_plugin_under_a_debugger_is_waited_for(node: Node) -> None:
    """An end that the tracer has not yet let us see is waited for, not taken for the deadline."""
    import json

    node.program(TRACED_BY_ITS_CHILD % json.dumps(answer()))
    found = node.load().lookup(IMAGE)
    skip_without_ptrace(found.failures[0].error if found.failures else None)
    found.raise_for_failures()
    assert [credential.username for credential in found.credentials] == ["user"]


def test_a_plugin_whose_end_is_hidden_is_collected_later(node: Node) -> None:
    """A killed plugin that a tracer still holds delays nothing, and a later run collects it."""
    source = TRACED_BY_ITS_CHILD.replace("write(1, answer", "pause(); write(1, answer") % '""'
    program = node.program(source.replace("usleep(600000)", "sleep(60)"))
    started = time.monotonic()
    outcome = run((str(program),), limits=Limits(timeout_seconds=0.1))
    elapsed = time.monotonic() - started
    if outcome.status == 77:
        lacking("ptrace")
    assert outcome.ending is Ending.TIMED_OUT
    assert elapsed < GRACE_SECONDS
    (killed,) = zombies()
    (tracer,) = re.findall(r"TracerPid:\s+(\d+)", Path(f"/proc/{killed}/status").read_text())
    os.kill(int(tracer), signal.SIGKILL)

    def is_collected() -> bool:
        run(("/bin/true",))
        return not zombies()

    wait_until(is_collected, "the end of all zombies")


# Starts


def test_a_plugin_that_is_not_executable_is_refused_at_loading(node: Node) -> None:
    """A missing execute bit is found when the config is loaded."""
    node.shell(print_answer()).chmod(0o644)
    with pytest.raises(ConfigError, match="is not executable"):
        node.load()


def test_a_plugin_that_lost_its_execute_bit_is_a_start_error(node: Node) -> None:
    """A missing execute bit at the time of the run is named as such."""
    path = node.shell(print_answer())
    providers = node.load()
    path.chmod(0o644)
    (failure,) = providers.lookup(IMAGE).failures
    assert isinstance(failure.error, PluginStartError)
    assert failure.kubernetes_text.endswith(f"fork/exec {path}: permission denied: ")


def test_a_directory_for_a_plugin_is_refused_at_loading(node: Node) -> None:
    """A directory in a plugin's place is found when the config is loaded."""
    (node.bin_dir / PLUGIN).mkdir()
    with pytest.raises(ConfigError, match="is a directory"):
        node.load()


def test_a_plugin_that_became_a_directory_is_a_start_error(node: Node) -> None:
    """A directory at the time of the run is an error, and no crash."""
    path = node.shell(print_answer())
    providers = node.load()
    path.unlink()
    path.mkdir()
    (failure,) = providers.lookup(IMAGE).failures
    assert isinstance(failure.error, PluginStartError)
    assert failure.kubernetes_text.endswith(f"fork/exec {path}: permission denied: ")


def elf_of_no_machine() -> bytes:
    """The head of a program for a processor that does not exist."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    return ident + (2).to_bytes(2, "little") + (0x1234).to_bytes(2, "little") + bytes(100)


UNSTARTABLE = {
    "for another processor": elf_of_no_machine(),
    "empty": b"",
    "a script without a first line": b'touch "$0.ran"\n',
    "cut off": b"\x7fELF",
}


@pytest.mark.parametrize("content", UNSTARTABLE.values(), ids=UNSTARTABLE)
def test_a_file_that_is_no_program_is_a_start_error(node: Node, content: bytes) -> None:
    """What the system does not execute is not handed to a shell instead."""
    path = write_executable(node.bin_dir / PLUGIN, content)
    failure = fail(node)
    assert isinstance(failure.error, PluginStartError)
    assert failure.kubernetes_text.endswith(f"fork/exec {path}: exec format error: ")
    assert not path.with_name(PLUGIN + ".ran").exists()


def test_a_missing_interpreter_is_named(node: Node) -> None:
    """The error tells a missing interpreter from a missing plugin."""
    path = write_executable(node.bin_dir / PLUGIN, "#!/nonexistent/interpreter\n")
    failure = fail(node)
    assert isinstance(failure.error, PluginStartError)
    assert "'/nonexistent/interpreter'" in str(failure.error)
    assert failure.kubernetes_text.endswith(f"fork/exec {path}: no such file or directory: ")


def test_a_plugin_removed_after_loading_is_not_found(node: Node) -> None:
    """A plugin that is gone at the time of the run is missing, and its interpreter is not blamed."""
    path = node.shell(print_answer())
    providers = node.load()
    path.unlink()
    (failure,) = providers.lookup(IMAGE).failures
    assert isinstance(failure.error, PluginNotFoundError)
    assert "is missing" in str(failure.error)
    assert "interpreter" not in str(failure.error)


def test_a_plugin_held_open_for_a_moment_is_tried_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that an installer is just done writing runs all the same."""
    path = node.shell(print_answer())
    providers = node.load()
    writer = path.open("ab")
    # It is done when the start has waited once.
    monkeypatch.setattr(time, "sleep", lambda _: writer.close())
    found = providers.lookup(IMAGE)
    if not writer.closed:
        writer.close()
        lacking("text-file-busy")
    found.raise_for_failures()
    assert [credential.username for credential in found.credentials] == ["user"]


def test_a_plugin_held_open_for_writing_is_a_start_error(node: Node) -> None:
    """A plugin that stays open for writing is given up soon, with the system's words."""
    path = node.shell(print_answer())
    providers = node.load()
    with path.open("ab"):
        found = providers.lookup(IMAGE)
    if not found.failures:
        lacking("text-file-busy")
    assert isinstance(found.failures[0].error, PluginStartError)
    assert found.failures[0].kubernetes_text.endswith(f"fork/exec {path}: text file busy: ")


def test_a_symlink_swapped_after_loading_runs_its_new_target(node: Node) -> None:
    """A plugin replaced by way of its link is the one that runs."""
    node.shell(print_answer(auth={"registry.example": ("old", "x")}), "v1")
    node.shell(print_answer(auth={"registry.example": ("new", "x")}), "v2")
    link = node.bin_dir / PLUGIN
    link.symlink_to("v1")
    providers = node.load()
    link.unlink()
    link.symlink_to("v2")
    assert [credential.username for credential in providers.lookup(IMAGE).credentials] == ["new"]


@pytest.mark.parametrize("target", ["nowhere", PLUGIN, "."], ids=["dangling", "to itself", "a directory"])
def test_a_symlink_swapped_for_a_bad_one_is_a_clear_error(node: Node, target: str) -> None:
    """A link that leads nowhere at the time of the run is an error of the plugin, and no crash."""
    node.shell(print_answer(), "v1")
    link = node.bin_dir / PLUGIN
    link.symlink_to("v1")
    providers = node.load()
    link.unlink()
    link.symlink_to(target)
    (failure,) = providers.lookup(IMAGE).failures
    assert isinstance(failure.error, PluginNotFoundError | PluginStartError)
    assert "interpreter" not in str(failure.error)
    assert f"fork/exec {link}: " in failure.kubernetes_text


# What a plugin inherits

LIST_DESCRIPTORS = """
import os
def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
with open(HERE + "/descriptors", "w") as out:
    text = " ".join(str(fd) for fd in range(1024) if is_open(fd) and fd != out.fileno())
    out.write(text)
"""


@pytest.fixture
def inheritable() -> Iterator[list[int]]:
    """Descriptors that would pass to any program: a file, a pipe, a listening socket, a high number."""
    listener = socket.create_server(("127.0.0.1", 0))
    ends = os.pipe()
    fds = [os.open(os.devnull, os.O_RDWR), *ends, listener.fileno(), os.dup2(ends[0], 777)]
    for fd in fds:
        os.set_inheritable(fd, True)
    yield fds
    listener.close()
    for fd in fds:
        if fd != fds[3]:
            os.close(fd)


def test_no_descriptor_of_ours_reaches_a_plugin(node: Node, inheritable: list[int]) -> None:
    """A plugin has its three streams and nothing else, whatever this process left inheritable."""
    node.python(f"{LIST_DESCRIPTORS}\nprint({answer()!r})\n")
    assert usernames(node) == ["user"]
    assert node.file("descriptors").read_text() == "0 1 2"
    assert all(os.get_inheritable(fd) for fd in inheritable)


COUNT_DESCRIPTORS = """
#include <fcntl.h>
#include <stdio.h>
int main(void) {
  for (int fd = 0; fd < 4096; fd++) if (fcntl(fd, F_GETFD) >= 0) printf("%d ", fd);
  return 0;
}
"""
STARTERS: dict[str, Callable[[str], bytes]] = {
    "run": lambda path: run((path,)).stdout,
    "as for a cluster": lambda path: run((path,), stdin=None, environ={}, stderr_tail=Tail()).stdout,
    "at the terminal": lambda path: run((path,), environ={}, terminal=(0, 2)).stdout,
    "the kit's": lambda path: launch(Launch(argv=(path,), environ={})).outcome.stdout,
    "the SDK's": lambda path: run_program([path], deadline=Deadline(PATIENCE_SECONDS)).stdout,
}


@contextmanager
def busy_with_descriptors(threads: int = 4) -> Iterator[None]:
    """Threads of this process that make inheritable descriptors, and close them, without a pause."""
    stop = threading.Event()

    def make() -> None:
        while not stop.is_set():
            ends = [os.dup(0) for _ in range(8)]
            for fd in ends:
                os.set_inheritable(fd, True)
            for fd in ends:
                os.close(fd)

    workers = [threading.Thread(target=make) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join()


@pytest.mark.parametrize("start", STARTERS.values(), ids=STARTERS)
def test_no_descriptor_that_another_thread_makes_reaches_a_program(
    node: Node, start: Callable[[str], bytes]
) -> None:
    """Not even one that was made inheritable while the program was being started."""
    path = str(node.program(COUNT_DESCRIPTORS, static=True))
    with busy_with_descriptors():
        seen = {start(path) for _ in range(40)}
    assert seen == {b"0 1 2 "}


def signal_sets(path: Path) -> dict[str, int]:
    """The signal sets of a process, from a copy of its status."""
    rows = (line.split() for line in path.read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1], 16) for row in rows}


def bit(number: int) -> int:
    """A signal's place in a set."""
    return 1 << (number - 1)


def test_a_plugin_starts_with_no_signal_blocked(node: Node) -> None:
    """What the calling thread blocks for itself is not blocked in a plugin."""
    # A script in Python: shells clear the mask by themselves.
    node.python(
        "with open('/proc/self/status') as status, open(HERE + '/status', 'w') as copy:\n"
        "    copy.writelines(line for line in status if line.startswith('SigBlk'))\n"
        f"print({answer()!r})\n"
    )
    blocked = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1, signal.SIGPIPE}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        found = usernames(node)
        during = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert found == ["user"]
    assert blocked <= during
    assert signal_sets(node.file("status")) == {"SigBlk": 0}


def test_a_signal_that_waits_is_not_let_through_by_a_start(node: Node) -> None:
    """A signal that this thread holds back, and that has come already, neither ends us nor gets lost."""
    node.shell(print_answer())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2})
    try:
        signal.raise_signal(signal.SIGUSR1)
        found = usernames(node)
        waiting = signal.sigpending()
        signal.sigwait({signal.SIGUSR1})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert found == ["user"]
    assert waiting == {signal.SIGUSR1}


def test_a_plugin_starts_with_default_signals(node: Node) -> None:
    """Signals that Python ignores for itself are not ignored in a plugin."""
    # A script of the shell: Python would ignore them for itself again.
    node.shell(f'grep ^SigIgn /proc/self/status >"$HERE/status"\n{print_answer()}')
    assert usernames(node) == ["user"]
    ignored = signal_sets(node.file("status"))["SigIgn"]
    assert not ignored & (bit(signal.SIGPIPE) | bit(signal.SIGXFSZ))


def test_a_plugin_cannot_reach_our_terminal(node: Node) -> None:
    """A plugin leads a session of its own, so that it has no controlling terminal and no job of ours."""
    node.shell(f'cut -d" " -f1,5,6 /proc/$$/stat >"$HERE/ids"\n{print_answer()}')
    assert usernames(node) == ["user"]
    pid, group, session = node.file("ids").read_text().split()
    assert pid == group == session


def test_the_environment_is_ours_with_the_configs_on_top(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are united, the last of equals wins, and nothing in them is expanded."""
    monkeypatch.setenv("KF_INHERITED", "kept")
    monkeypatch.setenv("KF_BOTH", "ours")
    monkeypatch.setenv("KF_WITHHELD", "secret")
    node.shell(f'cat /proc/$$/environ >"$HERE/environ"\n{print_answer()}')
    env = [
        {"name": "KF_BOTH", "value": "first"},
        {"name": "KF_BOTH", "value": "last"},
        {"name": "KF_PLAIN", "value": "$KF_BOTH ${KF_BOTH} %KF_BOTH% ~"},
        {"name": "KF_EMPTY", "value": ""},
        {"name": "KF=ODD", "value": "x"},
        {"name": "", "value": "nameless"},
    ]
    node.provider(env=env)
    node.load(withhold_env=["KF_WITHHELD"]).lookup(IMAGE).raise_for_failures()
    passed = node.file("environ").read_bytes().rstrip(b"\0").split(b"\0")
    assert sorted(item for item in passed if item.startswith(b"KF")) == [
        b"KF=ODD=x",
        b"KF_BOTH=last",
        b"KF_EMPTY=",
        b"KF_INHERITED=kept",
        b"KF_PLAIN=$KF_BOTH ${KF_BOTH} %KF_BOTH% ~",
    ]


# A hostile home: what the process that uses keyferry has done to itself

LOOK_UP = """
import os, sys
from keyferry.images.load import load_providers
def look_up(config, bin_dir, image, timeout_seconds=20):
    found = load_providers(config, bin_dir, timeout_seconds=timeout_seconds).lookup(image)
    lines = [f"user {credential.username}" for credential in found.credentials]
    for failure in found.failures:
        lines += [f"failed {type(failure.error).__name__}: {failure}", failure.kubernetes_text]
    return "\\n".join(lines)
"""


def run_at_home(node: Node, script: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Look an image up in a process that *script* prepared."""
    node.load()
    return run_script(LOOK_UP + script, node.config, node.bin_dir, IMAGE, *args)


def test_closed_standard_streams_are_no_harm(node: Node) -> None:
    """A daemon without standard streams runs plugins, whose pipes never take the numbers of those streams."""
    node.shell(f': >"$HERE/started"\nwhile [ ! -e "$HERE/go" ]; do sleep 0.01; done\n{print_answer()}')
    script = """
import threading, time
config, bin_dir, image, root = sys.argv[1:]
os.closerange(0, 3)
def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
def look_around():
    while not os.path.exists(root + "/started"):
        time.sleep(0.01)
    # Popen has a pipe of its own, by which it learns whether the program started, and lets go of it then.
    end = time.monotonic() + 5
    while (taken := [fd for fd in range(3) if is_open(fd)]) and time.monotonic() < end:
        time.sleep(0.01)
    with open(root + "/taken", "w") as out:
        out.write(f"{taken}")
    open(root + "/go", "w").close()
thread = threading.Thread(target=look_around)
thread.start()
result = look_up(config, bin_dir, image)
thread.join()
with open(root + "/result", "w") as out:
    out.write(result)
"""
    done = run_at_home(node, script, node.root)
    assert done.returncode == 0
    assert node.file("result").read_text() == "user user"
    assert node.file("taken").read_text() == "[]"


def test_ignored_child_signals_give_a_clear_error(node: Node) -> None:
    """Where the system collects children itself the plugin's status is lost, and the error says why."""
    node.shell(print_answer())
    script = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(look_up(*sys.argv[1:]))
"""
    done = run_at_home(node, script)
    assert done.stderr == ""
    assert "failed PluginStartError: " in done.stdout
    assert "exit status is unknown" in done.stdout
    assert "waitid: no child processes" in done.stdout


def test_ignored_child_signals_do_not_move_the_deadline(node: Node) -> None:
    """A plugin that hangs in a process that ignores its children is still killed."""
    node.shell(f"{note_pid()}\nsleep 60")
    script = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(look_up(*sys.argv[1:], timeout_seconds=0.3))
"""
    done = run_at_home(node, script)
    assert "failed PluginTimeoutError: " in done.stdout
    await_death(read_pids(node.file("pids"), 1))


def test_an_interrupt_ends_the_plugin(node: Node) -> None:
    """Whoever presses Ctrl-C leaves no plugin behind."""
    node.shell(f"sleep 60 &\n{note_pid('$!')}\n{note_pid()}\nwait")
    node.load()
    script = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    look_up(*sys.argv[1:])
except KeyboardInterrupt:
    sys.exit(7)
"""
    command = [sys.executable, "-c", LOOK_UP + script, str(node.config), str(node.bin_dir), IMAGE]
    with subprocess.Popen(command) as process:
        pids = read_pids(node.file("pids"), 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 7
    await_death(pids)


FORBID_PIDFD = """
import ctypes, struct
# A filter that answers ENOSYS to pidfd_open, number 434 everywhere but on the oldest ports.
load, jump_equal, leave = 0x20, 0x15, 0x06
steps = ((load, 0, 0, 0), (jump_equal, 0, 1, 434), (leave, 0, 0, 0x50000 | 38), (leave, 0, 0, 0x7FFF0000))
program = b"".join(struct.pack("HBBI", *step) for step in steps)
buffer = ctypes.create_string_buffer(program)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(buffer))), 0, 0):
    sys.exit(77)
try:
    os.close(os.pidfd_open(os.getpid()))
except OSError:
    pass
else:
    sys.exit(77)
"""


def test_a_sandbox_without_pidfd_is_no_harm(node: Node) -> None:
    """Where the system refuses the newer way to wait for a process, the older one serves."""
    node.shell(f"{print_answer()}\nexec >&- 2>&-\nsleep 0.1")
    script = """
before = os.listdir("/proc/self/fd")
print(look_up(*sys.argv[1:]))
print("nothing left" if os.listdir("/proc/self/fd") == before else "descriptors left")
"""
    done = run_at_home(node, FORBID_PIDFD + script)
    if done.returncode == 77:
        lacking("seccomp")
    assert done.stdout == "user user\nnothing left\n", done.stderr


# Many runs


def open_descriptors() -> set[str]:
    """The descriptors this process has open, the one that lists them left out."""
    return {name for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")}


def zombies() -> list[str]:
    """The children of this process that nobody collected."""
    return [pid for pid, state in child_states().items() if state == "Z"]


def resident_kilobytes() -> int:
    """How much memory this process holds."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:")
    )
    return int(line.split()[1])


def test_two_thousand_runs_leave_nothing_behind(node: Node) -> None:
    """No zombie, no descriptor and no memory is left of them: 640 bytes of each would be found."""
    import json

    node.program(
        "#include <unistd.h>\n#include <string.h>\n"
        f"int main(void) {{ const char *answer = {json.dumps(answer())};\n"
        "return write(1, answer, strlen(answer)) < 0; }\n",
        static=True,
    )
    plugin = node.plugin()
    request = CredentialProviderRequest(image=IMAGE)
    before = open_descriptors()
    for _ in range(500):
        plugin(request)
    memory = resident_kilobytes()
    for _ in range(1_500):
        plugin(request)
    assert resident_kilobytes() - memory < 1_500 * 640 // 1024
    assert open_descriptors() == before
    assert zombies() == []


def test_runs_that_are_killed_leave_nothing_behind(node: Node) -> None:
    """No zombie and no descriptor is left of plugins that hang, flood or cannot be started."""
    flooding = node.shell("exec cat /dev/zero", "flooding")
    hanging = node.shell("exec sleep 60", "hanging")
    broken = write_executable(node.bin_dir / "broken", b"")
    limits = Limits(timeout_seconds=0.02, stdout_bytes=100_000)
    before = open_descriptors()
    for _ in range(10):
        assert run((str(flooding),), limits=Limits(stdout_bytes=100_000)).ending is Ending.STDOUT_LIMIT
        assert run((str(hanging),), limits=limits).ending is Ending.TIMED_OUT
        with pytest.raises(OSError, match="Exec format error"):
            run((str(broken),), limits=limits)
    wait_until(lambda: not zombies(), "the end of all zombies")
    assert open_descriptors() == before
