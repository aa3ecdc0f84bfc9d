"""A plugin is run as client-go runs it: what it is given, its time and its outcome."""

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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from keyferry import (
    AllowlistEntry,
    ClusterAuthError,
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    PluginOutputError,
    PluginPolicy,
    PluginProtocolError,
    PluginStartError,
    PluginTimeoutError,
    load_cluster,
)
from keyferry.api.clientauthentication.v1 import ClusterInfo
from keyferry.api.kubeconfig.v1 import ExecConfig, ExecEnvVar
from keyferry.clusters.auth.call_metrics import CallMetrics
from keyferry.clusters.auth.plugin_environment import to_mapping
from keyferry.clusters.auth.runner import ExecRunner
from keyferry.invoke.run import Limits, run
from support.kube import API_VERSION, Kube, credential
from support.kube_commands import exec_section
from support.plugins import is_running, read_pids, write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

SAY = f"printf %s {shlex.quote(credential('t'))}"
ALLOW = PluginPolicy()


@pytest.fixture
def kube(tmp_path: Path) -> Kube:
    """A kubeconfig for no server; what its plugin does is each test's own."""
    return Kube(tmp_path)


def token(
    kube: Kube,
    body: str,
    fields: Mapping[str, object] | None = None,
    *,
    policy: PluginPolicy = ALLOW,
    seconds: float = 60,
) -> str:
    """Return the token that a plugin gives, a shell script with some fields of the exec section."""
    section = exec_section(kube, **fields or {})
    write_executable(kube.folder / "plugin", f"#!/bin/sh\n{body}\n")
    kube.write("https://k", user=section)
    session = load_cluster(kubeconfig=kube.path, policy=policy, timeout_seconds=seconds)
    return dict(session.grant().headers)["Authorization"].removeprefix("Bearer ")


def failure(
    kube: Kube, body: str, fields: Mapping[str, object] | None = None, *, seconds: float = 60
) -> PluginError:
    """Return what is behind the error of a plugin that fails."""
    with pytest.raises(ClusterAuthError) as caught:
        token(kube, body, fields, seconds=seconds)
    assert isinstance(caught.value.underlying, PluginError)
    return caught.value.underlying


def test_a_plugin_is_told_and_answers(kube: Kube) -> None:
    """Arguments and variables reach it; its input is empty."""
    body = f'[ "$#$1$X" = "1a by" ] && [ -z "$(cat)" ] && {SAY}'
    assert token(kube, body, {"args": ["a b"], "env": [{"name": "X", "value": "y"}]}) == "t"


@pytest.mark.parametrize(
    ("is_asked", "told"), [(False, {}), (True, {"cluster": {"server": "https://k", "config": None}})]
)
def test_the_cluster_is_told_only_if_asked_for(kube: Kube, is_asked: bool, told: dict[str, object]) -> None:
    info = kube.folder / "info"
    token(kube, f'echo "$KUBERNETES_EXEC_INFO" >{info}; {SAY}', {"provideClusterInfo": is_asked})
    assert json.loads(info.read_text())["spec"] == {**told, "interactive": False}


def test_an_error_does_not_repeat_settings(kube: Kube) -> None:
    settings = {"args": ["--token", "Ab3y"], "env": [{"name": "PIN", "value": "Zq7x"}]}
    found = failure(kube, "echo 'was given Zq7x and --pin=Ab3y' >&2; exit 3", settings)
    assert found.stderr_tail == "was given ******** and --pin=********"


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
    kube: Kube, capfd: pytest.CaptureFixture[str], end: str, error: type[PluginError]
) -> None:
    """A plugin that may not prompt has no other reader: nothing reaches this process's standard error."""
    # On a busy machine a shell may need longer to begin.
    for seconds in (0.5, 5, 20) if error is PluginTimeoutError else (60,):
        found = failure(kube, f"echo SSO session expired >&2; {end}", seconds=seconds)
        if found.stderr_tail:
            break
    assert isinstance(found, error)
    assert found.stderr_tail == "SSO session expired"
    assert str(found).endswith("; stderr: SSO session expired")
    assert "SSO" not in found.kubernetes_text
    assert str(pickle.loads(pickle.dumps(found))) == str(found)  # our own bytes
    assert capfd.readouterr().err == ""


def test_what_a_plugin_says_beside_its_answer_is_logged(
    kube: Kube, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A warning, without the token of the answer; nothing is written but the log."""
    caplog.set_level("DEBUG", "keyferry.clusters")
    answer = shlex.quote(credential("kf-Opq4que"))
    body = f"echo 'deprecated, use v2; kf-Opq4que' >&2; printf %s {answer}"
    assert token(kube, body) == "kf-Opq4que"
    assert "wrote on standard error: deprecated, use v2; ********" in caplog.text
    assert capfd.readouterr().err == ""


def test_yaml_that_takes_too_long_to_read_is_no_answer(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a plugin has is for its answer to be read as well; here it is over when reading begins."""
    (kube.folder / "yaml").write_text(f'# YAML\n{credential("t")[:-1]}, "x": [{"1," * 20_000}1]}}')
    body = f"cat {kube.folder}/yaml"
    with monkeypatch.context() as late:
        late.setattr("keyferry._core.yaml.monotonic", lambda: time.monotonic() + 60)
        found = failure(kube, body)
    assert isinstance(found, PluginOutputError)
    assert "its answer cannot be parsed within its time limit of 60 s" in str(found)
    assert token(kube, body) == "t"


def test_a_missing_plugin_comes_with_its_hint(kube: Kube) -> None:
    found = failure(kube, "", {"command": "no-such-plugin", "installHint": "get\r\n it"})
    assert isinstance(found, PluginNotFoundError)
    assert "to install it: get it" in str(found)
    assert found.install_hint == "get\r\n it"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"env": [{"name": "A", "value": "hid\0den"}]},
            "exec: exec: environment variable contains NUL",
        ),
        ({"args": ["hid\0den"]}, "exec: fork/exec {plugin}: invalid argument"),
    ],
    ids=["variable", "argument"],
)
def test_a_nul_is_an_error_that_does_not_quote_it(kube: Kube, fields: dict[str, object], text: str) -> None:
    found = failure(kube, SAY, fields)
    assert isinstance(found, PluginStartError)
    assert found.kubernetes_text == text.format(plugin=kube.folder / "plugin")
    assert "hid" not in str(found)


