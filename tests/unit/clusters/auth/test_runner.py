"""A plugin is run as client-go runs it, and every way to fail has its words and its count."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keyferry._core.values import replace
from keyferry.api.clientauthentication.v1 import API_VERSION, ClusterInfo
from keyferry.api.kubeconfig.v1 import ExecConfig, ExecEnvVar
from keyferry.clusters.auth.call_metrics import CallMetrics
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.runner import ExecRunner, HintLimiter
from keyferry.errors import (
    ConfigError,
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    PluginOutputError,
    PluginProtocolError,
    PluginStartError,
    PluginTimeoutError,
    PolicyError,
)
from keyferry.invoke.policy import AllowlistEntry, PluginPolicy
from keyferry.invoke.run import Limits
from support.plugins import SteppedClock, is_running, read_pids, wait_until, write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

ANSWER = json.dumps({"apiVersion": API_VERSION, "kind": "ExecCredential", "status": {"token": "t"}})
SAY = f"printf %s {shlex.quote(ANSWER)}"


@pytest.fixture
def metrics() -> CallMetrics:
    return CallMetrics()


def plugin(folder: Path, body: str) -> ExecConfig:
    path = write_executable(folder / "plugin", f"#!/bin/sh\n{body}\n")
    return ExecConfig(command=str(path), api_version=API_VERSION, interactive_mode="Never")


def test_a_plugin_is_told_and_answers(tmp_path: Path, metrics: CallMetrics) -> None:
    """Arguments, variables and cluster reach it; its input is empty."""
    body = (
        f'[ "$#$1$X" = "1a by" ] && [ -z "$(cat)" ] && echo "$KUBERNETES_EXEC_INFO" >{tmp_path}/info && {SAY}'
    )
    config = replace(
        plugin(tmp_path, body),
        args=("a b",),
        env=(ExecEnvVar(name="X", value="y"),),
        provide_cluster_info=True,
    )
    runner = ExecRunner(config, ClusterInfo(server="https://x"), recorder=metrics)
    assert runner.credential() == ClusterCredential(token="t")
    spec = json.loads((tmp_path / "info").read_text())["spec"]
    assert spec == {"cluster": {"server": "https://x", "config": None}, "interactive": False}
    assert (metrics.calls, metrics.decisions) == ({(0, "no_error"): 1}, {"allowed": 1})


def test_the_cluster_is_told_only_if_asked_for(tmp_path: Path, metrics: CallMetrics) -> None:
    config = plugin(tmp_path, f'echo "$KUBERNETES_EXEC_INFO" >{tmp_path}/info && {SAY}')
    ExecRunner(config, ClusterInfo(server="x"), recorder=metrics).credential()
    assert json.loads((tmp_path / "info").read_text())["spec"] == {"interactive": False}


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("exit 3", PluginExitError),
        ("sleep 60", PluginTimeoutError),
        ("yes", PluginOutputError),
        ("echo no document", PluginProtocolError),
        ("", PluginProtocolError),
    ],
    ids=["exit", "time", "flood", "no document", "nothing"],
)
def test_what_a_plugin_says_is_part_of_its_error(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    metrics: CallMetrics,
    end: str,
    error: type[PluginError],
) -> None:
    """A plugin that may not prompt has no other reader: nothing reaches this process's standard error."""
    config = plugin(tmp_path, f"echo SSO session expired >&2; {end}")
    with pytest.raises(error) as caught:
        ExecRunner(config, recorder=metrics, limits=Limits(timeout_seconds=1, stdout_bytes=1000)).credential()
    assert caught.value.stderr_tail == "SSO session expired"
    assert str(caught.value).endswith("; stderr: SSO session expired")
    assert "SSO" not in caught.value.kubernetes_text
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("end", ["exit 3", "echo"], ids=["exit", "no document"])
@pytest.mark.parametrize("said", ['{"status": {"token": "kf-Opq4que"}}', "token: kf-Opq4que"])
def test_an_error_repeats_neither_settings_nor_output(
    tmp_path: Path, metrics: CallMetrics, said: str, end: str
) -> None:
    body = f"echo 'was given Zq7x and --pin=Ab3y, got kf-Opq4que' >&2; echo '{said}'; {end}"
    env = (ExecEnvVar(name="PIN", value="Zq7x"),)
    config = replace(plugin(tmp_path, body), args=("--token", "Ab3y"), env=env)
    with pytest.raises(PluginError) as caught:
        ExecRunner(config, recorder=metrics).credential()
    assert caught.value.stderr_tail == "was given ******** and --pin=********, got ********"


