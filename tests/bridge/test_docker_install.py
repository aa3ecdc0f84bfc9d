"""``keyferry bridge docker``: a diff, then the helper in the configs of docker's tools, and back, every byte kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry import EnvironmentProblem
from keyferry.bridge.docker_config import plan_docker_install
from keyferry.bridge.docker_login import Server, parse_server
from keyferry.bridge.file_change import apply_change
from support.commands import run_in_process
from support.plugins import Node

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners of Unix")
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
def config(tmp_path: Path) -> Path:
    """A docker config with a login and a credsStore."""
    path = tmp_path / "config.json"
    path.write_text(CONFIG)
    path.chmod(0o640)
    return path


def bridge(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    places = ("--docker-config", str(config), "--registries-dir", str(config.parent / "registries.conf.d"))
    return run_in_process("bridge", "docker", *words, *places)


def change(config: Path, *words: str) -> list[str]:
    """Change a config; return the diff, behind the names of the files."""
    done = bridge(config, *words)
    assert done.returncode == 0, done.stderr
    for secret in ("c2VjcmV0", "secret-word"):
        assert secret not in done.stdout + done.stderr
    return done.stdout.splitlines()[2:]


def helpers(config: Path) -> object:
    return json.loads(config.read_text())["credHelpers"]


def test_install_status_and_uninstall(config: Path) -> None:
    """What --dry-run shows is what is done; Docker Hub has its names."""
    hosts = ("https://reg.io/v2/", "docker.io")
    shown = change(config, "install", *hosts, "--dry-run")
    assert config.read_text() == CONFIG
    assert change(config, "install", *hosts) == shown
    expected = dict.fromkeys(("reg.io", "https://index.docker.io/v1/", "docker.io"), "keyferry")
    assert json.loads(config.read_text()) == {**json.loads(CONFIG), "credHelpers": expected}
    assert config.stat().st_mode & 0o777 == 0o640
    assert "nothing to change" in bridge(config, "install", "reg.io").stderr
    status = bridge(config, "status")
    assert (status.returncode, [line.split()[0] for line in status.stdout.splitlines()[1:]]) == (
        0,
        [*expected],
    )
    change(config, "uninstall", "docker.io")
    assert helpers(config) == {"reg.io": "keyferry"}
    change(config, "uninstall")
    assert config.read_text() == CONFIG
    assert bridge(config, "status").returncode == 1


def test_without_a_host_those_of_the_config_are_used(config: Path, node: Node) -> None:
    """With the port that images have: the tools look for it so, with a default port too."""
    node.provider(matchImages=["reg.io", "*.io", "r.io/path", "port.example:443"])
    node.recording()
    node.load()
    change(config, "install", "--config", str(node.config), "--bin-dir", str(node.bin_dir))
    assert helpers(config) == {"reg.io": "keyferry", "port.example:443": "keyferry"}


def test_a_host_keeps_its_port(config: Path) -> None:
    change(config, "install", "https://two.example:443", "three.example")
    assert helpers(config) == {"two.example:443": "keyferry", "three.example": "keyferry"}
    change(config, "uninstall", "two.example:443")
    assert helpers(config) == {"three.example": "keyferry"}


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


def test_dockers_config_is_where_docker_looks(tmp_path: Path) -> None:
    for variable, place in (("DOCKER_CONFIG", "config.json"), ("HOME", ".docker/config.json")):
        folder = tmp_path / variable
        env = {"DOCKER_CONFIG": "", "HOME": "/nowhere", variable: str(folder)}
        assert run_in_process("bridge", "docker", "install", "reg.io", cwd=None, **env).returncode == 0
        assert helpers(folder / place) == {"reg.io": "keyferry"}


def test_another_helper_is_kept(config: Path) -> None:
    config.write_text('{"credHelpers": {"reg.io": "ecr-login", "b.io": "keyferry"}}')
    done = bridge(config, "install", "reg.io", "c.io")
    assert "reg.io keeps its helper 'ecr-login'" in done.stderr
    assert helpers(config) == {"reg.io": "ecr-login", "b.io": "keyferry", "c.io": "keyferry"}
    change(config, "uninstall")
    assert json.loads(config.read_text()) == {"credHelpers": {"reg.io": "ecr-login"}}


def test_a_config_that_is_not_there_is_made_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.json"
    shown = change(path, "install", "reg.io")
    assert "+{" in shown
    assert [line for line in shown if line.startswith("-")] == []
    assert json.loads(path.read_text()) == {"credHelpers": {"reg.io": "keyferry"}}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((text, "nothing is changed") for text in ("[]", "{", "null", '{"credHelpers": []  , "x": 1')),
        ('{"credHelpers": "x"}', "nothing is changed"),
        # Numbers that JSON cannot write.
        *((f'{{"a": {number}}}', "change it by hand") for number in ("1e999", "NaN")),
        # Docker may merge them; written anew, the first would be lost.
        (
            '{"credHelpers": {"a.io": "x"}, "credHelpers": {"a.io": "x"}}',
            "cannot be edited; change it by hand",
        ),
    ],
)
def test_a_config_that_cannot_be_changed_is_left(config: Path, text: str, problem: str) -> None:
    config.write_text(text)
    done = bridge(config, "install", "reg.io")
    assert (done.returncode, problem in done.stderr) == (3, True)
    assert config.read_text() == text


def test_a_config_that_changes_meanwhile_is_left(config: Path) -> None:
    change = plan_docker_install(str(config), ["reg.io"])
    assert "c2VjcmV0" not in repr(change)
    config.write_text("{}")
    with pytest.raises(EnvironmentProblem, match="has been changed meanwhile"):
        apply_change(change)
    assert config.read_text() == "{}"


def test_a_link_to_a_config_stays_a_link(config: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(config)
    change(link, "install", "reg.io")
    assert link.is_symlink()
    assert helpers(config) == {"reg.io": "keyferry"}


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
    "numbers and escapes": '{\n  "a": 1.0e+2,\n  "b": "\\u00e9 \\ud800\\/é"\n}',
    "helpers of others": '{\n\t"credHelpers": {\n\t\t"o.io": "ecr-login"\n\t},\n\t"a": { "b" : 1 }\n}',
    "helpers of others, inline": '{\n  "credHelpers": {"o.io": "ecr-login"},\n  "a": {}\n}\n',
    "helpers of others, compact": '{"credHelpers":{"o.io":"ecr-login"},"a":{}}',
}


@pytest.mark.parametrize("style", STYLES)
def test_there_and_back_order_and_values_are_kept(config: Path, style: str) -> None:
    text = STYLES[style].encode()
    config.write_bytes(text)
    change(config, "install", "reg.io", "a.io:5000")
    both = {"reg.io": "keyferry", "a.io:5000": "keyferry"}
    document = json.loads(text)
    expected = {**document, "credHelpers": {**document.get("credHelpers", {}), **both}}
    assert json.dumps(json.loads(config.read_bytes())) == json.dumps(expected)
    for removed in ("a.io:5000", "reg.io"):
        change(config, "uninstall", removed)
    after = config.read_bytes()
    assert json.dumps(json.loads(after)) == json.dumps(document)
    assert after.endswith(b"\n") is text.endswith(b"\n")
    assert after.count(b"\r") == (after.count(b"\n") if b"\r" in text else 0)


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
def test_helpers_are_written_as_the_file_is(config: Path, style: str, expected: str) -> None:
    config.write_bytes(STYLES[style].encode())
    change(config, "install", "reg.io", "b.io")
    assert config.read_bytes().decode().endswith(expected)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(
            '{"auths": {"x": "c2VjcmV0"}, "credHelpers": {"o.io": "x"}}',
            [
                '-"credHelpers": {"o.io": "x"}',
                '+"credHelpers": {"o.io": "x", "b.io": "keyferry"}',
            ],
            id="inline",
        ),
        pytest.param(CONFIG, ['+\t"credHelpers": {', '+\t\t"b.io": "keyferry"', "+\t}"], id="on lines, new"),
        pytest.param(
            CONFIG.replace('"credsStore": "pass"', '"credHelpers": {\n\t\t"o.io": "x"\n\t}'),
            [
                ' \t"credHelpers": {',
                '-\t\t"o.io": "x"',
                '+\t\t"o.io": "x",',
                '+\t\t"b.io": "keyferry"',
                " \t}",
            ],
            id="on lines",
        ),
        *(
            pytest.param(
                f'{{"a": 1, "credHelpers": {empty}}}',
                [f'-"credHelpers": {empty}', '+"credHelpers": {"b.io": "keyferry"}'],
                id=empty,
            )
            for empty in ("{}", "[]", "null")
        ),
    ],
)
def test_the_diff_is_the_helpers_as_they_are_written(config: Path, text: str, shown: list[str]) -> None:
    config.write_text(text)
    assert change(config, "install", "b.io") == ["@@ credHelpers @@", *shown]
    assert helpers(config) == {**({"o.io": "x"} if "o.io" in text else {}), "b.io": "keyferry"}


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_gets_a_whole_config(config: Path, text: str) -> None:
    config.write_text(text)
    change(config, "install", "reg.io")
    assert config.read_text().rstrip() == '{\n\t"credHelpers": {\n\t\t"reg.io": "keyferry"\n\t}\n}'


@pytest.fixture
def own(config: Path) -> Path:
    """The file of its own that the tools of containers get."""
    return config.parent / "registries.conf.d" / "zz-keyferry.conf"


def test_the_containers_tools_get_a_file_of_its_own(config: Path, own: Path) -> None:
    """Which starts with the file that the tools have their own logins in."""
    shown = change(config, "install", "--containers")
    assert '+credential-helpers = ["containers-auth.json", "keyferry"]' in shown
    assert own.read_text().splitlines()[1] == 'credential-helpers = ["containers-auth.json", "keyferry"]'
    assert own.stat().st_mode & 0o777 == 0o644
    (found,) = json.loads(bridge(config, "status", "-o", "json").stdout)["registries"]
    assert found == {"registry": "*", "file": str(own)}
    change(config, "uninstall", "--containers")
    assert not own.exists()
    assert "nothing to change" in bridge(config, "uninstall", "--containers").stderr


def test_the_drop_in_keeps_the_helpers_that_are_there(config: Path, own: Path) -> None:
    own.parent.mkdir()
    more = own.with_name("50-more.conf")
    for path, before in ((config.with_name("registries.conf"), '"one"'), (more, '"two", "three"')):
        path.write_text(f"credential-helpers = [{before}]\n")
        change(config, "install", "--containers")
        assert own.read_text().splitlines()[1] == f'credential-helpers = [{before}, "keyferry"]'
    change(config, "uninstall", "--containers")
    assert [*own.parent.iterdir()] == [more]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("zz-keyferry.conf", "theirs = 1\n", "was not written by keyferry"),
        ("x.conf", "= broken", "is not TOML"),
    ],
)
def test_files_of_others_are_left(config: Path, own: Path, name: str, text: str, problem: str) -> None:
    own.parent.mkdir()
    own.with_name(name).write_text(text)
    done = bridge(config, "install", "--containers")
    assert (done.returncode, problem in done.stderr) == (3, True)
    bridge(config, "uninstall", "--containers")
    assert [each.read_text() for each in own.parent.iterdir()] == [text]


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
