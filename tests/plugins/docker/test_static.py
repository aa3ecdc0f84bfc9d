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

from keyferry.errors import MatchError, PullSecretError
from keyferry.images.dockerconfig import parse_docker_config_json
from keyferry.images.keyring import Keyring, Source, SourceKind
from keyferry.images.match import matches as kubelet_covers
from keyferry.images.match import normalise_key
from keyferry.sdk import ProvideError
from keyferry_plugins.docker.config import (
    Login,
    parse_config,
    parse_old_config,
    read_config_file,
    read_secrets,
)
from keyferry_plugins.docker.keyring import choose_logins, matches, normalise, parse_host_path
from support.docker_configs import auth, config, logins_of
from support.plugins import write_executable
from support.reference import ask_image
from support.registry_keys import IMAGE, KEY

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
def test_entries_are_read_as_the_kubelet_reads_them(entry: object) -> None:
    """The same user name and password as in the kubelet, or both refuse the file."""
    content = json.dumps({"auths": {"reg.io": entry}, "HttpHeaders": {}}).encode()
    try:
        expected = {
            key: (one.username, one.password) for key, one in parse_docker_config_json(content).items()
        }
    except PullSecretError:
        with pytest.raises(ProvideError):
            parse_config(content, "file")
        return
    assert logins_of([parse_config(content, "file")]) == expected


@pytest.mark.parametrize(
    "content",
    [
        f'{{"auths": {{"reg.io": {{"auth": "{SECRET}'.encode(),
        json.dumps({"auths": {"reg.io": {"auth": auth(SECRET)}}}).encode(),
        json.dumps({"auths": {"reg.io": {"auth": SECRET + "!"}}}).encode(),
        json.dumps({"auths": {f"https://me:{SECRET}@reg.io/x": {"auth": 3}}}).encode(),
        json.dumps({"auths": [SECRET]}).encode(),
        json.dumps([SECRET]).encode(),
        b'{"auths":' * 20000,
        b"\xff\xfe" + SECRET.encode(),
    ],
)
def test_no_error_quotes_a_file(content: bytes) -> None:
    """What is wrong is said by place and expectation, never by what stands there."""
    with pytest.raises(ProvideError) as caught:
        parse_config(content, "docker config 'f'")
    assert SECRET not in repr(caught.value)
    assert auth(SECRET) not in repr(caught.value)
    assert "docker config 'f'" in str(caught.value)
    # Whoever prints the chain of causes prints no more.
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_login_does_not_show_its_password() -> None:
    """A repr of what was read holds no secret."""
    read = parse_config(config(**{"reg.io": f"u:{SECRET}"}).encode(), "f")
    assert SECRET not in repr(read)
    assert read.logins["reg.io"].password == SECRET


def test_empty_entries_of_docker_are_no_logins_and_identity_tokens_are_told_apart() -> None:
    """An entry that a helper left behind gives nothing; one with an identity token says so."""
    content = {
        "auths": {"a.io": {}, "b.io": {"auth": auth("u:"), "identitytoken": "t"}},
        "credsStore": "pass",
    }
    read = parse_config(json.dumps(content).encode(), "f")
    assert read.logins == {"b.io": Login(username="u", password="", has_identity_token=True)}
    assert read.store == "pass"


def test_the_old_form_is_the_entries_alone() -> None:
    """A .dockercfg has no auths around its entries."""
    read = parse_old_config(json.dumps({"reg.io": {"auth": auth("u:p")}}).encode(), "f")
    assert logins_of([read]) == {"reg.io": ("u", "p")}


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_folder_of_secrets_is_read_with_the_folders_right_below(tmp_path: Path) -> None:
    """Mounted secrets of all three kinds, side by side, and nothing deeper."""
    write(tmp_path / "one" / ".dockerconfigjson", config(**{"one.io": "u1:p1"}))
    write(tmp_path / "two" / ".dockercfg", json.dumps({"two.io": {"auth": auth("u2:p2")}}))
    write(tmp_path / "three" / "username", "u3\n")
    write(tmp_path / "three" / "password", " p3 \r\n")
    write(tmp_path / "three" / "registry", "three.io\n\nalso.io\n")
    write(tmp_path / "four.json", config(**{"four.io": "u4:p4"}))
    write(tmp_path / "five" / "deep" / ".dockerconfigjson", config(**{"five.io": "u5:p5"}))
    write(tmp_path / "notes.txt", "none")
    write(tmp_path / "six" / "username", "u6")
    assert logins_of(list(read_secrets(str(tmp_path), []))) == {
        "one.io": ("u1", "p1"),
        "two.io": ("u2", "p2"),
        "three.io": ("u3", " p3 "),
        "also.io": ("u3", " p3 "),
        "four.io": ("u4", "p4"),
    }


def test_a_mounted_secret_is_read_in_one_version(tmp_path: Path) -> None:
    """The files that Kubernetes swaps by one link are read behind that link, and once."""
    version = tmp_path / "..2026_01_01"
    for name, text in {"username": "new", "password": "new-word", "registry": "reg.io"}.items():
        write(version / name, text)
        # What a half-done update would leave in the folder itself.
        write(tmp_path / name, "old")
    os.symlink(version.name, tmp_path / "..data")
    found = list(read_secrets(str(tmp_path), []))
    assert logins_of(found) == {"reg.io": ("new", "new-word")}
    assert len(found) == 1