def test_what_a_plugin_says_beside_its_answer_is_logged(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    metrics: CallMetrics,
) -> None:
    """A warning, without the token of the answer; nothing is written but the log."""
    caplog.set_level("DEBUG", "keyferry.clusters")
    answer = ANSWER.replace('"t"', '"kf-Opq4que"')
    body = f"echo 'deprecated, use v2; kf-Opq4que' >&2; echo '{answer}'"
    assert ExecRunner(plugin(tmp_path, body), recorder=metrics).credential().token == "kf-Opq4que"
    assert "wrote on standard error: deprecated, use v2; ********" in caplog.text
    assert capfd.readouterr().err == ""


def test_a_plugin_that_may_prompt_writes_to_the_terminal_itself(tmp_path: Path, metrics: CallMetrics) -> None:
    """At once, while it runs: it may wait for the answer. What it wrote there is in no error."""
    config = replace(
        plugin(tmp_path, "echo the code: >&2; read code; exit 3"), interactive_mode="IfAvailable"
    )
    stdin, answer = os.pipe()
    shown, stderr = os.pipe()
    runner = ExecRunner(config, recorder=metrics, terminal=lambda: True, stdin_fd=stdin, stderr_fd=stderr)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(runner.credential)
        assert os.read(shown, 100) == b"the code:\n"
        os.write(answer, b"7\n")
        error = run.exception(20)
    for fd in (stdin, answer, shown, stderr):
        os.close(fd)
    assert isinstance(error, PluginExitError)
    assert error.stderr_tail == ""


@pytest.mark.parametrize(("body", "code"), [("exit 1", 1), ("exit 255", 255), ("kill -KILL $$", -1)])
def test_a_bad_end_is_counted_by_its_code(tmp_path: Path, metrics: CallMetrics, body: str, code: int) -> None:
    with pytest.raises(PluginExitError) as caught:
        ExecRunner(plugin(tmp_path, body), recorder=metrics).credential()
    assert caught.value.kubernetes_text == f"exec: executable {tmp_path}/plugin failed with exit code {code}"
    assert metrics.calls == {(code, "plugin_execution_error"): 1}


def test_the_deadline_ends_the_plugin_and_what_it_started(tmp_path: Path, metrics: CallMetrics) -> None:
    pids = tmp_path / "pids"
    body = f"echo $$ >{pids}; sleep 60 & echo $! >>{pids}; wait"
    started = time.monotonic()
    with pytest.raises(PluginTimeoutError, match=r"within 0\.5 s"):
        ExecRunner(plugin(tmp_path, body), recorder=metrics, limits=Limits(timeout_seconds=0.5)).credential()
    assert time.monotonic() - started < 10
    wait_until(lambda: not any(map(is_running, read_pids(pids, 2))))
    assert metrics.calls == {(-1, "plugin_execution_error"): 1}


def test_a_flood_is_cut_off(tmp_path: Path, metrics: CallMetrics) -> None:
    with pytest.raises(PluginOutputError, match="over 1000 bytes"):
        ExecRunner(
            plugin(tmp_path, "yes"), recorder=metrics, limits=Limits(timeout_seconds=20, stdout_bytes=1000)
        ).credential()


