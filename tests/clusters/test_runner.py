"""A plugin is run as client-go runs it: environment, input, time and outcome."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keyferry._core.values import replace
from keyferry.api.clientauthentication import v1
from keyferry.api.clientauthentication.v1 import (
    API_VERSION,
    ClusterInfo,
    ExecCredentialStatus,
    encode_exec_info,
)
from keyferry.api.kubeconfig.v1 import ExecConfig, ExecEnvVar
from keyferry.clusters.auth import plugin_environment
from keyferry.clusters.auth.call_metrics import CallMetrics
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.plugin_environment import (
    check_size,
    merge_entries,
    plugin_entries,
    process_entries,
    to_mapping,
)
from keyferry.clusters.auth.runner import ExecRunner, HintLimiter
from keyferry.clusters.exec_info import load_exec_info, read_exec_info
from keyferry.errors import (
    ConfigError,
    EnvironmentProblem,
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
from keyferry.invoke.run import Limits, run
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
    limits = Limits(timeout_seconds=1 if error is PluginTimeoutError else 60, stdout_bytes=1000)
    with pytest.raises(error) as caught:
        ExecRunner(config, recorder=metrics, limits=limits).credential()
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
    yaml = f'# YAML\n{ANSWER[:-1]}, "x": [{"1," * 20_000}1]}}'
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
    config = replace(plugin(tmp_path, f"sleep 0.2; {say_session}; {SAY}"), interactive_mode="IfAvailable")
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

    def press() -> None:
        read_pids(pids, 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    user = threading.Thread(target=press)
    user.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ExecRunner(config, recorder=metrics, terminal=lambda: True, stdin_fd=terminal[1]).credential()
    finally:
        user.join()
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


@pytest.mark.parametrize(
    ("entries", "merged"),
    [
        ([], []),
        ([b"A=1", b"B=2", b"A=3"], [b"B=2", b"A=3"]),
        ([b"A=1", b"A=1"], [b"A=1"]),
        ([b"A=", b"a="], [b"A=", b"a="]),
        ([b"A=b=c", b"A=d"], [b"A=d"]),
        ([b"=x", b"=y"], [b"=y"]),
        ([b"=C:=1", b"=D:=2", b"=C:=3"], [b"=D:=2", b"=C:=3"]),
        ([b"bare", b"A=1"], [b"bare", b"A=1"]),
        ([b"A", b"A=1", b"A", b"A=2"], [b"A", b"A", b"A=2"]),
        ([b"", b"A=1", b""], [b"A=1"]),
    ],
)
def test_the_last_of_equal_names_stays_in_its_place(entries: list[bytes], merged: list[bytes]) -> None:
    assert list(merge_entries(entries)) == merged


def test_nothing_can_replace_what_is_told_of_the_cluster() -> None:
    env = [("A", "$B"), ("KUBERNETES_EXEC_INFO", "config"), ("N=ME", "v"), ("é", "\udcff")]
    entries = plugin_entries([b"KUBERNETES_EXEC_INFO=outer", b"A=1"], env, "told\n")
    assert merge_entries(entries) == (
        b"A=$B",
        b"N=ME=v",
        b"\xc3\xa9=\xff",
        b"KUBERNETES_EXEC_INFO=told\n",
    )


def test_lone_surrogates_do_no_harm() -> None:
    assert plugin_entries([], [("A", "\ud800")], "")[0] == b"A=?"


def test_a_nul_is_refused_without_its_variable() -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        merge_entries([b"SECRET=a\0b"])
    assert caught.value.kubernetes_text == "exec: environment variable contains NUL"
    assert "SECRET" not in str(caught.value)


def test_a_mapping_keeps_the_order_and_drops_what_has_no_name() -> None:
    assert list(to_mapping([b"B=1", b"=x", b"bare", b"A=2=3", b"=C:=4"]).items()) == [
        (b"B", b"1"),
        (b"bare", b""),
        (b"A", b"2=3"),
        (b"=C:", b"4"),
    ]


ENTRIES = [b"A", b"A=1", b"A", b"B=2=3", b"=C:=4"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such entries")
@pytest.mark.parametrize("terminal", [None, (0, 2)], ids=["by itself", "at the terminal"])
def test_entries_of_any_form_reach_a_program_as_they_are(terminal: tuple[int, int] | None) -> None:
    """Without a value, each of them beside a variable of the same spelling; with a name that begins with '='."""
    done = run(("/usr/bin/env", "-0"), environ=to_mapping(ENTRIES), terminal=terminal)
    assert done.stdout.removesuffix(b"\0").split(b"\0") == ENTRIES


def test_this_processs_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYFERRY_TEST", "x")
    assert b"KEYFERRY_TEST=x" in process_entries()


@pytest.mark.skipif(plugin_environment._limit() is None, reason="Linux limits one variable")
def test_the_limit_of_the_system_is_known_beforehand() -> None:
    """The largest variable that passes is one that the kernel takes as well."""
    limit = plugin_environment._limit() or 0
    fits = "x" * (limit - len("KUBERNETES_EXEC_INFO=") - 1)
    check_size(fits)
    pid = os.posix_spawn("/bin/true", ["true"], {"KUBERNETES_EXEC_INFO": fits})
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with pytest.raises(EnvironmentProblem, match="certificate-authority-data") as caught:
        check_size(fits + "x")
    assert caught.value.kubernetes_text == "argument list too long"
    with pytest.raises(OSError, match="Argument list too long"):
        os.posix_spawn("/bin/true", ["true"], {"KUBERNETES_EXEC_INFO": fits + "x"})


def told(**cluster: str) -> dict[str, str]:
    text = encode_exec_info(v1.API_VERSION, ClusterInfo(**cluster), interactive=True)  # type: ignore[arg-type] # text alone
    return {"KUBERNETES_EXEC_INFO": text}


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(EnvironmentProblem) as caught:
        load_exec_info(environ)
    assert caught.value.__context__ is None
    return caught.value.kubernetes_text


def test_what_is_told_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = told(server="https://x", proxy_url="http://p", config='{"a":1}')
    info = load_exec_info(environ)
    assert (info.api_version, info.interactive, info.config) == (v1.API_VERSION, True, '{"a":1}')
    assert info.cluster == ClusterInfo(server="https://x", proxy_url="http://p", config='{"a":1}')
    monkeypatch.setenv("KUBERNETES_EXEC_INFO", environ["KUBERNETES_EXEC_INFO"])
    assert load_exec_info() == info


def test_a_status_is_kept_and_not_shown() -> None:
    """As client-go's own helper keeps it; its token is as secret as any."""
    status = (
        '"status":{"token":"s3cret","clientKeyData":"k3y","expirationTimestamp":"2026-01-01T00:00:00.5Z"}'
    )
    text = told(server="https://x")["KUBERNETES_EXEC_INFO"].rstrip()[:-1]
    info = read_exec_info(f"{text},{status}}}".encode())
    assert info.status == ExecCredentialStatus(
        token="s3cret",
        client_certificate_data="",
        client_key_data="k3y",
        expiration_ns=1_767_225_600_500_000_000,
    )
    assert "s3cret" not in repr(info)
    assert "k3y" not in repr(info)
    assert load_exec_info(told(server="https://x")).status is None


