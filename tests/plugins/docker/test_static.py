"""keyferry-static and the docker configs that it reads."""

from __future__ import annotations

import base64
import json
import os
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.errors import PullSecretError
from keyferry.images.dockerconfig import parse_docker_config_json
from keyferry.images.keyring import Keyring, Source, SourceKind
from keyferry_plugins.docker.config import Login
from keyferry_plugins.docker.keyring import choose_logins
from support.plugins import write_executable
from support.reference import Answer, ask_image
from support.registry_keys import IMAGE, KEY

SECRET = "s3cret-that-shows"
LOGINS = {
    "reg.io": "a:pa",
    "reg.io/team": "b:pb",
    "reg.io/other": "c:pc",
    "*.example.com": "d:pd",
    "far.io": "e:pe",
}


def auth(text: str) -> str:
    """Return *text*, a user and password, in base64."""
    return base64.b64encode(text.encode()).decode()


def write(path: Path, text: str | bytes) -> str:
    """Write a file for its user alone, and give its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)
    return str(path)


def config(logins: dict[str, str], **more: object) -> str:
    """A docker config with these logins: user and password by key."""
    return json.dumps({"auths": {key: {"auth": auth(pair)} for key, pair in logins.items()}, **more})


def write_config(path: Path, logins: dict[str, str], **more: object) -> str:
    """Write a docker config, for its user alone, and give its path."""
    return write(path, config(logins, **more))


def ask_file(path: Path, content: str | bytes, image: str = "reg.io/app") -> Answer:
    """Run the plugin with this content as a docker config."""
    return ask_image("static", image, args=["--docker-config", write(path, content)])


def ask_folder(folder: Path, *args: str) -> Answer:
    """Run the plugin with a folder of secrets, for all that is in it."""
    return ask_image(
        "static", "reg.io/app", args=[f"--secrets-dir={folder}", "--cache-key-type=Global", *args]
    )


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
        (
            "reg.io/x",
            ["--cache-key-type", "Global"],
            {key: (pair[0], pair[2:]) for key, pair in LOGINS.items()},
        ),
    ],
)
def test_the_logins_that_cover_the_image_and_no_others(
    tmp_path: Path, image: str, args: list[str], auth: dict[str, tuple[str, str]]
) -> None:
    """An answer for one image holds nothing of another registry or repository; a wider one serves other images too."""
    path = write_config(tmp_path / "config.json", LOGINS)
    answer = ask_image("static", image, args=["--docker-config", path, *args])
    assert answer.auth == auth
    assert answer.document["cacheKeyType"] == (args[1] if args else "Image")
    assert answer.document.get("cacheDuration") == (None if auth else "0s")
    assert answer.stderr == ""


@pytest.mark.parametrize(
    ("key", "image", "kept"),
    [
        ("https://index.docker.io/v1/", "docker.io/library/busybox", "docker.io"),
        ("https://index.docker.io/v1/", "index.docker.io/library/busybox", "index.docker.io"),
        ("http://reg.io/v2/team", "reg.io/team/app", "reg.io/team"),
        ("reg.io/", "reg.io/app", "reg.io"),
        ("reg.io:5000/v2/", "reg.io:5000/app", "reg.io:5000"),
        ("me:pw@reg.io", "reg.io/app", "reg.io"),
        ("[::1]:5000", "[::1]:5000/app", "[::1]:5000"),
        ("reg.io/v1", "reg.io/v1/app", "reg.io/v1"),
    ],
)
def test_keys_are_written_in_the_kubelets_form(tmp_path: Path, key: str, image: str, kept: str) -> None:
    """What the kubelet would make of a key is what is answered; Docker Hub's under the name that it uses."""
    path = write_config(tmp_path / "config.json", {key: "u:p"})
    assert ask_image("static", image, args=["--docker-config", path]).auth == {kept: ("u", "p")}


