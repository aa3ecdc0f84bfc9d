"""Runs of a plugin in the kit's laboratory: the launch, the experiments, and secrets in what is recorded."""

from __future__ import annotations

import base64
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry.invoke.run import Ending, Limits
from keyferry.kit.lab.experiments import (
    Experiment,
    Surroundings,
    environment,
    repeat_command,
    repeat_variables,
)
from keyferry.kit.lab.launch import Launch, Run, launch
from keyferry.kit.lab.requests import isolation, plan
from keyferry.kit.lab.secrets import Secrets, describe, expiry_of, secrets_in, shown_key
from keyferry.kit.plugin import PluginKind, PluginUnderTest
from support.kit_plugins import jwt
from support.parts import lacking
from support.plugins import PATIENCE_SECONDS, is_running, wait_until, write_executable

ENVIRON = {"PATH": os.environ["PATH"]}
LIMITS = Limits(timeout_seconds=PATIENCE_SECONDS)


def shell(script: str, stdin: bytes | None = b"", **fields: object) -> Run:
    """Run a shell script under watch."""
    fields = {"limits": LIMITS, **fields}
    return launch(Launch(argv=("/bin/sh", "-c", script), environ=ENVIRON, stdin=stdin, **fields))  # type: ignore[arg-type] # by name


def test_input_and_output_and_status_go_through() -> None:
    """A run gets its input and gives its output, errors and status."""
    run = shell("cat; echo oops >&2; exit 3", b"x" * 200_000)
    assert (run.outcome.status, run.outcome.stderr) == (3, b"oops\n")
    assert run.outcome.stdout == b"x" * 200_000
    assert run.left_behind == ()


def test_time_and_floods_are_bounded() -> None:
    """What does not end, or does not stop to write, is killed."""
    late = shell("sleep 60", limits=Limits(timeout_seconds=0.2))
    assert late.outcome.ending is Ending.TIMED_OUT
    assert (
        shell("yes", limits=Limits(timeout_seconds=PATIENCE_SECONDS, stdout_bytes=100_000)).outcome.ending
        is Ending.STDOUT_LIMIT
    )
    loud = Limits(timeout_seconds=PATIENCE_SECONDS, stderr_drained_bytes=100_000)
    assert shell("yes >&2", limits=loud).outcome.ending is Ending.STDERR_LIMIT


def test_no_input_is_an_empty_device() -> None:
    """A cluster plugin that reads finds nothing, and does not wait."""
    assert shell("cat; readlink /proc/self/fd/0", None).outcome.stdout == b"/dev/null\n"


@pytest.mark.parametrize(("script", "read"), [("true", False), ("read -r line", True), ("cat", True)])
def test_reading_watched_input_is_noticed(script: str, *, read: bool) -> None:
    """It can be told afterwards whether anybody read it."""
    assert shell(script, b"x\n", is_input_watched=True).was_input_read is read


def test_the_working_directory_can_be_chosen() -> None:
    """And the program is still found and run there."""
    assert shell("pwd", cwd="/").outcome.stdout == b"/\n"


def test_without_a_reader_a_write_fails() -> None:
    """The program is told, as by any closed pipe: by a signal, or by an error where it ignores that."""
    script = "trap '' PIPE; for i in 1 2 3; do sleep 0.1; echo hello || exit 42; done"
    assert shell(script, has_reader=False).outcome.status == 42
    heard = shell(script).outcome
    assert (heard.status, heard.stdout) == (0, b"hello\n" * 3)


def test_command_lines_are_seen_below_the_program(tmp_path: Path) -> None:
    """The arguments of a child are noted while it runs."""
    stop = tmp_path / "stop"
    run = shell(f"sh -c 'sleep 0.5; : >{stop}' sh --password marked-secret; true", is_sampled=True)
    assert any(b"marked-secret" in line for line in run.command_lines)
    assert not shell("sh -c 'sleep 0.1' sh marked-secret; true").command_lines


def test_the_command_line_of_a_program_that_ends_at_once_is_seen() -> None:
    """It waits for its input, which it gets after that."""
    for _ in range(20):
        run = shell("read -r line; exit 0", b"x\n", is_sampled=True)
        assert b"/bin/sh\0-c\0read -r line; exit 0\0" in run.command_lines


def test_a_child_that_holds_the_output_does_not_hold_us(tmp_path: Path) -> None:
    """It is noted and ended, long before its own end."""
    pid_file = tmp_path / "pid"
    run = shell(f"sleep 300 & echo $! >{pid_file}; echo done")
    assert run.held_output
    assert run.outcome.stdout == b"done\n"
    assert [process.name for process in run.left_behind or ()] == ["sleep"]
    pid = int(pid_file.read_text())
    wait_until(lambda: not is_running(pid), "the end of the child")


def test_a_child_that_ends_by_itself_is_nothing_left_behind() -> None:
    """The last of a pipeline may end a moment after its shell."""
    assert shell("(sleep 0.1) </dev/null >/dev/null 2>&1 & true").left_behind == ()


