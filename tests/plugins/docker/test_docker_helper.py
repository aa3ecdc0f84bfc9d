"""keyferry-docker-helper: real helper programs, and what the kubelet gets of them."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from support.plugins import write_executable
from support.reference import Answer, ask_image, run_plugin

SECRET = "s3cret-that-shows"
NOT_FOUND = "credentials not found in native keychain"
LOGIN = {"Username": "u", "Secret": "p"}


class Helper:
    """A credential helper on PATH, ``docker-credential-test``, made of a shell script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "docker-credential-test"
        self._seen = folder / "seen"

    @property
    def seen(self) -> str:
        """Number and text of its arguments and its standard input; empty if it was not started."""
        return self._seen.read_text() if self._seen.exists() else ""

    def runs(self, script: str) -> None:
        """Make it run *script*."""
        write_executable(self.path, f"#!/bin/sh\n{script}\n")

    def prints(self, document: object, status: int = 0) -> None:
        """Make it note what it is given, and write *document*."""
        text = document if isinstance(document, str) else json.dumps(document)
        note = f'{{ printf \'%s\\n\' "$#" "$@"; cat; }} > {shlex.quote(str(self._seen))}'
        self.runs(f"{note}\nprintf '%s' {shlex.quote(text)}; exit {status}")

    def ask(self, image: str = "reg.io/app", *args: str, name: str = "test") -> Answer:
        """Run the plugin for an image."""
        env = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        return ask_image("docker-helper", image, args=[f"--helper={name}", *args], env=env)

    def fail(self, image: str = "reg.io/app", *args: str, name: str = "test") -> str:
        """Run the plugin, which fails and shows no secret; return the error."""
        said = self.ask(image, *args, name=name).failure
        assert SECRET not in said
        assert "Traceback" not in said
        return said


@pytest.fixture
def helper(tmp_path: Path) -> Helper:
    """A helper that has a login."""
    made = Helper(tmp_path)
    made.prints(LOGIN)
    return made


@pytest.mark.parametrize(
    ("image", "url", "args"),
    [
        ("reg.io:5000/team/app", "reg.io:5000", []),
        ("docker.io/library/busybox", "https://index.docker.io/v1/", []),
        ("index.docker.io/library/busybox", "https://index.docker.io/v1/", []),
        ("registry-1.docker.io/library/busybox", "https://index.docker.io/v1/", []),
        ("reg.io/app", "https://reg.io/v2/", ["--server-url", "reg.io=https://reg.io/v2/"]),
        ("other.io/app", "other.io", ["--server-url", "reg.io=https://reg.io/v2/"]),
        ("docker.io/library/busybox", "docker.io", ["--server-url=docker.io=docker.io"]),
    ],
)
def test_the_registry_is_asked_for_and_answered_for(
    helper: Helper, image: str, url: str, args: list[str]
) -> None:
    """The helper sees ``get``, and the URL that its login is kept under; the kubelet gets it for its registry."""
    helper.prints({**LOGIN, "ServerURL": url})
    answer = helper.ask(image, *args)
    assert answer.auth == {image.partition("/")[0]: ("u", "p")}
    assert answer.document["cacheKeyType"] == "Registry"
    assert "cacheDuration" not in answer.document
    assert helper.seen == f"1\nget\n{url}"


def test_field_names_are_read_in_any_case(helper: Helper) -> None:
    """As docker reads them."""
    helper.prints({"username": "u", "secret": "p", "serverurl": "https://REG.io/v2/"})
    assert helper.ask().auth == {"reg.io": ("u", "p")}


def test_the_cache_duration_is_as_told(helper: Helper) -> None:
    """A duration in Go's way, and an absolute path for a helper."""
    answer = helper.ask("reg.io/app", "--cache-duration=90m", name=str(helper.path))
    assert answer.document["cacheDuration"] == "1h30m0s"


@pytest.mark.parametrize(
    ("document", "status"),
    [({}, 0), ({"Username": "", "Secret": ""}, 0), (f"{NOT_FOUND}\n", 1)],
    ids=["empty", "empty members", "not found"],
)
def test_no_login_is_an_empty_answer_that_is_not_kept(helper: Helper, document: object, status: int) -> None:
    """The kubelet goes on with the next provider, and asks again next time."""
    helper.prints(document, status)
    answer = helper.ask()
    assert answer.auth == {}
    assert answer.document["cacheDuration"] == "0s"


