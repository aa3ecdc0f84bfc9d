"""``keyferry bridge docker``: a diff, then the helper in the configs of docker's tools, and back, every byte kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry.bridge.docker_config import (
    DROP_IN,
    docker_config_path,
    helped_hosts,
    plan_containers_install,
    plan_containers_uninstall,
    plan_docker_install,
    plan_docker_uninstall,
)
from keyferry.bridge.docker_login import Server, parse_server
from keyferry.bridge.file_change import FileChange, apply_change
from keyferry.errors import EnvironmentProblem
from support.commands import run_in_process
from support.plugins import Node

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners of Unix")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A docker config with a login."""
    path = tmp_path / "config.json"
    path.write_text('{"auths": {"x.io": {"auth": "c2VjcmV0"}}, "credsStore": "pass"}')
    return path


def bridge(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    places = ("--docker-config", str(config), "--registries-dir", str(config.parent / "registries.conf.d"))
    return run_in_process("bridge", "docker", *words, *places)


def test_install_status_and_uninstall(config: Path) -> None:
    text = config.read_text()
    before = json.loads(text)
    done = bridge(config, "install", "https://reg.io/v2/", "docker.io", "--dry-run")
    assert (done.returncode, json.loads(config.read_text())) == (0, before)
    assert '+"credHelpers": {"reg.io": "keyferry", "https://' in done.stdout
    assert "c2VjcmV0" not in done.stdout + done.stderr
    assert bridge(config, "install", "https://reg.io/v2/", "docker.io").stdout == done.stdout
    helpers = dict.fromkeys(("reg.io", "https://index.docker.io/v1/", "docker.io"), "keyferry")
    assert json.loads(config.read_text()) == {**before, "credHelpers": helpers}
    assert "nothing to change" in bridge(config, "install", "reg.io").stderr
    shown = bridge(config, "status")
    assert (shown.returncode, [line.split()[0] for line in shown.stdout.splitlines()[1:]]) == (
        0,
        list(helpers),
    )
    bridge(config, "uninstall", "docker.io")
    assert json.loads(config.read_text())["credHelpers"] == {"reg.io": "keyferry"}
    bridge(config, "uninstall")
    assert config.read_text() == text
    assert bridge(config, "status").returncode == 1


def test_without_a_host_those_of_the_config_are_used(config: Path, node: Node) -> None:
    node.provider(matchImages=["reg.io", "*.io", "r.io/path"])
    node.recording()
    node.load()
    words = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
    assert bridge(config, "install", *words).returncode == 0
    assert json.loads(config.read_text())["credHelpers"] == {"reg.io": "keyferry"}


def test_a_host_keeps_the_port_that_images_have(config: Path, node: Node) -> None:
    """The tools look for it so, with a default port too."""
    node.provider(matchImages=["port.example:443"])
    node.recording()
    node.load()
    words = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
    assert bridge(config, "install", *words).returncode == 0
    assert bridge(config, "install", "https://two.example:443", "three.example").returncode == 0
    helpers = dict.fromkeys(("port.example:443", "two.example:443", "three.example"), "keyferry")
    assert json.loads(config.read_text())["credHelpers"] == helpers
    assert bridge(config, "uninstall", "two.example:443").returncode == 0
    assert "two.example:443" not in config.read_text()


def test_the_containers_tools_get_a_file_of_its_own(config: Path) -> None:
    done = bridge(config, "install", "--containers")
    own = config.parent / "registries.conf.d" / "zz-keyferry.conf"
    assert '+credential-helpers = ["containers-auth.json", "keyferry"]' in done.stdout
    assert '"keyferry"]' in own.read_text()
    (found,) = json.loads(bridge(config, "status", "-o", "json").stdout)["registries"]
    assert found == {"registry": "*", "file": str(own)}
    bridge(config, "uninstall", "--containers")
    assert not own.exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["install", "--containers", "reg.io"], "give no HOST"),
        (["install", "reg.io/path"], "is not a registry"),
        (["install", "a b"], "is not a registry"),
    ],
)
def test_wrong_usage_is_explained(config: Path, words: list[str], problem: str) -> None:
    done = bridge(config, *words)
    assert (done.returncode, problem in done.stderr) == (2, True)


