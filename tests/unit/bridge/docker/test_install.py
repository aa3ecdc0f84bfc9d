"""The helper in the configs of docker's tools: planned, shown, written and removed."""

import json
import sys
from pathlib import Path

import pytest

from keyferry.bridge.docker.install import (
    DROP_IN,
    docker_config_path,
    helped_hosts,
    plan_containers_install,
    plan_containers_uninstall,
    plan_docker_install,
    plan_docker_uninstall,
)
from keyferry.bridge.file_change import FileChange, apply_change
from keyferry.errors import EnvironmentProblem

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


def test_what_is_set_already_changes_nothing(path: Path) -> None:
    install(path, "reg.io")
    change = plan_docker_install(str(path), ["reg.io"])
    assert (change.before, change.diff) == (change.after, "")


def test_a_config_that_is_not_there_is_made_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.json"
    install(path, "reg.io")
    assert json.loads(path.read_text()) == {"credHelpers": {"reg.io": "keyferry"}}
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_diff_of_a_new_config_takes_nothing_away(tmp_path: Path) -> None:
    change = plan_docker_install(str(tmp_path / "config.json"), ["ghcr.io"])
    assert [line for line in change.diff.splitlines()[2:] if line.startswith("-")] == []
    assert "+{" in change.diff.splitlines()


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
