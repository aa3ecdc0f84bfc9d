"""Sessions for ClusterProfiles: which plugin is run, with what a profile adds, and who is connected to."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest

import keyferry
from support.api_server import running_proxy
from support.certificates import Authority
from support.kube import TOKEN, Kube
from support.profile_world import ARGS, CONFIG, ENVS, Hub, ProfileWorld

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


def test_the_plugin_of_the_first_provider_that_the_profile_names_is_used(world: ProfileWorld) -> None:
    nobody = {"name": "other", "execConfig": {"command": "/nowhere", "apiVersion": "x"}}
    world.write(nobody)
    assert world.ask(world.profile()) == 200
    assert world.server.seen[0].token == TOKEN
    assert world.args() == ["token"]


def test_a_profile_is_read_from_a_file(world: ProfileWorld, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(world.profile()))
    assert world.ask(path) == 200


def test_the_order_of_the_file_decides_not_that_of_the_profile(world: ProfileWorld) -> None:
    profile = world.profile()
    unused = {"name": "second", "cluster": {"server": "https://unused.example"}}
    profile["status"] = {"accessProviders": [unused, *profile["status"]["accessProviders"]]}  # type: ignore[index]  # made above
    assert world.ask(profile) == 200


def test_the_old_name_of_the_list_serves_and_the_new_one_wins(world: ProfileWorld) -> None:
    (access,) = world.profile()["status"]["accessProviders"]  # type: ignore[index]  # made above
    wrong = {"name": "cloud", "cluster": {"server": "https://127.0.0.1:1"}}
    old = {**world.profile(), "status": {"credentialProviders": [access]}}
    both = {**world.profile(), "status": {"credentialProviders": [wrong], "accessProviders": [access]}}
    assert [world.ask(old), world.ask(both)] == [200, 200]


def test_the_plugin_gets_the_cluster_and_its_config_and_no_terminal(world: ProfileWorld) -> None:
    world.ask(world.profile({CONFIG: {"clusterName": "fleet-1"}}))
    spec = json.loads((world.folder / "info").read_text())["spec"]
    assert spec["interactive"] is False
    assert spec["cluster"]["config"] == {"clusterName": "fleet-1"}
    assert spec["cluster"]["server"] == world.server.url


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, ["token"], id="by default"),
        pytest.param({"profileSourcedCLIArgsPolicy": "Ignore"}, ["token"], id="Ignore"),
        pytest.param(
            {"profileSourcedCLIArgsPolicy": "Append"}, ["token", "--cluster", "a b; c"], id="Append"
        ),
    ],
)
def test_the_file_decides_about_arguments_of_the_profile(
    world: ProfileWorld, policy: dict[str, object], expected: list[str]
) -> None:
    world.write(**policy)
    world.ask(world.profile({ARGS: ["--cluster", "a b; c"]}))
    assert world.args() == expected


@pytest.mark.parametrize(
    ("policy", "region", "zone"),
    [
        pytest.param("", "file", None, id="by default"),
        pytest.param("Ignore", "file", None, id="Ignore"),
        pytest.param("AppendIfNotExists", "file", "z1", id="AppendIfNotExists"),
        pytest.param("Replace", "profile", "z1", id="Replace"),
    ],
)
def test_the_file_decides_about_variables_of_the_profile(
    world: ProfileWorld, policy: str, region: str, zone: str | None
) -> None:
    world.write(profileSourcedEnvVarsPolicy=policy)
    world.ask(world.profile({ENVS: {"REGION": "profile", "ZONE": "z1"}}))
    assert (world.variable("REGION"), world.variable("ZONE")) == (region, zone)


def test_a_profile_leaves_nothing_to_the_next(world: ProfileWorld) -> None:
    world.write(profileSourcedCLIArgsPolicy="Append", profileSourcedEnvVarsPolicy="Replace")
    world.ask(world.profile({ARGS: ["--first"], ENVS: {"REGION": "first"}}))
    world.ask(world.profile())
    assert (world.args(), world.variable("REGION")) == (["token"], "file")


@pytest.mark.parametrize(
    ("provider", "extensions", "kubernetes_text"),
    [
        pytest.param(
            {"name": "elsewhere"},
            {},
            'no matching cluster accessor found for cluster profile "fleet-1"',
            id="no provider",
        ),
        pytest.param({"execConfig": None}, {}, 'no exec config found for provider "cloud"', id="no plugin"),
        pytest.param(
            {"profileSourcedCLIArgsPolicy": "Prepend"},
            {ARGS: []},
            'unsupported ProfileSourcedCLIArgsPolicy: "Prepend"',
            id="arguments",
        ),
        pytest.param(
            {"profileSourcedEnvVarsPolicy": "Merge"},
            {ENVS: {}},
            'unsupported ProfileSourcedEnvVarsPolicy: "Merge"',
            id="variables",
        ),
    ],
)
def test_what_upstream_refuses_is_refused_with_its_words(
    world: ProfileWorld, provider: dict[str, object], extensions: dict[str, object], kubernetes_text: str
) -> None:
    world.write(**provider)
    with pytest.raises(keyferry.ConfigError) as caught:
        world.load(world.profile(extensions))
    assert caught.value.kubernetes_text == kubernetes_text
    assert caught.value.problems[0].file == str(world.file)


def test_an_unknown_policy_without_the_extension_does_not_matter(world: ProfileWorld) -> None:
    world.write(profileSourcedCLIArgsPolicy="Prepend")
    assert world.ask(world.profile()) == 200


def test_only_server_authority_and_proxy_of_the_cluster_are_used(world: ProfileWorld) -> None:
    profile = world.profile(cluster={"tls-server-name": "wrong.example", "insecure-skip-tls-verify": True})
    config = world.load(profile).config
    assert (config.tls_server_name, config.insecure) == ("", False)
    assert world.ask(profile) == 200


def test_an_authority_that_did_not_sign_the_server_is_not_made_up_for(world: ProfileWorld) -> None:
    other = base64.b64encode(Authority().pem.encode()).decode()
    profile = world.profile(cluster={"certificate-authority-data": other, "insecure-skip-tls-verify": True})
    with pytest.raises(keyferry.ClusterAuthError, match="not trusted"):
        world.ask(profile)
    assert world.server.seen == []


def test_no_proxy_of_the_environment_is_used(world: ProfileWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that only a proxy could reach stays unreachable; a proxy of the profile is told it."""
    name = "api.cluster.invalid:443"
    with running_proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
        with pytest.raises(keyferry.ClusterAuthError):
            world.ask(world.profile(cluster={"server": f"https://{name}"}))
        assert proxy.told == []
        with pytest.raises(keyferry.ClusterAuthError):
            world.ask(
                world.profile(cluster={"server": f"https://{name}", "proxy-url": f"http://{proxy.address}"})
            )
        assert len(proxy.told) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('{"providers": [', None, id="broken"),
        pytest.param('{"providers":\n [{"name": 5}]}', 2, id="a number"),
        pytest.param('{"providers": {}}', 1, id="no list"),
    ],
)
def test_a_wrong_file_is_named_with_the_place(world: ProfileWorld, text: str, line: int | None) -> None:
    world.file.write_text(text)
    with pytest.raises(keyferry.ConfigError) as caught:
        world.load(world.profile())
    problem = caught.value.problems[0]
    assert problem.file == str(world.file)
    assert line is None or problem.line == line


def test_another_kind_is_no_profile(world: ProfileWorld) -> None:
    with pytest.raises(keyferry.ConfigError, match="expected 'ClusterProfile'"):
        world.load({"apiVersion": "v1", "kind": "Config"})


def test_the_inventory_of_a_hub_gives_the_profile_by_its_name(
    world: ProfileWorld, authority: Authority, kube: Kube
) -> None:
    with Hub(authority) as hub:
        hub.tokens = {TOKEN}
        hub.profiles = {"inventory/fleet-1": world.profile()}
        kube.write(hub.url, ca=authority.pem, user={"token": TOKEN})
        session = kube.load()
        profile = keyferry.fetch_cluster_profile(session, "fleet-1", namespace="inventory")
        with pytest.raises(keyferry.EnvironmentProblem, match="there is no ClusterProfile 'fleet-1'"):
            keyferry.fetch_cluster_profile(session, "fleet-1")
    assert world.ask(profile) == 200
    assert world.load(profile).whoami().username == f"token-{len(TOKEN)}"