CONFIG = """{
\t"auths": {
\t\t"other.example": {
\t\t\t"auth": "c2VjcmV0LXdvcmQ="
\t\t}
\t},
\t"credsStore": "pass",
\t"proxies": {
\t\t"default": {
\t\t\t"httpProxy": "http://u:secret-word@proxy"
\t\t}
\t}
}"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A docker config with a login and a credsStore."""
    path = tmp_path / "docker" / "config.json"
    path.parent.mkdir()
    path.write_text(CONFIG)
    path.chmod(0o640)
    return path


def install(path: Path, *hosts: str) -> FileChange:
    change = plan_docker_install(str(path), hosts)
    apply_change(change)
    return change


def test_there_and_back_everything_is_kept(path: Path) -> None:
    install(path, "reg.io", "a.io:5000")
    expected = {**json.loads(CONFIG), "credHelpers": {"reg.io": "keyferry", "a.io:5000": "keyferry"}}
    assert json.loads(path.read_text()) == expected
    assert helped_hosts(str(path)) == ("reg.io", "a.io:5000")
    assert path.stat().st_mode & 0o777 == 0o640
    apply_change(plan_docker_uninstall(str(path), ["reg.io"]))
    assert helped_hosts(str(path)) == ("a.io:5000",)
    apply_change(plan_docker_uninstall(str(path)))
    assert path.read_text() == CONFIG