def test_yaml_that_takes_too_long_to_read_is_no_answer(
    tmp_path: Path, metrics: CallMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that a plugin has is for its answer to be read as well; here it is over when reading begins."""
    yaml = f'# YAML\n{ANSWER[:-1]}, "x": [{"1," * 100_000}1]}}'
    (tmp_path / "answer").write_text(yaml)
    config = plugin(tmp_path, f"cat {tmp_path}/answer")
    with monkeypatch.context() as late:
        late.setattr("keyferry._core.yaml.monotonic", lambda: time.monotonic() + 60)
        with pytest.raises(
            PluginOutputError, match="its answer cannot be parsed within its time limit of 60 s"
        ):
            ExecRunner(config, recorder=metrics, limits=Limits(timeout_seconds=60)).credential()
    assert ExecRunner(config, recorder=metrics).credential() == ClusterCredential(token="t")


def test_a_missing_plugin_comes_with_its_hint(metrics: CallMetrics) -> None:
    config = ExecConfig(
        command="no-such-plugin", api_version=API_VERSION, interactive_mode="Never", install_hint="get\x1b it"
    )
    runner = ExecRunner(config, recorder=metrics, hints=HintLimiter(most=1))
    with pytest.raises(PluginNotFoundError, match="to install it: get\ufffd it") as caught:
        runner.credential()
    assert caught.value.install_hint == "get\x1b it"
    with pytest.raises(PluginNotFoundError) as again:
        runner.credential()
    assert again.value.kubernetes_text == "exec: executable no-such-plugin not found"
    assert metrics.calls == {(1, "plugin_not_found_error"): 2}


@pytest.mark.parametrize(("hint", "end"), [("", ""), ("hint", "\n\nhint")])
def test_the_hint_follows_the_help(metrics: CallMetrics, hint: str, end: str) -> None:
    config = ExecConfig(
        command="no-such-plugin", api_version=API_VERSION, interactive_mode="Never", install_hint=hint
    )
    with pytest.raises(PluginNotFoundError) as caught:
        ExecRunner(config, recorder=metrics).credential()
    assert caught.value.kubernetes_text.startswith("exec: executable no-such-plugin not found\n\n")
    assert caught.value.kubernetes_text.endswith(f"#client-go-credential-plugins{end}")


def test_help_for_a_missing_plugin_is_given_ten_times_an_hour() -> None:
    clock = SteppedClock()
    limiter = HintLimiter(clock=clock)
    assert [limiter.take() for _ in range(12)] == [True] * 10 + [False] * 2
    clock.now_ns += 3600 * 10**9 - 1
    assert not limiter.take()
    clock.now_ns += 1
    assert [limiter.take() for _ in range(11)] == [True] * 10 + [False]


def test_the_hour_begins_with_the_first_time() -> None:
    clock = SteppedClock()
    limiter = HintLimiter(most=1, clock=clock)
    clock.step(5000)
    assert limiter.take()
    clock.step(3599)
    assert not limiter.take()
    clock.step(1)
    assert limiter.take()


def test_the_path_of_this_process_counts_not_a_configured_one(
    tmp_path: Path, metrics: CallMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(plugin(tmp_path, f'[ "$PATH" = /elsewhere ] && {SAY}'), command="./plugin")
    config = replace(config, env=(ExecEnvVar(name="PATH", value="/elsewhere"),))
    with pytest.raises(PluginNotFoundError):
        ExecRunner(config, recorder=metrics).credential()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ExecRunner(config, recorder=metrics).credential().token == "t"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux limits one variable")
def test_too_much_for_one_variable_is_said_before_it_is_tried(tmp_path: Path, metrics: CallMetrics) -> None:
    cluster = ClusterInfo(certificate_authority_data=b"x" * 4_000_000)
    config = replace(plugin(tmp_path, SAY), provide_cluster_info=True)
    with pytest.raises(PluginStartError, match="provideClusterInfo") as caught:
        ExecRunner(config, cluster, recorder=metrics).credential()
    text = f"exec: fork/exec {tmp_path}/plugin: argument list too long"
    assert caught.value.kubernetes_text == text
    assert metrics.calls == {(1, "plugin_not_found_error"): 1}


def test_a_nul_in_a_variable_is_an_internal_error(tmp_path: Path, metrics: CallMetrics) -> None:
    config = replace(plugin(tmp_path, SAY), env=(ExecEnvVar(name="A", value="hid\0den"),))
    with pytest.raises(PluginStartError) as caught:
        ExecRunner(config, recorder=metrics).credential()
    assert caught.value.kubernetes_text == "exec: exec: environment variable contains NUL"
    assert metrics.calls == {(1, "client_internal_error"): 1}


def test_a_nul_in_an_argument_is_gos_invalid_argument(tmp_path: Path, metrics: CallMetrics) -> None:
    with pytest.raises(PluginStartError) as caught:
        ExecRunner(replace(plugin(tmp_path, SAY), args=("a\0b",)), recorder=metrics).credential()
    assert caught.value.kubernetes_text == f"exec: fork/exec {tmp_path}/plugin: invalid argument"


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        ("gone/tool", "gone/tool: no such file or directory"),
        ("./gone/../gone/tool", "gone/tool: no such file or directory"),
        ("plain/tool", "plain/tool: not a directory"),
        ("../here/gone/tool", "../here/gone/tool: no such file or directory"),
    ],
)
def test_a_relative_command_through_a_missing_folder_is_gos_fork_exec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metrics: CallMetrics, command: str, failure: str
) -> None:
    """A command with a slash is not searched for, so neither help nor hint is shown, and the path is cleaned."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "plain").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    config = ExecConfig(
        command=command, api_version=API_VERSION, interactive_mode="Never", install_hint="a hint"
    )
    with pytest.raises(PluginError) as caught:
        ExecRunner(config, recorder=metrics).credential()
    assert caught.value.kubernetes_text == f"exec: fork/exec {failure}"