def test_memory_is_measured() -> None:
    """What a program holds beyond our own size is seen."""
    import resource

    # More than the tests themselves have ever had: a new process begins with the mark of its parent.
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 100 * 1024 * 1024
    script = f"data = b'x' * {size}; print(len(data))"
    run = launch(
        Launch(argv=(sys.executable, "-IS", "-c", script), environ=ENVIRON, stdin=b"", limits=LIMITS)
    )
    assert run.outcome.stdout == b"%d\n" % size
    assert (run.peak_bytes or 0) >= size


def test_a_program_that_is_not_there_raises() -> None:
    """As with every other way to start one."""
    with pytest.raises(FileNotFoundError):
        launch(Launch(argv=("/nonexistent",), environ=ENVIRON))


def test_no_descriptor_is_left_open() -> None:
    """However a run ends, its pipes are closed."""
    shell("true")
    gc.collect()  # what other tests have left behind is not closed in between
    before = len(os.listdir("/proc/self/fd"))
    for script in ("true", "cat", "exit 1", "sleep 60"):
        shell(script, limits=Limits(timeout_seconds=0.1))
        shell(script, b"x\n", is_input_watched=True, limits=Limits(timeout_seconds=0.1))
        shell(script, None, has_reader=False, limits=Limits(timeout_seconds=0.1))
    with pytest.raises(FileNotFoundError):
        launch(Launch(argv=("/nonexistent",), environ=ENVIRON))
    assert len(os.listdir("/proc/self/fd")) == before


RECORDER = """\
#!/bin/sh
cat >"$0.stdin"
printf '%s' "$KUBERNETES_EXEC_INFO" >"$0.info"
"""


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_the_command_that_is_shown_repeats_the_experiment(kind: PluginKind, tmp_path: Path) -> None:
    """What a shell feeds the plugin is byte for byte what the kit did."""
    executable = write_executable(tmp_path / "plugin", RECORDER)
    plugin = PluginUnderTest(path=str(executable), kind=kind, images=("registry.example/team/app",))
    compared = 0
    for experiment in plan(plugin, "/nowhere/canary"):
        if "huge exec info" in experiment.name:
            continue
        subprocess.run(
            ["sh", "-c", repeat_command(plugin, experiment)], check=True, stderr=subprocess.DEVNULL
        )
        fed = Path(f"{executable}.stdin").read_bytes()
        assert fed == (experiment.stdin or b""), experiment.name
        if kind == PluginKind.CLUSTER and experiment.env:
            info = Path(f"{executable}.info").read_text()
            assert info.rstrip("\n") == experiment.env[0][1].rstrip("\n"), experiment.name
        compared += 1
    assert compared > 12


def test_a_pasted_command_takes_its_secrets_from_the_shell(tmp_path: Path) -> None:
    """With the variables that are named set, it is the same run: variables, arguments and input."""
    recorder = RECORDER + 'printf "%s\\n" "$KEY" "$@" >"$0.words"\n'
    executable = write_executable(tmp_path / "plugin", recorder)
    plugin = PluginUnderTest(
        path=str(executable),
        images=("registry.example/team/app",),
        args=("--region=eu", "--password", "s3cret argument", "--token=s3cret-'flag", "s3cret-positional"),
        env=(("KEY", "s3cret-variable"), ("MY.KEY", "s3cret-other")),
        token="s3cret-service-account-token",
    )
    known = {
        "KEY": "s3cret-variable",
        "MY_KEY": "s3cret-other",
        "ARG_3": "s3cret argument",
        "ARG_4": "s3cret-'flag",
        "ARG_5": "s3cret-positional",
        "SERVICE_ACCOUNT_TOKEN": "s3cret-service-account-token",
    }
    commands = {
        each.name: repeat_command(plugin, each, {"s3cret-positional"})
        for each in plan(plugin, "/nowhere/canary")
    }
    phrases = repeat_variables(plugin, list(commands.values()))
    assert [phrase.split()[0] for phrase in phrases] == list(known)
    for experiment in plan(plugin, "/nowhere/canary"):
        command = commands[experiment.name]
        assert "s3cret" not in command
        assert "*****" not in command
        subprocess.run(["sh", "-c", command], check=True, env={**os.environ, **known})
        assert Path(f"{executable}.stdin").read_bytes() == (experiment.stdin or b""), experiment.name
        words = Path(f"{executable}.words").read_text().splitlines()
        assert words == ["s3cret-variable", *plugin.args]


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_a_command_survives_the_terminal(kind: PluginKind) -> None:
    """Nothing in it is a control character, which the terminal would be shown in another form."""
    plugin = PluginUnderTest(path="/plugin", kind=kind, images=("registry.example/team/app",))
    for experiment in plan(plugin, "/nowhere/canary"):
        command = repeat_command(plugin, experiment)
        assert command.isprintable(), experiment.name


