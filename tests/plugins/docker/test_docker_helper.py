"""keyferry-docker-helper: real helper programs, and docker configs."""

from __future__ import annotations

import json
import os
import shlex
import time
from pathlib import Path

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.docker.config import Login
from keyferry_plugins.docker.helper import ask_helper, check_server_url, host_of, program_of
from support.plugins import write_executable
from support.reference import ask_image, run_plugin

SECRET = "s3cret-that-shows"
PATIENCE_SECONDS = 30.0


def is_running(pid: int) -> bool:
    """Tell whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def helper(tmp_path: Path) -> Helper:
    return Helper(tmp_path)


class Helper:
    """A helper made of a shell script."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "docker-credential-test"
        self.seen = folder / "seen"

    def write(self, script: str) -> None:
        """Make it run *script*."""
        self.path.write_text(f"#!/bin/sh\n{script}\n")
        self.path.chmod(0o755)

    def answers(self, document: object, status: int = 0) -> None:
        """Make it note what it is given, and write *document*."""
        text = document if isinstance(document, str) else json.dumps(document)
        self.write(
            f'{{ printf \'%s\\n\' "$#" "$@"; cat; }} > {shlex.quote(str(self.seen))}\n'
            f"printf '%s' {shlex.quote(text)}; exit {status}"
        )

    def ask(self, url: str = "reg.io", seconds: float = PATIENCE_SECONDS) -> Login | None:
        """Ask it for a server's login."""
        return ask_helper(str(self.path), url, Deadline(seconds))


def test_the_url_goes_to_standard_input_and_nothing_else(helper: Helper) -> None:
    """One argument, ``get``; the URL alone on standard input, as docker writes it."""
    helper.answers({"ServerURL": "reg.io", "Username": "u", "Secret": "p"})
    assert helper.ask() == Login(username="u", password="p")
    assert helper.seen.read_text() == "1\nget\nreg.io"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"Username": "u", "Secret": "p"}, Login(username="u", password="p")),
        (
            {"username": "u", "secret": "p", "serverurl": "https://REG.io/v2/"},
            Login(username="u", password="p"),
        ),
        ({"Username": "", "Secret": ""}, None),
        ({}, None),
    ],
    ids=str,
)
def test_an_answer_is_read_as_docker_reads_it(
    helper: Helper, document: object, expected: Login | None
) -> None:
    """Field names in any case; a helper with nothing to say has no login."""
    helper.answers(document)
    assert helper.ask() == expected


def test_not_found_is_no_failure_and_only_in_these_words(helper: Helper) -> None:
    """The text of the protocol, with a status other than 0, means that there is no login; nothing else does."""
    helper.answers("credentials not found in native keychain\n", 1)
    assert helper.ask() is None
    helper.answers("credentials not found in native keychain\n", 0)
    with pytest.raises(ProvideError, match="status 0 and wrote something that is not a JSON object"):
        helper.ask()
    helper.answers("no keychain: credentials not found in native keychain of this kind", 1)
    with pytest.raises(ProvideError, match="failed with status 1: no keychain"):
        helper.ask()


def test_a_login_that_comes_with_a_failure_is_not_used(helper: Helper) -> None:
    """What looks like success is none if the status says otherwise, and it is not shown."""
    helper.answers({"Username": "u", "Secret": SECRET}, 1)
    with pytest.raises(ProvideError, match="failed with status 1") as caught:
        helper.ask()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f'{{"Username": "u", "Secret": "{SECRET}"',
        f'{{"Username": "u", "Secret": "{SECRET}"}} {{}}',
        f'["{SECRET}"]',
        f'{{"Username": "u", "Secret": ["{SECRET}"]}}',
        f'{{"Username": 1, "Secret": "{SECRET}"}}',
        f'{{"Username": "", "Secret": "{SECRET}"}}',
        '{"Username": "u", "Secret": ""}',
        "",
    ],
)
def test_what_is_no_answer_is_refused_and_not_quoted(helper: Helper, text: str) -> None:
    """Garbage, halves, two documents and wrong types are errors without a byte of it."""
    helper.answers(text)
    with pytest.raises(ProvideError) as caught:
        helper.ask()
    assert SECRET not in repr(caught.value)
    assert caught.value.__context__ is None


def test_bytes_that_are_no_text_are_refused_rather_than_changed(helper: Helper) -> None:
    """A password is never handed on with replacement characters in it."""
    helper.write("""printf '{"Username":"u","Secret":"p\\377"}'""")
    with pytest.raises(ProvideError, match="not a JSON object"):
        helper.ask()