def test_what_cannot_be_run_is_known_at_once(tmp_path: Path) -> None:
    config = plugin(tmp_path, SAY)
    with pytest.raises(ConfigError, match=r"exec\.apiVersion"):
        ExecRunner(replace(config, api_version="v1"))
    with pytest.raises(PolicyError) as caught:
        ExecRunner(config, policy=PluginPolicy(policy_type="x"))
    assert caught.value.kubernetes_text == 'invalid plugin policy: unknown plugin policy: "x"'


def test_the_traceback_of_a_bad_answer_holds_none_of_it(tmp_path: Path, metrics: CallMetrics) -> None:
    import traceback

    with pytest.raises(PluginProtocolError) as caught:
        ExecRunner(plugin(tmp_path, "echo '{\"apiVersion\": \"'mar'ked\"'"), recorder=metrics).credential()
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "marked" not in shown.replace(str(tmp_path), "")


# Digests


@pytest.mark.skipif(sys.platform != "linux", reason="runs an open file through /proc")
def test_a_pinned_plugin_runs_only_as_it_was(tmp_path: Path, metrics: CallMetrics) -> None:
    config = plugin(tmp_path, f'[ "$1" = a ] && {SAY}')
    digest = hashlib.sha256(Path(config.command).read_bytes()).hexdigest()
    policy = PluginPolicy(
        policy_type="Allowlist", allowlist=(AllowlistEntry(command=config.command, sha256=digest),)
    )
    runner = ExecRunner(replace(config, args=("a",)), policy=policy, recorder=metrics)
    before = len(os.listdir("/proc/self/fd"))
    assert runner.credential() == ClusterCredential(token="t")
    plugin(tmp_path, f"touch {tmp_path}/ran; {SAY}")
    with pytest.raises(PolicyError, match="which is not in the allowlist for it"):
        runner.credential()
    assert not (tmp_path / "ran").exists()
    Path(config.command).unlink()
    with pytest.raises(PluginNotFoundError):
        runner.credential()
    assert len(os.listdir("/proc/self/fd")) == before
    assert metrics.decisions == {"allowed": 2, "denied": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="runs an open file through /proc")