def test_keys_that_name_no_place_are_given_up(tmp_path: Path) -> None:
    """A key without a usable host is not answered under."""
    keys = ["", "/", "reg.io:http", "reg .io", "reg.io\n", "[::1]", "re%67.io", "reg.io/%zz"]
    path = write_config(tmp_path / "config.json", dict.fromkeys(keys, "u:p"))
    args = ["--docker-config", path, "--cache-key-type=Global"]
    assert ask_image("static", "reg.io/app", args=args).auth == {}


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
    os.chmod(path, 0o600)
    assert ask_image("static", "far.io/app", args=["--docker-config", path]).stderr == ""
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
    entries = {"reg.io": {"auth": auth("u:"), "identitytoken": SECRET}}
    answer = ask_file(tmp_path / "c.json", json.dumps({"auths": entries}))
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


@pytest.mark.parametrize(
    "entry",
    [
        {"username": "u", "password": "p"},
        {"auth": auth("u:p")},
        {"auth": auth("u:p"), "username": "other", "password": "other"},
        {"AUTH": auth("u:p"), "email": "x@y"},
        {"auth": auth("u:p:q").rstrip("=")},
        {"auth": auth("user:a-longer-pass")[:6] + "\n" + auth("user:a-longer-pass")[6:]},
        {"auth": " " + auth("u:p")},
        {"auth": auth("u-without-colon")},
        {"auth": "!!!"},
        {"auth": auth("u:p") + "x"},
        {"auth": 3},
        {"username": ["u"]},
        "text",
    ],
    ids=str,
)
def test_entries_are_read_as_the_kubelet_reads_them(tmp_path: Path, entry: object) -> None:
    """The same user name and password as in the kubelet, or both refuse the file."""
    content = json.dumps({"auths": {"reg.io": entry}, "HttpHeaders": {}}).encode()
    answer = ask_file(tmp_path / "config.json", content)
    try:
        found = parse_docker_config_json(content)
    except PullSecretError:
        assert answer.status == 1
    else:
        assert answer.auth == {key: (one.username, one.password) for key, one in found.items()}


@pytest.mark.parametrize(
    "content",
    [
        f'{{"auths": {{"reg.io": {{"auth": "{SECRET}',
        json.dumps({"auths": {"reg.io": {"auth": auth(SECRET)}}}),
        json.dumps({"auths": {"reg.io": {"auth": SECRET + "!"}}}),
        json.dumps({"auths": {f"https://me:{SECRET}@reg.io/x": {"auth": 3}}}),
        json.dumps({"auths": [SECRET]}),
        json.dumps([SECRET]),
        '{"auths":' * 20000,
        b"\xff\xfe" + SECRET.encode(),
    ],
    ids=["cut", "no colon", "no base64", "user info", "list", "no object", "deep", "no text"],
)
def test_no_error_quotes_a_file(tmp_path: Path, content: str | bytes) -> None:
    """What is wrong is said by place and expectation, never by what stands there."""
    answer = ask_file(tmp_path / "f", content)
    assert (answer.status, answer.stdout) == (1, "")
    assert SECRET not in answer.stderr
    assert auth(SECRET) not in answer.stderr
    assert f"docker config '{tmp_path}/f'" in answer.stderr


def test_empty_entries_of_docker_are_no_logins(tmp_path: Path) -> None:
    """An entry that a helper left behind gives nothing."""
    answer = ask_file(
        tmp_path / "c.json", json.dumps({"auths": {"reg.io": {}, "far.io": {"auth": auth("u:")}}})
    )
    assert answer.auth == {}
    assert ask_file(tmp_path / "c.json", json.dumps({"auths": {"reg.io": {"auth": auth("u:")}}})).auth == {
        "reg.io": ("u", "")
    }


def test_the_old_form_is_the_entries_alone(tmp_path: Path) -> None:
    """A .dockercfg has no auths around its entries."""
    answer = ask_file(tmp_path / "a.dockercfg", json.dumps({"reg.io": {"auth": auth("u:p")}}))
    assert answer.auth == {"reg.io": ("u", "p")}


