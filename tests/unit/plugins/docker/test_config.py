"""Docker configs, alone and in mounted secrets, read as the kubelet reads them and never quoted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from keyferry.errors import PullSecretError
from keyferry.images.dockerconfig import parse_docker_config_json
from keyferry.sdk import ProvideError
from keyferry_plugins.docker.config import (
    Login,
    parse_config,
    parse_old_config,
    read_config_file,
    read_secrets,
)
from support.docker_configs import auth, config, logins_of

SECRET = "s3cret-that-shows"


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


def test_a_file_open_to_others_is_noted_and_used(tmp_path: Path) -> None:
    """Mounted secrets often are readable for all, so that is a note and no refusal."""
    notes: list[str] = []
    read_config_file(str(write(tmp_path / "private.json", "{}", 0o600)), notes)
    assert notes == []
    read_config_file(str(write(tmp_path / "open.json", "{}", 0o644)), notes)
    assert len(notes) == 1
    assert "mode 644" in notes[0]


def test_a_file_longer_than_any_secret_is_refused(tmp_path: Path) -> None:
    """A device or a log under that name does not fill the memory."""
    with pytest.raises(ProvideError, match="longer than 1048576 bytes"):
        read_config_file("/dev/zero", [])
    with pytest.raises(ProvideError, match="no such file"):
        read_config_file(str(tmp_path / "absent"), [])