def test_an_identity_token_is_refused_with_the_reason(helper: Helper) -> None:
    """The kubelet's protocol has no place for one."""
    helper.answers({"Username": "<token>", "Secret": SECRET})
    with pytest.raises(ProvideError, match=r"identity token for 'reg[.]io'") as caught:
        helper.ask()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "server", ["evil.io", "https://evil.io/v1/", "reg.io:5000", "reg.io.evil.io", "evil/reg.io"]
)
def test_a_login_for_another_host_is_refused(helper: Helper, server: str) -> None:
    """A helper that answers for a registry other than the one asked for has its login thrown away."""
    helper.answers({"ServerURL": server, "Username": "u", "Secret": SECRET})
    with pytest.raises(ProvideError, match=r"was asked for 'reg[.]io' and answered for"):
        helper.ask()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "reg.io\r",
        "reg.io\nusername=evil",
        "reg.io\x00",
        "reg.io x",
        "rég.io",
        "https:///path",
        "/path",
        ":5000",
        "https://me:pw@reg.io",
        "me@reg.io",
        "https://me:1/pw@reg.io/",
        "https://me:pw/x@reg.io/",
        "me:1/pw@reg.io",
        "https://me:pw@sha256:5000/",
    ],
)
def test_urls_that_could_mislead_a_helper_are_not_sent(helper: Helper, url: str) -> None:
    """Line breaks, user info and empty hosts are refused before any program is started."""
    helper.answers({"Username": "u", "Secret": "p"})
    with pytest.raises(ProvideError) as caught:
        helper.ask(url)
    assert not helper.seen.exists()
    assert "pw" not in str(caught.value)


def test_all_names_of_docker_hub_are_one() -> None:
    """What docker keeps under its old URL serves the registry under each of its names."""
    assert {host_of(url) for url in ("docker.io", "https://index.docker.io/v1/", "registry-1.docker.io")} == {
        "docker.io"
    }
    assert check_server_url("https://index.docker.io/v1/")


@pytest.mark.parametrize(("name", "program"), [("pass", "docker-credential-pass"), ("/opt/x", "/opt/x")])
def test_a_name_stands_for_a_program_on_the_path(name: str, program: str) -> None:
    """By docker's prefix, or where it lies."""
    assert program_of(name) == program


@pytest.mark.parametrize(
    "name", ["", "../evil", "a/b", "./x", "-x", ".x", "x y", "x;y", "/", "/opt/", "x\n", "é"]
)
def test_a_name_cannot_lead_elsewhere(name: str) -> None:
    """No path in a name, no blank, no shell's characters."""
    with pytest.raises(ProvideError, match="neither a name"):
        program_of(name)


def test_a_helper_that_never_ends_is_killed(helper: Helper) -> None:
    """With all it started."""
    helper.write("sleep 1000 & echo $! > " + shlex.quote(str(helper.seen)) + "; sleep 1000")
    with pytest.raises(ProvideError, match="did not end in time"):
        helper.ask(seconds=2)
    pid, until = int(helper.seen.read_text()), time.monotonic() + PATIENCE_SECONDS
    # A signal takes its moment.
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_running(pid)


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_a_helper_that_never_stops_writing_is_killed(helper: Helper, stream: str) -> None:
    """Its output is not collected until the memory is full."""
    helper.write(f"exec yes {SECRET} {stream}")
    with pytest.raises(ProvideError, match="wrote more than 1048576 bytes") as caught:
        helper.ask()
    assert SECRET not in str(caught.value)


def test_a_helper_that_is_absent_or_no_program_is_named(tmp_path: Path) -> None:
    """What to install is in the message."""
    with pytest.raises(ProvideError, match="'docker-credential-nowhere-to-be-found' is not installed"):
        ask_helper("nowhere-to-be-found", "reg.io", Deadline(PATIENCE_SECONDS))
    with pytest.raises(ProvideError, match="cannot be started"):
        ask_helper(str(tmp_path), "reg.io", Deadline(PATIENCE_SECONDS))


def test_secrets_in_a_failures_text_are_masked(helper: Helper) -> None:
    """What a helper complains of, on either stream, is shown without what looks like a secret."""
    helper.write(f"echo 'login failed: password={SECRET}'; echo 'Authorization: Bearer {SECRET}' >&2; exit 3")
    with pytest.raises(ProvideError, match="login failed") as caught:
        helper.ask()
    assert SECRET not in str(caught.value)