def test_the_environment_is_ours_with_a_home_of_its_own() -> None:
    """Configured variables go last, and a bare run has hardly anything else."""
    around = Surroundings(
        home="/home",
        temporary="/tmp",
        environ={"PATH": "/bin", "HOME": "/root", "X": "1", "XDG_CACHE_HOME": "/root/c"},
    )
    plugin = PluginUnderTest(path="/plugin", env=(("A", "2"), ("PATH", "/other")))
    assert environment(plugin, around, Experiment(name="x")) == {
        "PATH": "/other",
        "HOME": "/home",
        "TMPDIR": "/tmp",
        "X": "1",
        "A": "2",
    }
    assert environment(plugin, around, Experiment(name="x", is_bare=True)) == {"PATH": "/other", "A": "2"}
    assert environment(plugin, around, Experiment(name="x", unset=("HOME", "TMPDIR", "X"))) == {
        "PATH": "/other",
        "A": "2",
    }


def test_the_network_is_really_gone() -> None:
    """Where the system can make an empty network, a program in it cannot reach even this machine."""
    prefix = isolation()
    if not prefix:
        lacking("network-namespace")
    shown = subprocess.run(
        [*prefix, "cat", "/proc/net/route"], capture_output=True, text=True, check=True
    ).stdout
    assert len(shown.splitlines()) <= 1
    assert os.path.exists("/proc/net/route")


ANSWER = b'{"auth":{"r.io":{"username":"user","password":"s3cret-password"}}}'
NOW_NS = 1_000_000_000_000_000_000


def test_the_secrets_of_an_answer_are_its_passwords_and_pairs() -> None:
    """A password counts alone and together with its user."""
    assert secrets_in(ANSWER) == {"s3cret-password", "user:s3cret-password"}


def test_the_secrets_of_a_cluster_answer_are_its_token_and_key() -> None:
    """A certificate is no secret, its key is."""
    status = b'{"status":{"token":"s3cret-token","clientKeyData":"KEY-KEY-KEY","clientCertificateData":"CERTIFICATE"}}'
    assert secrets_in(status) == {"s3cret-token", "KEY-KEY-KEY"}


def test_an_answer_with_something_around_it_has_the_same_secrets() -> None:
    """A banner before the answer does not hide its secrets from us."""
    assert secrets_in(b"banner\n" + ANSWER + b"\nbye") == secrets_in(ANSWER)


@pytest.mark.parametrize("data", [b"", b"{", b"}{", b"null", b"[1]", b"\xff\xfe", b'{"password":"short"}'])
def test_what_is_no_answer_has_no_secrets(data: bytes) -> None:
    """Texts too short to be told from chance are left out."""
    assert secrets_in(data) == frozenset()


@pytest.mark.parametrize(
    "spelling",
    [
        b"s3cret-password",
        base64.b64encode(b"user:s3cret-password"),
        base64.b64encode(b"s3cret-password"),
        base64.urlsafe_b64encode(b"user:s3cret-password").rstrip(b"="),
    ],
)
def test_a_secret_is_found_in_every_spelling(spelling: bytes) -> None:
    """A header's base64 is as good as the password, and both are hidden."""
    secrets = Secrets(texts=secrets_in(ANSWER))
    text = b"login: " + spelling + b"!"
    assert secrets.found_in(text)
    assert spelling not in secrets.hide(text.decode()).encode()


def test_secrets_show_in_no_repr() -> None:
    """Not even by accident."""
    assert "s3cret" not in repr(Secrets(texts=secrets_in(ANSWER)))


@pytest.mark.parametrize(
    "key",
    [
        "reg.io",
        "*.reg.io",
        "*",
        "reg.io:5000/team",
        "localhost:5000",
        "registry:5000",
        "https://reg.io/v1/",
        "[::1]:5000",
    ],
)
def test_a_registry_as_a_key_is_shown(key: str) -> None:
    """The names that configs have."""
    assert shown_key(key) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password",
        "a.b.c",
        "eyJhbGciOiJub25lIn0.bm90IGpzb24.x",
        "eyJhbGciOiJub25lIn0.e30.x",
        "..",
        "é.é.é",
    ],
)
def test_other_texts_have_no_end(text: str) -> None:
    """Text that is no token, or a token that never ends, has no end."""
    assert expiry_of(text) is None


@pytest.mark.parametrize(
    ("secret", "shape"),
    [
        ("", "empty"),
        ("deadbeef", "hexadecimal, up to 8 characters"),
        ("Passw0rdPassw0rd", "letters and digits, up to 16 characters"),
        ("QUJD+/==", "base64, up to 8 characters"),
        ("with space and more", "printable ASCII, up to 32 characters"),
        ("zwölf", "other text, up to 8 characters"),
        ("x" * 20000, "letters and digits, over 16384 characters"),
    ],
)
def test_a_shape_says_no_more_than_it_should(secret: str, shape: str) -> None:
    """A shape has the alphabet and a rounded length."""
    assert describe(secret, NOW_NS) == shape


def test_the_shape_of_a_token_tells_that_it_has_ended() -> None:
    """A token's time is what bug reports are often about."""
    assert "ago" in describe(jwt(-60))