def test_a_folder_of_secrets_is_read_with_the_folders_right_below(tmp_path: Path) -> None:
    """Mounted secrets of all three kinds, side by side, and nothing deeper."""
    write_config(tmp_path / "one" / ".dockerconfigjson", {"one.io": "u1:p1"})
    write(tmp_path / "two" / ".dockercfg", json.dumps({"two.io": {"auth": auth("u2:p2")}}))
    write(tmp_path / "three" / "username", "u3\n")
    write(tmp_path / "three" / "password", " p3 \r\n")
    write(tmp_path / "three" / "registry", "three.io\n\nalso.io\n")
    write_config(tmp_path / "four.json", {"four.io": "u4:p4"})
    write_config(tmp_path / "five" / "deep" / ".dockerconfigjson", {"five.io": "u5:p5"})
    write(tmp_path / "notes.txt", "none")
    write(tmp_path / "six" / "username", "u6")
    answer = ask_folder(tmp_path)
    assert answer.auth == {
        "one.io": ("u1", "p1"),
        "two.io": ("u2", "p2"),
        "three.io": ("u3", " p3 "),
        "also.io": ("u3", " p3 "),
        "four.io": ("u4", "p4"),
    }
    assert answer.stderr == ""


def test_a_mounted_secret_is_read_in_one_version(tmp_path: Path) -> None:
    """The files that Kubernetes swaps by one link are read behind that link, and once."""
    version = tmp_path / "..2026_01_01"
    for name, text in {"username": "new", "password": "new-word", "registry": "reg.io"}.items():
        write(version / name, text)
        # What a half-done update would leave in the folder itself.
        write(tmp_path / name, "old")
    os.symlink(version.name, tmp_path / "..data")
    assert ask_folder(tmp_path).auth == {"reg.io": ("new", "new-word")}


def test_a_broken_secret_does_not_spoil_the_others(tmp_path: Path) -> None:
    """Each secret is a login or an error of its own."""
    write(tmp_path / "a" / ".dockerconfigjson", "{")
    write_config(tmp_path / "b" / ".dockerconfigjson", {"b.io": "u:p"})
    (tmp_path / "c" / "username").mkdir(parents=True)
    write(tmp_path / "c" / "password", "p")
    write(tmp_path / "c" / "registry", "c.io")
    write(tmp_path / "d" / "username", "u")
    write(tmp_path / "d" / "password", b"\xff")
    write(tmp_path / "d" / "registry", "d.io")
    answer = ask_folder(tmp_path)
    assert answer.auth == {"b.io": ("u", "p")}
    first, second, third = answer.stderr.splitlines()
    assert "is not JSON" in first
    assert "is a directory" in second
    assert "is not UTF-8" in third


def test_a_file_longer_than_any_secret_is_refused() -> None:
    """A device or a log under that name does not fill the memory."""
    answer = ask_image("static", "reg.io/app", args=["--docker-config", "/dev/zero"])
    assert answer.status == 1
    assert "longer than 1048576 bytes" in answer.stderr


WILD = st.text(st.sampled_from("ab.*:/@#?[]%2\r\n \x7f\\é{"), max_size=12)


def found_by_kubelet(logins: list[tuple[str, str]], image: str) -> list[str]:
    """The users whose logins the kubelet would offer for *image*, if it kept them under these keys."""
    keyring = Keyring()
    keyring.add(Source(kind=SourceKind.PROVIDER, name=""), ((key, user, "word", "") for key, user in logins))
    return sorted(found.username for found in keyring.lookup(image))


def found_by_plugin(logins: list[tuple[str, str]], image: str) -> list[tuple[str, str]]:
    """What the plugin answers with for *image*, if logins are kept under these keys."""
    entries = [(key, Login(username=user, password="word")) for key, user in logins]
    return [(str(place), login.username) for place, login in choose_logins(entries, image, "Image")]


@given(st.lists(KEY, max_size=4), IMAGE)
def test_what_is_answered_is_what_the_kubelet_then_finds(keys: list[str], image: str) -> None:
    """Schemes, globs, ports, API versions, user info, queries: the answer has the logins that the file itself has."""
    logins = [(key, f"user{at}") for at, key in enumerate(keys)]
    answered = found_by_plugin(logins, image)
    assert sorted(user for _, user in answered) == found_by_kubelet(logins, image)
    assert found_by_kubelet(answered, image) == found_by_kubelet(logins, image)


@given(WILD, WILD)
def test_no_key_at_all_covers_more_than_the_kubelet_says(key: str, image: str) -> None:
    """Whatever a key looks like, the plugin offers no login that the kubelet would not."""
    assert not found_by_plugin([(key, "u")], image) or found_by_kubelet([(key, "u")], image)