@pytest.mark.parametrize(
    ("document", "status", "said"),
    [
        (f"{NOT_FOUND}\n", 0, "status 0 and wrote something that is not a JSON object"),
        (f"no keychain: {NOT_FOUND} of this kind", 1, "failed with status 1: no keychain"),
        ({"Username": "u", "Secret": SECRET}, 1, "failed with status 1"),
        ("", 0, "not a JSON object"),
        (SECRET, 0, "not a JSON object"),
        (f'{{"Username": "u", "Secret": "{SECRET}"', 0, "not a JSON object"),
        (f'{{"Username": "u", "Secret": "{SECRET}"}} {{}}', 0, "not a JSON object"),
        (f'["{SECRET}"]', 0, "not a JSON object"),
        ({"Username": "u", "Secret": [SECRET]}, 0, "a Secret that is not a string"),
        ({"Username": 1, "Secret": SECRET}, 0, "a Username that is not a string"),
        ({"Username": "", "Secret": SECRET}, 0, "no user name"),
        ({"Username": "u", "Secret": ""}, 0, "no secret"),
        ({"Username": "<token>", "Secret": SECRET}, 0, "identity token for 'reg.io'"),
        ({"Username": "u", "Secret": f"{SECRET}\r\nX: y"}, 0, "line break"),
        ({"Username": "u:v", "Secret": SECRET}, 0, "colon"),
        *(
            ({"ServerURL": server, "Username": "u", "Secret": SECRET}, 0, "was asked for 'reg.io' and answered for")
            for server in ("evil.io", "https://evil.io/v1/", "reg.io:5000", "reg.io.evil.io", "evil/reg.io")
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_a_failure_that_shows_no_secret(
    helper: Helper, document: object, status: int, said: str
) -> None:
    """Garbage, halves, wrong types, identity tokens, logins for another host, and logins that come with a failure."""
    helper.prints(document, status)
    assert said in helper.fail()


def test_bytes_that_are_no_text_are_refused_rather_than_changed(helper: Helper) -> None:
    """A password is never handed on with replacement characters in it."""
    helper.runs("""printf '{"Username":"u","Secret":"p\\377"}'""")
    assert "not a JSON object" in helper.fail()


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_a_helper_that_never_stops_writing_is_killed(helper: Helper, stream: str) -> None:
    """Its output is not collected until the memory is full."""
    helper.runs(f"exec yes {SECRET} {stream}")
    assert "wrote more than 1048576 bytes" in helper.fail()


def test_secrets_in_a_failures_text_are_masked(helper: Helper) -> None:
    """What a helper complains of, on either stream, is shown without what looks like a secret."""
    helper.runs(f"echo 'login failed: password={SECRET}'; echo 'Authorization: Bearer {SECRET}' >&2; exit 3")
    assert "login failed" in helper.fail()


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
    """Line breaks, user info and empty hosts are refused before any program is started; no password is shown."""
    assert "pw" not in helper.fail("reg.io/app", "--server-url", f"reg.io={url}")
    assert helper.seen == ""


@pytest.mark.parametrize("image", ["reg.io\r\nx/app", "/app", "me:pw@reg.io/app"])
def test_a_hostile_image_starts_no_helper(helper: Helper, image: str) -> None:
    """A registry that is no host never reaches a program."""
    assert "pw" not in helper.fail(image)
    assert helper.seen == ""


@pytest.mark.parametrize(
    "name", ["../evil", "a/b", "./x", "-x", ".x", "x y", "x;y", "/", "/opt/", "x\n", "é"]
)
def test_a_name_cannot_lead_elsewhere(helper: Helper, name: str) -> None:
    """No path in a name, no blank, no shell's characters."""
    assert "neither a name" in helper.fail(name=name)


def test_a_helper_that_is_absent_or_no_program_is_named(helper: Helper) -> None:
    """What to install is in the message."""
    assert "'docker-credential-nowhere-to-be-found' is not installed" in helper.fail(
        name="nowhere-to-be-found"
    )
    assert "cannot be started" in helper.fail(name=str(helper.folder))


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        ([], 1, "add --helper NAME"),
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