def test_the_diff_shows_the_helpers_and_no_secret(path: Path) -> None:
    change = plan_docker_install(str(path), ["reg.io"])
    added = [line for line in change.diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert any('"reg.io": "keyferry"' in line for line in added)
    for secret in ("c2VjcmV0", "secret-word"):
        assert secret not in change.diff
        assert secret not in repr(change)


def test_another_helper_is_kept(path: Path) -> None:
    path.write_text('{"credHelpers": {"reg.io": "ecr-login", "b.io": "keyferry"}}')
    change = install(path, "reg.io", "c.io")
    assert change.notes == ("reg.io keeps its helper 'ecr-login'",)
    assert json.loads(path.read_text())["credHelpers"] == {
        "reg.io": "ecr-login",
        "b.io": "keyferry",
        "c.io": "keyferry",
    }
    apply_change(plan_docker_uninstall(str(path)))
    assert json.loads(path.read_text()) == {"credHelpers": {"reg.io": "ecr-login"}}


def test_a_config_that_is_not_there_is_made_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.json"
    install(path, "reg.io")
    assert json.loads(path.read_text()) == {"credHelpers": {"reg.io": "keyferry"}}
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_diff_of_a_new_config_takes_nothing_away(tmp_path: Path) -> None:
    change = plan_docker_install(str(tmp_path / "config.json"), ["ghcr.io"])
    assert [line for line in change.diff.splitlines()[2:] if line.startswith("-")] == []
    assert "+{" in change.diff.splitlines()


@pytest.mark.parametrize("empty", ["{}", "[]", "null"])
def test_the_diff_takes_away_helpers_that_are_empty(path: Path, empty: str) -> None:
    path.write_text(f'{{"a": 1, "credHelpers": {empty}}}')
    change = install(path, "reg.io")
    assert change.diff.splitlines()[3:] == [
        f'-"credHelpers": {empty}',
        '+"credHelpers": {"reg.io": "keyferry"}',
    ]


@pytest.mark.parametrize("text", ["[]", "{", "null", '{"credHelpers": []  , "x": 1', '{"credHelpers": "x"}'])
def test_a_config_that_cannot_be_read_is_left(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(EnvironmentProblem, match="nothing is changed"):
        plan_docker_install(str(path), ["reg.io"])
    assert path.read_text() == text


def test_a_config_that_changes_meanwhile_is_left(path: Path) -> None:
    change = plan_docker_install(str(path), ["reg.io"])
    path.write_text("{}")
    with pytest.raises(EnvironmentProblem, match="has been changed meanwhile"):
        apply_change(change)
    assert path.read_text() == "{}"


def test_a_link_to_a_config_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "config.json"
    link.symlink_to(path)
    install(link, "reg.io")
    assert link.is_symlink()
    assert helped_hosts(str(path)) == ("reg.io",)


def test_the_style_of_the_file_is_kept(path: Path) -> None:
    text = '{\n  "a": "\\u00e9 \\ud800"\n}\n'
    path.write_text(text)
    install(path, "reg.io")
    assert path.read_text().startswith('{\n  "a": "\\u00e9 \\ud800",\n  "credHelpers"')
    apply_change(plan_docker_uninstall(str(path)))
    assert path.read_text() == text


STYLES = {
    "tabs": CONFIG,
    "two spaces": '{\n  "auths": {"x.io": {"auth": "c2VjcmV0"}, "y.io": {}},\n  "psFormat": "a"\n}\n',
    "four spaces": '{\n    "auths": {\n        "x.io": {}\n    }\n}\n',
    "inline": '{"auths": {"x.io": {"auth": "c2VjcmV0"}}, "credsStore": "pass"}',
    "inline, one member": '{"auths": {}}\n',
    "compact": '{"auths":{"x.io":{}},"credsStore":"pass"}',
    "inline objects elsewhere": '{\n\t"HttpHeaders": {"A": "c2VjcmV0",   "B": [1,2 , 3]},\n\t"auths": { }\n}\n',
    "CRLF": '{\r\n  "auths": {\r\n    "x.io": {}\r\n  },\r\n  "a": 1\r\n}\r\n',
    "blank lines": '\n{\n\n\t"a": 1,\n\n\n\t"b": 2\n\n}\n\n',
    "nothing": "{}",
    "nothing, with a blank": "{ }\n",
    "nothing, on lines": "{\n}\n",
    "nothing, on lines with CRLF": "{\r\n}\r\n",
    "numbers and escapes": '{\n  "a": 1.0e+2,\n  "b": "\\u00e9\\/é"\n}',
    "helpers of others": '{\n\t"credHelpers": {\n\t\t"o.io": "ecr-login"\n\t},\n\t"a": { "b" : 1 }\n}',
    "helpers of others, inline": '{\n  "credHelpers": {"o.io": "ecr-login"},\n  "a": {}\n}\n',
    "helpers of others, compact": '{"credHelpers":{"o.io":"ecr-login"},"a":{}}',
}


@pytest.mark.parametrize("style", STYLES)
def test_there_and_back_order_and_values_are_kept(path: Path, style: str) -> None:
    text = STYLES[style].encode()
    path.write_bytes(text)
    change = install(path, "reg.io", "a.io:5000")
    both = {"reg.io": "keyferry", "a.io:5000": "keyferry"}
    document = json.loads(text)
    expected = {**document, "credHelpers": {**document.get("credHelpers", {}), **both}}
    assert json.dumps(json.loads(path.read_bytes())) == json.dumps(expected)
    assert "c2VjcmV0" not in change.diff
    for removed in (["a.io:5000"], ["reg.io"]):
        apply_change(plan_docker_uninstall(str(path), removed))
    assert json.dumps(json.loads(path.read_bytes())) == json.dumps(document)
    assert path.read_bytes().endswith(b"\n") is text.endswith(b"\n")
    assert path.read_bytes().count(b"\r") == (path.read_bytes().count(b"\n") if b"\r" in text else 0)


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("tabs", '\t},\n\t"credHelpers": {\n\t\t"reg.io": "keyferry",\n\t\t"b.io": "keyferry"\n\t}\n}'),
        (
            "two spaces",
            '  "psFormat": "a",\n  "credHelpers": {\n    "reg.io": "keyferry",\n    "b.io": "keyferry"\n  }\n}\n',
        ),
        ("inline", '"pass", "credHelpers": {"reg.io": "keyferry", "b.io": "keyferry"}}'),
        ("compact", '"pass", "credHelpers": {"reg.io": "keyferry", "b.io": "keyferry"}}'),
        (
            "CRLF",
            '  "a": 1,\r\n  "credHelpers": {\r\n    "reg.io": "keyferry",\r\n    "b.io": "keyferry"\r\n  }\r\n}\r\n',
        ),
        ("nothing", '{"credHelpers": {"reg.io": "keyferry", "b.io": "keyferry"}}'),
        (
            "nothing, on lines",
            '{\n\t"credHelpers": {\n\t\t"reg.io": "keyferry",\n\t\t"b.io": "keyferry"\n\t}\n}\n',
        ),
        (
            "helpers of others",
            '"ecr-login",\n\t\t"reg.io": "keyferry",\n\t\t"b.io": "keyferry"\n\t},\n\t"a": {\n\t\t"b": 1\n\t}\n}',
        ),
    ],
)
def test_helpers_are_written_as_the_file_is(path: Path, style: str, expected: str) -> None:
    path.write_bytes(STYLES[style].encode())
    install(path, "reg.io", "b.io")
    assert path.read_bytes().decode().endswith(expected)