def test_a_pinned_plugin_inherits_nothing_else(tmp_path: Path, metrics: CallMetrics) -> None:
    listing = tmp_path / "listing"
    config = plugin(tmp_path, f"ls /proc/self/fd >{listing} && {SAY}")
    digest = hashlib.sha256(Path(config.command).read_bytes()).hexdigest()
    reading, writing = os.pipe()
    try:
        os.set_inheritable(reading, True)
        policy = PluginPolicy(
            policy_type="Allowlist", allowlist=(AllowlistEntry(command=config.command, sha256=digest),)
        )
        ExecRunner(config, policy=policy, recorder=metrics).credential()
        pinned = listing.read_text().split()
        ExecRunner(config, recorder=metrics).credential()
        plain = listing.read_text().split()
    finally:
        os.close(reading)
        os.close(writing)
    # The folder that ls reads, and of a pinned one its own file.
    assert plain == ["0", "1", "2", "3"]
    assert len(pinned) == 5
    assert set(pinned) > set(plain)


# Interactive


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal: the user's, and the program's."""
    import pty

    user, program = pty.openpty()
    yield user, program
    os.close(user)
    os.close(program)


def test_an_interactive_plugin_reads_from_the_terminal(
    tmp_path: Path, metrics: CallMetrics, terminal: tuple[int, int]
) -> None:
    user, program = terminal
    config = replace(
        plugin(tmp_path, f'read -r word; [ -t 0 ] && [ "$word" = yes ] && {SAY}'), interactive_mode="Always"
    )
    os.write(user, b"yes\n")
    runner = ExecRunner(config, recorder=metrics, terminal=lambda: os.isatty(program), stdin_fd=program)
    assert runner.credential() == ClusterCredential(token="t")


def test_an_interactive_plugin_has_no_deadline_and_our_session(
    tmp_path: Path, metrics: CallMetrics, terminal: tuple[int, int]
) -> None:
    say_session = f"{sys.executable} -c 'import os; print(os.getsid(0))' >{tmp_path}/session"
    config = replace(plugin(tmp_path, f"sleep 0.5; {say_session}; {SAY}"), interactive_mode="IfAvailable")
    runner = ExecRunner(
        config,
        recorder=metrics,
        terminal=lambda: True,
        stdin_fd=terminal[1],
        limits=Limits(timeout_seconds=0.1),
    )
    assert runner.credential() == ClusterCredential(token="t")
    assert int((tmp_path / "session").read_text()) == os.getsid(0)


def test_an_interactive_plugin_may_print_no_more_than_another(
    tmp_path: Path, metrics: CallMetrics, terminal: tuple[int, int]
) -> None:
    """It has all the time in the world, and the same limit."""
    for size in (1000, 1001):
        # A response, and blanks up to the size.
        config = replace(plugin(tmp_path, f'printf "%-{size}s" "$({SAY})"'), interactive_mode="Always")
        limits = Limits(timeout_seconds=20, stdout_bytes=1000)
        runner = ExecRunner(
            config, recorder=metrics, terminal=lambda: True, stdin_fd=terminal[1], limits=limits
        )
        if size == limits.stdout_bytes:
            assert runner.credential() == ClusterCredential(token="t")
        else:
            with pytest.raises(PluginOutputError, match="over 1000 bytes"):
                runner.credential()


def test_an_interrupt_ends_an_interactive_plugin_alone(
    tmp_path: Path, metrics: CallMetrics, terminal: tuple[int, int]
) -> None:
    """It shares our process group, which must not be killed."""
    pids = tmp_path / "pids"
    config = replace(plugin(tmp_path, f"echo $$ >{pids}; exec sleep 60"), interactive_mode="Always")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            ExecRunner(config, recorder=metrics, terminal=lambda: True, stdin_fd=terminal[1]).credential()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not any(map(is_running, read_pids(pids, 1)))


def test_a_plugin_that_must_ask_and_cannot_is_not_run(tmp_path: Path, metrics: CallMetrics) -> None:
    config = replace(plugin(tmp_path, f"touch {tmp_path}/ran"), interactive_mode="Always")
    with pytest.raises(PluginStartError, match="not a terminal") as caught:
        ExecRunner(config, recorder=metrics, terminal=lambda: False).credential()
    assert caught.value.kubernetes_text == (
        "exec plugin cannot support interactive mode: standard input is not a terminal"
    )
    assert not (tmp_path / "ran").exists()
    assert (metrics.calls, metrics.decisions) == ({}, {})
