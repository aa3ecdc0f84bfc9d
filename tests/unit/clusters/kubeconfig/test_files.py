"""Kubeconfig files are found, decoded and merged by kubectl's rules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.clusters.kubeconfig.files import LoadedKubeconfig, load_kubeconfig, read_kubeconfigs
from keyferry.errors import ConfigError

SECRET = "s3cr3t-marker"


def write(path: Path, *lines: str) -> str:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def load(*paths: str, cwd: str | None = None) -> LoadedKubeconfig:
    """What a KUBECONFIG of several paths comes to."""
    return load_kubeconfig(environ={"KUBECONFIG": os.pathsep.join(paths)}, cwd=cwd)


def refusal(*paths: str) -> ConfigError:
    """What is raised for the files at *paths*."""
    with pytest.raises(ConfigError) as raised:
        load(*paths)
    return raised.value


def test_an_explicit_file_goes_before_everything(tmp_path: Path) -> None:
    listed = write(tmp_path / "listed", "current-context: listed")
    explicit = write(tmp_path / "explicit", "current-context: explicit")
    loaded = load_kubeconfig(explicit, environ={"KUBECONFIG": listed})
    assert loaded.config.current_context == "explicit"
    assert loaded.paths == (explicit,)


def test_without_any_list_the_file_in_the_home_folder_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / ".kube/config", "current-context: home")
    assert load_kubeconfig(environ={"HOME": str(tmp_path)}).paths == (path,)
    assert load_kubeconfig(environ={}, home=str(tmp_path)).config.current_context == "home"
    assert load_kubeconfig(environ={}, cwd=str(tmp_path)).paths == (".kube/config",)


def test_a_missing_explicit_file_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "nope")
    with pytest.raises(ConfigError) as raised:
        load_kubeconfig(path, environ={})
    assert raised.value.kubernetes_text == f"stat {path}: no such file or directory"
    assert str(raised.value) == f"{path}: there is no such file"


def test_missing_files_are_passed_over_with_a_warning_when_none_is_left(tmp_path: Path) -> None:
    there = write(tmp_path / "there", "current-context: c")
    assert load("/nope", there, "", there).warnings == ()
    assert load("/nope", there).missing == ("/nope",)
    assert load("/nope", "/nada", "/nope").warnings == ("Config not found: /nope, /nada",)
    assert load(":", "").warnings == ()
    assert load_kubeconfig(environ={}, home=str(tmp_path)).warnings == ()


def test_the_warning_stands_beside_errors(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad", "kind: Pod")
    loaded = read_kubeconfigs(environ={"KUBECONFIG": f"/nope:{bad}"})
    assert loaded.warnings == ("Config not found: /nope",)
    assert loaded.problems


def test_the_first_file_wins_an_entry_as_a_whole(tmp_path: Path) -> None:
    first = write(tmp_path / "a", "users: [{name: u, user: {username: me}}]", "current-context: ''")
    second = write(
        tmp_path / "b", "users: [{name: u, user: {token: t}}, {name: v}]", "current-context: second"
    )
    third = write(tmp_path / "c", "current-context: third", "preferences: {colors: true}")
    loaded = load(first, second, third)
    assert {name: user.origin for name, user in loaded.config.users.items()} == {"u": first, "v": second}
    assert loaded.config.users["u"].token == ""
    assert loaded.config.current_context == "second"
    assert loaded.config.preferences.colors


@pytest.mark.parametrize(
    ("command", "resolved"),
    [
        ("plugin", "plugin"),
        ("..", ".."),
        ("./plugin", "{base}/plugin"),
        ("../a//b/../c", "{parent}/a/c"),
        ("/x/../y", "/x/../y"),
        ("~/p", "{base}/~/p"),
    ],
)
@pytest.mark.parametrize("named", ["absolute", "relative"])
def test_paths_count_from_the_folder_of_their_file(
    tmp_path: Path, command: str, resolved: str, named: str
) -> None:
    path = write(
        tmp_path / "sub/config",
        f"users: [{{name: u, user: {{tokenFile: tok, client-key: /k, exec: {{command: '{command}'}}}}}}]",
        "clusters: [{name: k, cluster: {certificate-authority: ca.crt}}]",
    )
    loaded = load(path if named == "absolute" else "sub/config", cwd=str(tmp_path))
    user = loaded.config.users["u"]
    base = f"{tmp_path}/sub"
    assert user.exec is not None
    assert user.exec.command == resolved.format(base=base, parent=tmp_path)
    assert (user.token_file, user.client_key, user.client_certificate) == (f"{base}/tok", "/k", "")
    assert loaded.config.clusters["k"].certificate_authority == f"{base}/ca.crt"


@pytest.mark.parametrize(
    "text", ["", "# nothing", "---", "null", "kind: Config", "apiVersion: v1", "apiVersion: /v1"]
)
def test_what_is_left_out_is_taken_for_a_v1_config(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path / "c", text)).config.is_empty


@pytest.mark.parametrize(
    ("text", "kubernetes_text", "where", "error_class"),
    [
        (
            "kind: Pod",
            'no kind "Pod" is registered for version "v1" in scheme "<scheme>"',
            "1:1: kind: ",
            "unknown-type",
        ),
        (
            "x: 1\napiVersion: a/v1",
            'no kind "Config" is registered for version "a/v1" in scheme "<scheme>"',
            "2:1: apiVersion: ",
            "unknown-type",
        ),
        ("apiVersion: a/b/c", "unexpected GroupVersion string: a/b/c", "1:1: apiVersion: ", "group-version"),
        (
            "apiVersion: a/",
            "Object 'apiVersion' is missing in 'apiVersion: a/\n'",
            "1:1: apiVersion: ",
            "missing-apiversion",
        ),
        ("- a", "couldn't get version/kind; json parse error: json: ", "1:1: found an array", "wrong-type"),
        ("kind: 1", "couldn't get version/kind; json parse error: json: ", "1:1: kind: found", "wrong-type"),
        ("{bad", "yaml: ", "2:1: not valid YAML", "yaml-syntax"),
        (
            "users:\n- name: u\n  user: {token: 5}",
            "json: cannot unmarshal number",
            "3:10: users[0].user.token: found a number, expected a string",
            "wrong-type",
        ),
        (
            "users:\n- name: u\n  user: {client-key-data: x}",
            "illegal base64 data at input byte 0",
            "3:10: users[0].user.client-key-data: the value is not base64",
            "base64",
        ),
        (
            "users:\n- name: u\n- name: u",
            'error converting *[]NamedAuthInfo into *map[string]*api.AuthInfo: duplicate name "u" in list: ',
            "3:3: users[1].name: the name 'u' is given twice",
            "other",
        ),
    ],
    ids=lambda value: value.partition("\n")[0][:30],
)
def test_what_is_wrong_is_said_in_two_tongues_and_with_its_place(
    tmp_path: Path, text: str, kubernetes_text: str, where: str, error_class: str
) -> None:
    path = write(tmp_path / "c", text)
    error = refusal(path)
    assert error.kubernetes_text.startswith(f'error loading config file "{path}": {kubernetes_text}')
    assert str(error).startswith(f"{path}:{where}")
    assert read_kubeconfigs(path).files[0].kind == error_class


def test_all_problems_of_all_files_are_named(tmp_path: Path) -> None:
    first = write(tmp_path / "a", "kind: Pod")
    second = write(tmp_path / "b", "users: [{name: 1}]", "current-context: 2")
    error = refusal(first, second, first)
    assert [problem.path for problem in error.problems] == ["kind", "users[0].name", "current-context"]
    assert error.kubernetes_text.startswith(f'[error loading config file "{first}": no kind "Pod"')
    assert f', error loading config file "{second}": json: cannot unmarshal' in error.kubernetes_text


def test_what_cannot_be_read_is_an_error_in_gos_words(tmp_path: Path) -> None:
    assert refusal(str(tmp_path)).kubernetes_text == (
        f'error loading config file "{tmp_path}": read {tmp_path}: is a directory'
    )
    path = write(tmp_path / "file") + "/x"
    assert (
        refusal(path).kubernetes_text == f'error loading config file "{path}": open {path}: not a directory'
    )
    with pytest.raises(ConfigError, match="cannot be read: invalid argument"):
        load_kubeconfig("a\0b", environ={})


def test_no_secret_shows(tmp_path: Path) -> None:
    path = write(
        tmp_path / "c",
        f"users: [{{name: u, user: {{token: {SECRET}, client-key-data: '{SECRET}!'}}}}, {{name: u}}]",
    )
    error = refusal(path)
    assert SECRET not in str(error) + repr(error) + repr(error.problems)
    assert SECRET not in repr(read_kubeconfigs(path))
    assert SECRET not in error.kubernetes_text
