"""keyferry-static as a process: logins for the image asked for, and for no other."""

from __future__ import annotations

import base64
import json
import os
import shlex
from pathlib import Path

import pytest

from support.plugins import write_executable
from support.reference import ask_image

SECRET = "s3cret-that-shows"
LOGINS = {
    "reg.io": "a:pa",
    "reg.io/team": "b:pb",
    "reg.io/other": "c:pc",
    "*.example.com": "d:pd",
    "far.io": "e:pe",
}


def write_config(path: Path, logins: dict[str, str], **more: object) -> str:
    """Write a docker config, for its user alone, and give its path."""
    auths = {key: {"auth": base64.b64encode(pair.encode()).decode()} for key, pair in logins.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"auths": auths, **more}))
    path.chmod(0o600)
    return str(path)


def put_helper(folder: Path, name: str, script: str) -> None:
    write_executable(folder / f"docker-credential-{name}", f"#!/bin/sh\n{script}\n")


@pytest.mark.parametrize(
    ("image", "args", "auth"),
    [
        ("reg.io/team/app", [], {"reg.io": ("a", "pa"), "reg.io/team": ("b", "pb")}),
        ("reg.io/x", [], {"reg.io": ("a", "pa")}),
        ("one.example.com/x", [], {"*.example.com": ("d", "pd")}),
        ("one.two.example.com/x", [], {}),
        ("reg.io:5000/team", [], {}),
        (
            "reg.io/x",
            ["--cache-key-type", "Registry"],
            {"reg.io": ("a", "pa"), "reg.io/team": ("b", "pb"), "reg.io/other": ("c", "pc")},
        ),
    ],
)
def test_the_logins_that_cover_the_image_and_no_others(
    tmp_path: Path, image: str, args: list[str], auth: dict[str, tuple[str, str]]
) -> None:
    """An answer for one image holds nothing of another registry or repository."""
    config = write_config(tmp_path / "config.json", LOGINS)
    answer = ask_image("static", image, args=["--docker-config", config, *args])
    assert answer.auth == auth
    assert answer.document["cacheKeyType"] == (args[1] if args else "Image")
    assert answer.document.get("cacheDuration") == (None if auth else "0s")
    assert answer.stderr == ""


def test_docker_hubs_old_key_serves_its_images(tmp_path: Path) -> None:
    """What ``docker login`` writes is answered under the name the kubelet uses."""
    config = write_config(tmp_path / "config.json", {"https://index.docker.io/v1/": "u:p"})
    answer = ask_image("static", "docker.io/library/busybox", args=["--docker-config", config])
    assert answer.auth == {"docker.io": ("u", "p")}


def test_several_files_and_folders_are_joined_and_nothing_is_lost(tmp_path: Path) -> None:
    """Two logins for one key are both answered, in spellings that are one key to the kubelet."""
    one = write_config(tmp_path / "one.json", {"https://reg.io/v1/": "a:pa"})
    write_config(tmp_path / "secrets" / "x" / ".dockerconfigjson", {"reg.io": "b:pb"})
    write_config(tmp_path / "secrets" / "y" / ".dockerconfigjson", {"http://reg.io": "a:pa"})
    args = ["--docker-config", one, "--secrets-dir", str(tmp_path / "secrets"), "--cache-duration", "10m"]
    answer = ask_image("static", "reg.io/app", args=args)
    assert answer.auth == {"reg.io": ("a", "pa"), "https://reg.io": ("b", "pb")}
    assert answer.document["cacheDuration"] == "10m0s"


def test_more_logins_for_one_key_than_fit_are_told(tmp_path: Path) -> None:
    """The first three are answered; that there are more is said."""
    paths = [write_config(tmp_path / f"{number}.json", {"reg.io": f"u{number}:p"}) for number in range(4)]
    answer = ask_image("static", "reg.io/app", args=[f"--docker-config={path}" for path in paths])
    assert sorted(user for user, _ in answer.auth.values()) == ["u0", "u1", "u2"]
    assert "has 4 logins" in answer.stderr