def test_the_diff_is_the_helpers_as_they_are_written(path: Path) -> None:
    path.write_text('{"auths": {"x": "c2VjcmV0"}, "credHelpers": {"o.io": "x"}}')
    shown = plan_docker_install(str(path), ["reg.io"]).diff.splitlines()[2:]
    assert shown == [
        "@@ credHelpers @@",
        '-"credHelpers": {"o.io": "x"}',
        '+"credHelpers": {"o.io": "x", "reg.io": "keyferry"}',
    ]
    path.write_text(CONFIG)
    shown = install(path, "reg.io").diff.splitlines()[2:]
    assert shown == ["@@ credHelpers @@", '+\t"credHelpers": {', '+\t\t"reg.io": "keyferry"', "+\t}"]
    shown = plan_docker_install(str(path), ["b.io"]).diff.splitlines()[2:]
    assert shown == [
        "@@ credHelpers @@",
        ' \t"credHelpers": {',
        '-\t\t"reg.io": "keyferry"',
        '+\t\t"reg.io": "keyferry",',
        '+\t\t"b.io": "keyferry"',
        " \t}",
    ]


def test_helpers_that_are_null_are_replaced(path: Path) -> None:
    path.write_text('{"credHelpers": null, "a":  1}')
    install(path, "reg.io")
    assert path.read_text() == '{"credHelpers": {"reg.io": "keyferry"}, "a": 1}'


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_gets_a_whole_config(path: Path, text: str) -> None:
    path.write_text(text)
    install(path, "reg.io")
    assert path.read_text().rstrip() == '{\n\t"credHelpers": {\n\t\t"reg.io": "keyferry"\n\t}\n}'


@pytest.mark.parametrize("number", ["1e999", "NaN"])
def test_a_number_that_json_cannot_write_is_left(path: Path, number: str) -> None:
    path.write_text(f'{{"a": {number}}}')
    with pytest.raises(EnvironmentProblem, match="change it by hand"):
        plan_docker_install(str(path), ["reg.io"])


def test_members_that_are_there_twice_are_left(path: Path) -> None:
    """Docker may merge them; written anew, the first would be lost."""
    text = '{"credHelpers": {"a.io": "keyferry"}, "credHelpers": {"a.io": "keyferry"}}'
    path.write_text(text)
    with pytest.raises(EnvironmentProblem, match="cannot be edited; change it by hand"):
        plan_docker_uninstall(str(path))


def test_the_drop_in_keeps_the_helpers_that_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "registries.conf.d"
    folder.mkdir()
    (tmp_path / "registries.conf").write_text('credential-helpers = ["one"]\n')
    apply_change(plan_containers_install(str(folder)))
    own = folder / DROP_IN
    assert own.read_text().splitlines()[1] == 'credential-helpers = ["one", "keyferry"]'
    (folder / "50-more.conf").write_text('credential-helpers = ["two", "three"]\n')
    apply_change(plan_containers_install(str(folder)))
    assert own.read_text().splitlines()[1] == 'credential-helpers = ["two", "three", "keyferry"]'
    apply_change(plan_containers_uninstall(str(folder)))
    assert [each.name for each in folder.iterdir()] == ["50-more.conf"]
    assert plan_containers_uninstall(str(folder)).before is None