@pytest.mark.parametrize(
    ("value", "authority", "status"),
    [
        pytest.param("\0", b"", "client_internal_error", id="a NUL"),
        pytest.param(
            "",
            b"x" * (1 << 20),
            "plugin_not_found_error",
            id="too much",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux limits one variable"),
        ),
    ],
)
def test_what_cannot_be_given_to_a_plugin_is_counted_as_client_go_counts_it(
    value: str, authority: bytes, status: str
) -> None:
    metrics = CallMetrics()
    config = ExecConfig(
        command="/bin/true",
        api_version=API_VERSION,
        interactive_mode="Never",
        provide_cluster_info=True,
        env=(ExecEnvVar(name="A", value=value),),
    )
    cluster = ClusterInfo(certificate_authority_data=authority)
    with pytest.raises(PluginStartError):
        ExecRunner(config, cluster, recorder=metrics).credential()
    assert metrics.calls == {(1, status): 1}


@pytest.mark.skipif(sys.platform != "linux", reason="runs an open file through /proc")
def test_a_pinned_plugin_inherits_nothing_else(kube: Kube) -> None:
    listing = kube.folder / "listing"
    body = f"ls /proc/self/fd >{listing} && {SAY}"
    token(kube, body)
    plain = listing.read_text().split()
    plugin = kube.folder / "plugin"
    digest = hashlib.sha256(plugin.read_bytes()).hexdigest()
    pinned = PluginPolicy(
        policy_type="Allowlist", allowlist=(AllowlistEntry(command=str(plugin), sha256=digest),)
    )
    reading, writing = os.pipe()
    try:
        os.set_inheritable(reading, True)
        token(kube, body, policy=pinned)
    finally:
        os.close(reading)
        os.close(writing)
    # The folder that ls reads, and of a pinned one its own file.
    assert plain == ["0", "1", "2", "3"]
    assert len(listing.read_text().split()) == 5
    assert set(listing.read_text().split()) > set(plain)
    plugin.unlink()
    with pytest.raises(ClusterAuthError) as caught:
        load_cluster(kubeconfig=kube.path, policy=pinned).grant()
    assert isinstance(caught.value.underlying, PluginNotFoundError)


ENTRIES = [b"A", b"A=1", b"A", b"B=2=3", b"=C:=4"]


@pytest.mark.parametrize("terminal", [None, (0, 2)], ids=["by itself", "at the terminal"])
def test_entries_of_any_form_reach_a_program_as_they_are(terminal: tuple[int, int] | None) -> None:
    """Without a value, each of them beside a variable of the same spelling; with a name that begins with '='."""
    done = run(("/usr/bin/env", "-0"), environ=to_mapping(ENTRIES), terminal=terminal)
    assert done.stdout.removesuffix(b"\0").split(b"\0") == ENTRIES


# At a terminal


Interactive = Callable[..., ExecRunner]


@pytest.fixture
def interactive(tmp_path: Path) -> Iterator[Interactive]:
    """Makes a runner of a plugin that may prompt, on a terminal of the test's own."""
    import pty

    user, program = pty.openpty()

    def make(body: str, **limits: float) -> ExecRunner:
        path = write_executable(tmp_path / "plugin", f"#!/bin/sh\n{body}\n")
        config = ExecConfig(command=str(path), api_version=API_VERSION, interactive_mode="Always")
        return ExecRunner(
            config,
            recorder=CallMetrics(),
            terminal=lambda: os.isatty(program),
            stdin_fd=program,
            limits=Limits(**limits),  # type: ignore[arg-type] # by name
        )

    yield make
    os.close(user)
    os.close(program)


def test_an_interactive_plugin_has_no_deadline_and_our_session(
    tmp_path: Path, interactive: Interactive
) -> None:
    say_session = f"{sys.executable} -c 'import os; print(os.getsid(0))' >{tmp_path}/session"
    runner = interactive(f"[ -t 0 ] && sleep 0.2; {say_session}; {SAY}", timeout_seconds=0.1)
    assert runner.credential().token == "t"
    assert int((tmp_path / "session").read_text()) == os.getsid(0)


def test_an_interactive_plugin_may_print_no_more_than_another(interactive: Interactive) -> None:
    """It has all the time in the world, and the same limit."""
    # A response, and blanks up to the size.
    assert interactive(f'printf "%-1000s" "$({SAY})"', stdout_bytes=1000).credential().token == "t"
    with pytest.raises(PluginOutputError, match="over 1000 bytes"):
        interactive(f'printf "%-1001s" "$({SAY})"', stdout_bytes=1000).credential()


def test_an_interrupt_ends_an_interactive_plugin_alone(tmp_path: Path, interactive: Interactive) -> None:
    """It shares our process group, which must not be killed."""
    pids = tmp_path / "pids"

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
            interactive(f"echo $$ >{pids}; exec sleep 60").credential()
    finally:
        user.join()
        signal.signal(signal.SIGALRM, before)
    assert not any(map(is_running, read_pids(pids, 1)))