def test_a_broken_file_is_told_and_fails_only_where_nothing_else_answers(tmp_path: Path) -> None:
    """Never silently without a login: where a broken file may hold it, the run fails."""
    broken = tmp_path / "broken.json"
    broken.write_text(f'{{"auths": {{"other.io": {{"auth": "{SECRET}')
    config = write_config(tmp_path / "config.json", LOGINS)
    args = ["--docker-config", str(broken), "--docker-config", config]
    served = ask_image("static", "far.io/app", args=args)
    assert served.auth == {"far.io": ("e", "pe")}
    assert "is not JSON" in served.stderr
    failed = ask_image("static", "other.io/app", args=args)
    assert (failed.status, failed.stdout) == (1, "")
    assert "broken.json' is not JSON" in failed.stderr
    assert SECRET not in served.stderr + failed.stderr


def test_files_open_to_others_are_told(tmp_path: Path) -> None:
    """On standard error, which the kubelet shows when a plugin fails."""
    path = write_config(tmp_path / "config.json", LOGINS)
    os.chmod(path, 0o644)
    answer = ask_image("static", "far.io/app", args=["--docker-config", path])
    assert answer.auth
    assert "can be read by other users (mode 644)" in answer.stderr


def test_helpers_are_asked_only_if_told_to(tmp_path: Path) -> None:
    """A config file starts no program unless the provider's config says that it may."""
    seen = tmp_path / "seen"
    put_helper(
        tmp_path, "one", f"""cat >> {shlex.quote(str(seen))}; echo '{{"Username":"h","Secret":"ph"}}'"""
    )
    put_helper(tmp_path, "rest", """echo '{"Username":"s","Secret":"ps"}'""")
    config = write_config(tmp_path / "c.json", {}, credHelpers={"reg.io": "one"}, credsStore="rest")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    silent = ask_image("static", "reg.io/app", args=["--docker-config", config], env=env)
    assert silent.auth == {}
    assert "add --helpers to call it" in silent.stderr
    assert not seen.exists()
    args = ["--docker-config", config, "--helpers"]
    assert ask_image("static", "reg.io/app", args=args, env=env).auth == {"reg.io": ("h", "ph")}
    assert seen.read_text() == "reg.io"
    assert ask_image("static", "far.io/app", args=args, env=env).auth == {"far.io": ("s", "ps")}


def test_a_helper_that_fails_leaves_the_files_logins(tmp_path: Path) -> None:
    """And fails the run where there are none."""
    put_helper(tmp_path, "bad", "echo no; exit 1")
    config = write_config(tmp_path / "c.json", {"far.io": "e:pe"}, credsStore="bad")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    args = ["--docker-config", config, "--helpers"]
    assert ask_image("static", "far.io/app", args=args, env=env).auth == {"far.io": ("e", "pe")}
    failed = ask_image("static", "reg.io/app", args=args, env=env)
    assert failed.status == 1
    assert "docker-credential-bad get failed with status 1: no" in failed.stderr


def test_an_identity_token_alone_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    """An answer cannot carry it, and silence would look like no login at all."""
    path = tmp_path / "c.json"
    auth = base64.b64encode(b"u:").decode()
    path.write_text(json.dumps({"auths": {"reg.io": {"auth": auth, "identitytoken": SECRET}}}))
    answer = ask_image("static", "reg.io/app", args=["--docker-config", str(path)])
    assert (answer.status, answer.stdout) == (1, "")
    assert "identity token" in answer.stderr
    assert SECRET not in answer.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "add --docker-config FILE or --secrets-dir DIR"),
        (["--docker-config", "/nowhere/at/all"], "no such file or directory"),
        (["--secrets-dir", "/nowhere/at/all"], "cannot be read"),
        (["--docker-config", "/dev/null", "--helpers", "--cache-key-type=Global"], "cannot be used with"),
        (["--cache-duration", "x", "--docker-config", "/dev/null"], "expected a duration"),
        (["--cache-key-type", "Node"], "expected one of Image, Registry, Global"),
    ],
)
def test_wrong_flags_and_absent_files_are_explained(args: list[str], said: str) -> None:
    """With a status other than 0 and nothing on standard output."""
    answer = ask_image("static", "reg.io/app", args=args)
    assert answer.status != 0
    assert answer.stdout == ""
    assert said in answer.stderr