def test_the_drop_in_starts_with_the_tools_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "none" / "registries.conf.d"
    apply_change(plan_containers_install(str(folder)))
    assert '["containers-auth.json", "keyferry"]' in (folder / DROP_IN).read_text()
    assert (folder / DROP_IN).stat().st_mode & 0o777 == 0o644


def test_somebody_elses_drop_in_is_left(tmp_path: Path) -> None:
    (tmp_path / DROP_IN).write_text("theirs = 1\n")
    for plan in (plan_containers_install, plan_containers_uninstall):
        with pytest.raises(EnvironmentProblem, match="was not written by keyferry"):
            plan(str(tmp_path))
    (tmp_path / DROP_IN).unlink()
    (tmp_path / "x.conf").write_text("= broken")
    with pytest.raises(EnvironmentProblem, match="is not TOML"):
        plan_containers_install(str(tmp_path))


def test_dockers_config_is_where_docker_looks() -> None:
    assert docker_config_path({"DOCKER_CONFIG": "/d"}) == "/d/config.json"
    assert docker_config_path({}).endswith("/.docker/config.json")


HUB = Server(hosts=("docker.io",))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        # docker, buildkit, oras, crane, stargz, soci; podman; other names of the same
        ("https://index.docker.io/v1/", HUB),
        ("index.docker.io/v1/", HUB),
        ("docker.io", HUB),
        ("https://registry-1.docker.io", HUB),
        ("registry-1.docker.io:443", HUB),
        ("index.docker.io/library/alpine", Server(hosts=("docker.io",), path="library/alpine")),
        ("Reg.IO", Server(hosts=("reg.io",))),
        ("https://reg.io/", Server(hosts=("reg.io",))),
        ("https://reg.io/v2/", Server(hosts=("reg.io",))),
        ("https://reg.io/v2/team/app", Server(hosts=("reg.io",), path="team/app")),
        # crane, with a credsStore: the repository first, then the host
        ("reg.io/team/app", Server(hosts=("reg.io",), path="team/app")),
        # nerdctl
        ("reg.io:443", Server(hosts=("reg.io:443", "reg.io"))),
        ("https://reg.io:443", Server(hosts=("reg.io:443", "reg.io"))),
        ("http://reg.io:80", Server(hosts=("reg.io:80", "reg.io"))),
        ("http://reg.io:443", Server(hosts=("reg.io:443",))),
        ("https://reg.io:80", Server(hosts=("reg.io:80",))),
        ("127.0.0.1:5000", Server(hosts=("127.0.0.1:5000",))),
        ("localhost", Server(hosts=("localhost",))),
        ("https://[::1]:5000/v2/", Server(hosts=("[::1]:5000",))),
        ("[::1]", Server(hosts=("[::1]",))),
        ("reg.io?x#y", Server(hosts=("reg.io",))),
        ("docker.io:5000", Server(hosts=("docker.io:5000",))),
    ],
)
def test_a_server_is_the_registry_that_images_name(url: str, expected: Server) -> None:
    assert parse_server(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        *("", "https://", "/", ":5000", "reg.io:", "reg.io:x", "reg.io:123456", "ftp://reg.io", "unix:///x"),
        *(
            "user@reg.io",
            "https://u:p@reg.io",
            "reg.io\nhost=evil.io",
            "reg.io\r",
            "a b",
            "r\u00e9g.io",
            "reg.io/\x00",
        ),
    ],
)
def test_what_names_no_registry(url: str) -> None:
    assert parse_server(url) is None


def test_what_is_longer_than_any_name_is_no_registry() -> None:
    host = "a" * 1016 + ".example"
    assert parse_server(host) == Server(hosts=(host,))
    assert parse_server(f"a{host}") is None
