"""What a run of a plugin shows, the commands that repeat it, and secrets in what is recorded."""

from __future__ import annotations

import base64
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry.kit.conformance import examine
from keyferry.kit.lab.experiments import repeat_command, repeat_variables
from keyferry.kit.lab.launch import Launch, launch
from keyferry.kit.lab.requests import plan
from keyferry.kit.lab.secrets import Secrets, describe, expiry_of, secrets_in, shown_key
from keyferry.kit.plugin import PluginKind, PluginUnderTest
from keyferry.kit.report import Status
from support.kit_plugins import Broken, cluster, jwt, plugin_at, response, say, write_plugin
from support.parts import lacking
from support.plugins import write_executable


def test_the_command_line_of_a_plugin_that_ends_at_once_is_seen(tmp_path: Path) -> None:
    """It waits for its input, which it gets after that."""
    path = write_executable(tmp_path / "plugin", f"#!/bin/sh\nread -r line\n{say(response())}\n")
    for _ in range(10):
        report = examine(plugin_at(path), only={"KP302"})
        assert [each.status for each in report.results if each.check.code == "KP302"] == [Status.PASSED]


def test_a_cluster_plugin_that_reads_finds_nothing(tmp_path: Path) -> None:
    """Its input is an empty device, whatever ours is, and it does not wait."""
    is_empty = '[ "$(readlink /proc/self/fd/0)" = /dev/null ] || fail "there is an input"; cat'
    broken = cluster({"before": is_empty})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken), only={"KP201"})
    assert report.is_clean


def test_memory_is_measured() -> None:
    """What a program holds beyond our own size is seen."""
    import resource

    # More than the tests themselves have ever had: a new process begins with the mark of its parent.
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 100 * 1024 * 1024
    script = f"data = b'x' * {size}; print(len(data))"
    run = launch(Launch(argv=(sys.executable, "-IS", "-c", script), environ={}))
    assert run.outcome.stdout == b"%d\n" % size
    assert (run.peak_bytes or 0) >= size


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """However a run ends, its pipes are closed."""
    gc.collect()  # what other tests have left behind is not closed in between
    before = len(os.listdir("/proc/self/fd"))
    for ending in ("", "exit 1", "sleep 60"):
        broken = cluster({"early": ending}, timeout_seconds=0.2)
        examine(plugin_at(write_plugin(tmp_path, broken), broken), only={"KP216", "KP331"})
    assert len(os.listdir("/proc/self/fd")) == before


RECORDER = """\
#!/bin/sh
cat >"$0.stdin"
printf '%s' "$KUBERNETES_EXEC_INFO" >"$0.info"
"""


def test_the_command_that_is_shown_repeats_the_experiment(tmp_path: Path) -> None:
    """What a shell feeds a cluster plugin is byte for byte what the kit did; images follow below, with secrets."""
    executable = write_executable(tmp_path / "plugin", RECORDER)
    plugin = PluginUnderTest(path=str(executable), kind=PluginKind.CLUSTER)
    experiments = {repeat_command(plugin, each): each for each in plan(plugin, "/nowhere/canary")}
    assert len(experiments) > 12
    for command, experiment in experiments.items():
        # A terminal would show a control character in another form.
        assert command.isprintable()
        if "huge exec info" in experiment.name:
            continue
        subprocess.run(["sh", "-c", command], check=True, stderr=subprocess.DEVNULL)
        assert Path(f"{executable}.stdin").read_bytes() == (experiment.stdin or b""), experiment.name
        if experiment.env:
            info = Path(f"{executable}.info").read_text()
            assert info.rstrip("\n") == experiment.env[0][1].rstrip("\n"), experiment.name


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
    secrets = {"s3cret-positional"}
    experiments = {repeat_command(plugin, each, secrets): each for each in plan(plugin, "/nowhere/canary")}
    phrases = repeat_variables(plugin, list(experiments))
    assert [phrase.split()[0] for phrase in phrases] == list(known)
    for command, experiment in experiments.items():
        assert command.isprintable()
        assert "s3cret" not in command
        assert "*****" not in command
        subprocess.run(["sh", "-c", command], check=True, env={**os.environ, **known})
        assert Path(f"{executable}.stdin").read_bytes() == (experiment.stdin or b""), experiment.name
        words = Path(f"{executable}.words").read_text().splitlines()
        assert words == ["s3cret-variable", *plugin.args]


def test_the_environment_is_ours_with_a_home_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Configured variables go last, and a bare run has hardly anything else."""
    path = "/usr/bin:/bin:/other"
    monkeypatch.setenv("OURS", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broken = Broken(
        {"start": 'env >"{here}/env:${HOME:+home}:${OURS:+ours}"'}, {"env": (("A", "2"), ("PATH", path))}
    )
    examine(plugin_at(write_plugin(tmp_path, broken), broken), only={"KP330"})
    usual, no_home, bare = (
        dict(line.split("=", 1) for line in (tmp_path / "state" / f"env:{name}").read_text().splitlines())
        for name in ("home:ours", ":ours", ":")
    )
    assert usual["HOME"] not in (os.environ.get("HOME"), usual["TMPDIR"])
    assert "HOME" not in no_home
    for environ in (usual, no_home, bare):
        assert (environ["A"], environ["PATH"]) == ("2", path)
        assert "XDG_CACHE_HOME" not in environ
    assert not {"HOME", "TMPDIR", "OURS"} & set(bare)


def test_the_network_is_really_gone(tmp_path: Path) -> None:
    """Where the system can make an empty network, a program in it cannot reach even this machine."""
    broken = Broken({"late": 'cat /proc/net/route >"{here}/route"'})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken), only={"KP332"})
    if any("simulated with unreachable proxies" in note for note in report.notes):
        lacking("network-namespace")
    assert report.is_clean
    # The run without a network is the last.
    assert len((tmp_path / "state" / "route").read_text().splitlines()) <= 1


ANSWER = b'{"auth":{"r.io":{"username":"user","password":"s3cret-password"}}}'
CREDENTIAL = (
    b'{"status":{"token":"s3cret-token","clientKeyData":"KEY-KEY-KEY","clientCertificateData":"CERTIFICATE"}}'
)


NOW_NS = 1_000_000_000_000_000_000


@pytest.mark.parametrize(
    ("stdout", "secrets"),
    [
        pytest.param(
            ANSWER, {"s3cret-password", "user:s3cret-password"}, id="a password, alone and with its user"
        ),
        pytest.param(CREDENTIAL, {"s3cret-token", "KEY-KEY-KEY"}, id="a token and a key, but no certificate"),
        pytest.param(
            b"banner\n" + ANSWER + b"\nbye",
            {"s3cret-password", "user:s3cret-password"},
            id="between other texts",
        ),
        *((data, set()) for data in (b"", b"{", b"}{", b"null", b"[1]", b"\xff\xfe")),
        pytest.param(b'{"password":"short"}', set(), id="too short to be told from chance"),
    ],
)
def test_the_secrets_of_an_answer(stdout: bytes, secrets: set[str]) -> None:
    assert secrets_in(stdout) == secrets


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
    assert "s3cret" not in repr(secrets)
    assert secrets.found_in(text)
    assert spelling not in secrets.hide(text.decode()).encode()


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
    # A token's time is what bug reports are often about.
    assert "ago" in describe(jwt(-60))