def test_a_broken_secret_does_not_spoil_the_others(tmp_path: Path) -> None:
    """Each secret is a login or an error of its own."""
    write(tmp_path / "a" / ".dockerconfigjson", "{")
    write(tmp_path / "b" / ".dockerconfigjson", config(**{"b.io": "u:p"}))
    (tmp_path / "c" / "username").mkdir(parents=True)
    write(tmp_path / "c" / "password", "p")
    write(tmp_path / "c" / "registry", "c.io")
    write(tmp_path / "d" / "username", "u")
    (tmp_path / "d" / "password").write_bytes(b"\xff")
    write(tmp_path / "d" / "registry", "d.io")
    found = list(read_secrets(str(tmp_path), []))
    assert logins_of(found) == {"b.io": ("u", "p")}
    problems = [str(each) for each in found if isinstance(each, ProvideError)]
    assert len(problems) == 3
    assert "is not JSON" in problems[0]
    assert "is a directory" in problems[1]
    assert "is not UTF-8" in problems[2]


def test_a_file_longer_than_any_secret_is_refused(tmp_path: Path) -> None:
    """A device or a log under that name does not fill the memory."""
    with pytest.raises(ProvideError, match="longer than 1048576 bytes"):
        read_config_file("/dev/zero", [])
    with pytest.raises(ProvideError, match="no such file"):
        read_config_file(str(tmp_path / "absent"), [])


WILD = st.text(st.sampled_from("ab.*:/@#?[]%2\r\n \x7f\\é{"), max_size=12)


def by_kubelet(key: str, image: str) -> bool:
    """Whether the kubelet, keeping a login under *key*, would offer it for *image*."""
    try:
        return kubelet_covers(normalise_key(key), image)
    except MatchError:
        return False


def by_plugin(key: str, image: str) -> bool:
    """Whether the plugin answers with a login kept under *key* for *image*."""
    place, asked = normalise(key), parse_host_path(image)
    return place is not None and asked is not None and matches(place, asked)


@given(KEY, IMAGE)
def test_ordinary_keys_cover_what_the_kubelet_says(key: str, image: str) -> None:
    """Schemes, globs, ports, API versions, user info, queries: the plugin and the kubelet agree."""
    assert by_plugin(key, image) is by_kubelet(key, image)


@given(WILD, WILD)
def test_no_key_at_all_covers_more_than_the_kubelet_says(key: str, image: str) -> None:
    """Whatever a key looks like, the plugin offers no login that the kubelet would not."""
    assert not by_plugin(key, image) or by_kubelet(key, image)


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        ("https://index.docker.io/v1/", "index.docker.io"),
        ("http://reg.io/v2/team", "reg.io/team"),
        ("reg.io/", "reg.io"),
        ("reg.io:5000/v2/", "reg.io:5000"),
        ("me:pw@reg.io", "reg.io"),
        ("[::1]:5000", "[::1]:5000"),
        ("reg.io/v1", "reg.io/v1"),
    ],
)
def test_keys_are_written_in_the_kubelets_form(key: str, kept: str) -> None:
    """What the kubelet would make of a key is what is answered."""
    assert str(normalise(key)) == kept == normalise_key(key)


@pytest.mark.parametrize(
    "key", ["", "/", "reg.io:http", "reg .io", "reg.io\n", "[::1]", "re%67.io", "reg.io/%zz"]
)
def test_keys_that_name_no_place_are_given_up(key: str) -> None:
    """A key without a usable host is not answered under."""
    assert normalise(key) is None


@given(st.lists(KEY, max_size=4), IMAGE)
def test_what_is_answered_is_what_the_kubelet_then_finds(keys: list[str], image: str) -> None:
    """A look-up in the plugin's answer gives the logins that one in the file itself would give."""
    entries = [(key, Login(username=f"user{at}", password="word")) for at, key in enumerate(keys)]
    in_file, in_answer = Keyring(), Keyring()
    in_file.add(
        Source(kind=SourceKind.PROVIDER, name=""),
        ((key, login.username, "word", "") for key, login in entries),
    )
    kept = choose_logins(entries, image, "Image")
    in_answer.add(
        Source(kind=SourceKind.PROVIDER, name=""),
        ((str(place), login.username, "word", "") for place, login in kept),
    )
    names = sorted(found.username for found in in_file.lookup(image))
    assert sorted(found.username for found in in_answer.lookup(image)) == names
    assert len(kept) == len(names)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("Image", ["host", "team"]),
        ("Registry", ["host", "team", "other"]),
        ("Global", ["host", "team", "other", "far"]),
    ],
)
def test_a_wider_cache_key_has_the_logins_of_all_it_serves(kind: str, names: list[str]) -> None:
    """An answer kept for a registry serves its other images too, so their logins are in it."""
    entries = [
        ("reg.io", Login(username="host", password="w")),
        ("reg.io/team", Login(username="team", password="w")),
        ("reg.io/other", Login(username="other", password="w")),
        ("far.io", Login(username="far", password="w")),
    ]
    kept = choose_logins(entries, "reg.io/team/app", kind)
    assert [login.username for _, login in kept] == names
