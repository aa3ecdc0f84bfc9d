"""keyferry-docker-helper as a process, between a kubelet's request and a helper on PATH."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from support.plugins import write_executable
from support.reference import ask_image, run_plugin

SECRET = "s3cret-that-shows"


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