def test_without_the_variable_it_says_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_EXEC_INFO", raising=False)
    with pytest.raises(
        EnvironmentProblem, match="expected a Kubernetes client to run this plugin and set it"
    ):
        load_exec_info()


def test_without_a_cluster_it_says_what_to_set() -> None:
    text = encode_exec_info(v1.API_VERSION, None, interactive=False)
    with pytest.raises(EnvironmentProblem, match="provideClusterInfo: true"):
        read_exec_info(text.encode())


def test_another_kind_is_named() -> None:
    text = '{"kind":"Status","apiVersion":"v1"}'
    expected = "invalid group/kind: wanted ExecCredential.client.authentication.k8s.io, got Status"
    assert refusal({"KUBERNETES_EXEC_INFO": text}) == expected


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        ("::", "missing protocol scheme"),
        ("a\nb", "net/url: invalid control character in URL"),
        ("1:2", "first path segment in URL cannot contain colon"),
        ("http://[::1", "missing ']' in host"),
        ("http://a[::1]", "invalid IP-literal"),
        ("http://[::1]x", 'invalid port "x" after host'),
        ("http://h:p", 'invalid port ":p" after host'),
        ("http://a b", 'invalid character " " in host name'),
        ("http://a%41", 'invalid URL escape "%41"'),
        ("http://u<@h", "net/url: invalid userinfo"),
        ("http://u%zz@h", 'invalid URL escape "%zz"'),
        ("http://h/%zz", 'invalid URL escape "%zz"'),
        ("http://h#%zz", 'invalid URL escape "%zz"'),
    ],
)
def test_a_proxy_that_is_no_url_is_refused_in_gos_words(proxy: str, reason: str) -> None:
    text = refusal(told(proxy_url=proxy))
    assert text.startswith("cannot create rest.Config: cannot parse proxy URL: parse ")
    assert text.endswith(f": {reason}")


def test_a_proxys_password_is_not_shown() -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        load_exec_info(told(proxy_url="http://user:hidden@h:p"))
    assert "hidden" not in str(caught.value)


def test_a_proxy_is_spelt_as_go_spells_it() -> None:
    assert load_exec_info(told(proxy_url="HTTP://h/a b")).cluster.proxy_url == "http://h/a%20b"


def test_a_plugin_gets_a_session_for_the_cluster_it_was_run_for() -> None:
    """The session knows the server and how to trust it, and carries no credential."""
    cluster = '{"server":"https://k:6443","tls-server-name":"sni","certificate-authority-data":"Q0E=","config":null}'
    kind = '"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"'
    text = f'{{{kind},"spec":{{"cluster":{cluster},"interactive":false}}}}'
    session = load_exec_info({"KUBERNETES_EXEC_INFO": text}).session()
    assert (session.server, session.config.tls_server_name, session.config.ca_data) == (
        "https://k:6443",
        "sni",
        b"CA",
    )
    assert session.grant().headers == ()