def put_helper(folder: Path, *, status: int = 0, **document: str) -> dict[str, str]:
    """Write ``docker-credential-test`` and give the environment in which it is on PATH."""
    seen = shlex.quote(str(folder / "seen"))
    text = shlex.quote(json.dumps(document))
    write_executable(
        folder / "docker-credential-test", f"#!/bin/sh\ncat >> {seen}\nprintf '%s' {text}\nexit {status}\n"
    )
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("image", "asked", "args"),
    [
        ("reg.io:5000/team/app", "reg.io:5000", []),
        ("docker.io/library/busybox", "https://index.docker.io/v1/", []),
        ("reg.io/app", "https://reg.io/v2/", ["--server-url", "reg.io=https://reg.io/v2/"]),
        ("other.io/app", "other.io", ["--server-url", "reg.io=https://reg.io/v2/"]),
        ("docker.io/library/busybox", "docker.io", ["--server-url=docker.io=docker.io"]),
    ],
)
def test_the_registry_is_asked_for_and_answered_for(
    tmp_path: Path, image: str, asked: str, args: list[str]
) -> None:
    """The helper sees the URL its login is kept under; the kubelet gets it for the registry it named."""
    env = put_helper(tmp_path, ServerURL=asked, Username="u", Secret="p")
    answer = ask_image("docker-helper", image, args=["--helper", "test", *args], env=env)
    assert answer.auth == {image.partition("/")[0]: ("u", "p")}
    assert answer.document["cacheKeyType"] == "Registry"
    assert "cacheDuration" not in answer.document
    assert (tmp_path / "seen").read_text() == asked


def test_the_cache_duration_is_as_told(tmp_path: Path) -> None:
    """A duration in Go's way, and an absolute path for a helper."""
    put_helper(tmp_path, Username="u", Secret="p")
    path = str(tmp_path / "docker-credential-test")
    answer = ask_image("docker-helper", "reg.io/app", args=["--helper", path, "--cache-duration=90m"])
    assert answer.document["cacheDuration"] == "1h30m0s"


def test_no_login_is_an_empty_answer_that_is_not_kept(tmp_path: Path) -> None:
    """The kubelet goes on with the next provider, and asks again next time."""
    write_executable(
        tmp_path / "docker-credential-test",
        "#!/bin/sh\necho 'credentials not found in native keychain'\nexit 1\n",
    )
    answer = ask_image(
        "docker-helper", "reg.io/app", args=["--helper", str(tmp_path / "docker-credential-test")]
    )
    assert answer.auth == {}
    assert answer.document["cacheDuration"] == "0s"


@pytest.mark.parametrize(
    ("document", "status", "said"),
    [
        ({"Username": "<token>", "Secret": SECRET}, 0, "identity token"),
        ({"Username": "u", "Secret": SECRET}, 1, "failed with status 1"),
        ({"Username": "u", "Secret": f"{SECRET}\r\nX: y"}, 0, "line break"),
        ({"Username": "u:v", "Secret": SECRET}, 0, "colon"),
        ({"ServerURL": "evil.io", "Username": "u", "Secret": SECRET}, 0, "answered for 'evil.io'"),
    ],
)
def test_what_cannot_be_used_is_a_failure_that_shows_no_secret(
    tmp_path: Path, document: dict[str, str], status: int, said: str
) -> None:
    """Nothing on standard output, a reason on standard error, and a status other than 0."""
    env = put_helper(tmp_path, status=status, **document)
    answer = ask_image("docker-helper", "reg.io/app", args=["--helper", "test"], env=env)
    assert (answer.status, answer.stdout) == (1, "")
    assert said in answer.stderr
    assert SECRET not in answer.stderr


@pytest.mark.parametrize("image", ["reg.io\r\nx/app", "/app", "me:pw@reg.io/app"])
def test_a_hostile_image_starts_no_helper(tmp_path: Path, image: str) -> None:
    """A registry that is no host never reaches a program."""
    env = put_helper(tmp_path, Username="u", Secret="p")
    answer = ask_image("docker-helper", image, args=["--helper", "test"], env=env)
    assert (answer.status, answer.stdout) == (1, "")
    assert not (tmp_path / "seen").exists()


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        ([], 1, "add --helper NAME"),
        (["--helper", "../x"], 1, "neither a name"),
        (["--helper", "absent-from-here"], 1, "'docker-credential-absent-from-here' is not installed"),
        (["--helper", "test", "--cache-duration", "soon"], 1, "expected a duration"),
        (["--helper", "test", "--cache-duration", "-5m"], 1, "expected a duration"),
        (["--helper", "test", "--server-url", "https://reg.io"], 1, "expected REGISTRY=URL"),
        (
            ["--helper", "test", "--server-url", "https://me:p/w@reg.io"],
            1,
            "found 'https://***@reg.io', expected",
        ),
        (["--helper", "test", "--server-url", "reg.io=a@b"], 1, "contains user info"),
        (["--nonsense"], 2, "unknown flag '--nonsense'"),
    ],
)
def test_wrong_flags_are_explained(args: list[str], status: int, said: str) -> None:
    """What was found and what was expected."""
    answer = ask_image("docker-helper", "reg.io/app", args=args)
    assert (answer.status, answer.stdout) == (status, "")
    assert said in answer.stderr


def test_help_names_every_flag() -> None:
    """Without a request on standard input."""
    answer = run_plugin("docker-helper", "", ["--help"], None)
    assert answer.status == 0
    assert all(flag in answer.stdout for flag in ("--helper", "--server-url", "--cache-duration"))
