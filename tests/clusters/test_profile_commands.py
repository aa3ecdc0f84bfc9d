"""``keyferry kube`` for the cluster of a ClusterProfile: from a file, or from the cluster that has the inventory."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from support.api_server import ApiServer
from support.certificates import Authority
from support.commands import run_in_process
from support.kube import OTHER, TOKEN, Kube
from support.kube_commands import Done
from support.profile_world import ARGS, CONFIG, ENVS, Hub, ProfileWorld

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


class Typist:
    """Somebody who types commands about the profile of a world."""

    def __init__(self, world: ProfileWorld) -> None:
        self.world = world
        self.profile = world.folder / "fleet-1.json"

    def write(self, profile: object = None) -> None:
        """Write the profile, by default that of the world."""
        self.profile.write_text(json.dumps(profile or self.world.profile()))

    def type(self, *words: str, profile: str = "", **env: str) -> Done:
        """Run ``keyferry kube`` with the options for the profile."""
        options = ("--cluster-profile", profile or str(self.profile), "--provider-file", str(self.world.file))
        env = {"HOME": str(self.world.folder), "KUBERC": "", "KUBECONFIG": "/nonexistent", **env}
        return run_in_process("kube", *words, *options, cwd=self.world.folder, **env)


@pytest.fixture
def typist(world: ProfileWorld) -> Typist:
    typist = Typist(world)
    typist.write()
    return typist


def test_a_request_is_sent_with_the_credential_of_the_providers_plugin(typist: Typist) -> None:
    done = typist.type("raw", "/version")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["path"] == "/version"
    assert typist.world.server.seen[0].token == TOKEN


def test_a_file_in_the_current_folder_is_named_by_its_ending(typist: Typist) -> None:
    assert typist.type("raw", "/version", profile="fleet-1.json").returncode == 0


def test_whoami_names_the_profile(typist: Typist) -> None:
    document = json.loads(typist.type("whoami", "-o", "json").stdout)
    assert (document["clusterProfile"], document["context"]) == ("fleet-1", "")
    assert document["username"] == f"token-{len(TOKEN)}"


def test_token_makes_keyferry_the_plugin_of_others(typist: Typist) -> None:
    done = typist.type("token")
    assert json.loads(done.stdout)["status"]["token"] == TOKEN


def test_exec_info_shows_what_the_plugin_of_the_profile_gets(typist: Typist) -> None:
    typist.world.write(profileSourcedCLIArgsPolicy="Append")
    typist.write(typist.world.profile({CONFIG: {"clusterName": "f"}, ARGS: ["--cluster", "f"]}))
    document = json.loads(typist.type("exec-info", "-o", "json").stdout)
    assert document["clusterProfile"] == "fleet-1"
    assert document["args"] == ["token", "--cluster", "f"]
    assert document["file"] == str(typist.world.file)
    assert document["execInfo"]["spec"]["cluster"]["config"] == {"clusterName": "f"}
    assert not (typist.world.folder / "args").exists()


# What the explanation says of the choice.


def test_explain_tells_which_provider_serves_the_profile_and_why(typist: Typist) -> None:
    typist.world.write({"name": "other", "execConfig": {"command": "/nowhere"}})
    done = typist.type("explain")
    assert done.returncode == 0
    assert done.stdout.startswith("✓ ClusterProfile 'fleet-1' works: you are 'token-")
    assert (
        "✓ profile fleet-1: provider 'cloud': the first of the file that is in the profile's accessProviders; "
        "before it the file has 'other', which the profile has not" in " ".join(done.stdout.split())
    )


def test_explain_tells_what_the_profile_adds_and_what_is_ignored(typist: Typist) -> None:
    typist.world.write(profileSourcedCLIArgsPolicy="Append", profileSourcedEnvVarsPolicy="AppendIfNotExists")
    extensions = {ARGS: ["--token", "s-word", "--zone", "z1"], ENVS: {"REGION": "profile", "ZONE": "s-word"}}
    typist.write(typist.world.profile(extensions, {"tls-server-name": "wrong.example"}))
    document = json.loads(typist.type("explain", "-o", "json").stdout)
    assert document["clusterProfile"] == "fleet-1"
    told = [(each["outcome"], each["text"]) for each in document["reasons"] if each["stage"] == "profile"]
    assert told[1:] == [
        ("added", "adds arguments to the plugin: --token ******** --zone z1"),
        ("added", "adds variables to the plugin: ZONE"),
        ("ignored", "does not replace variables of the provider (AppendIfNotExists): REGION"),
        (
            "ignored",
            "tls-server-name is ignored: only server, certificate-authority-data and proxy-url of a profile are used",
        ),
    ]
    assert "s-word" not in json.dumps(document)


def test_explain_tells_which_extension_a_policy_ignores(typist: Typist) -> None:
    typist.write(typist.world.profile({ARGS: ["--x"], ENVS: {"A": "b"}}))
    shown = " ".join(typist.type("explain").stdout.split())
    assert f"{ARGS} is ignored: the profileSourcedCLIArgsPolicy of the provider is Ignore" in shown
    assert f"{ENVS} is ignored: the profileSourcedEnvVarsPolicy of the provider is Ignore" in shown


def test_explain_tells_that_the_plugin_does_not_get_the_config_that_the_profile_has_for_it(
    typist: Typist,
) -> None:
    config = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(typist.world.plugin),
        "provideClusterInfo": False,
    }
    typist.world.write(execConfig=config)
    typist.write(typist.world.profile({CONFIG: {"clusterName": "fleet-1"}}))
    shown = " ".join(typist.type("explain", "--no-run").stdout.split())
    assert f"{CONFIG} is ignored: the execConfig of the provider has no provideClusterInfo" in shown


def test_explain_names_the_provider_where_a_context_has_a_user(typist: Typist) -> None:
    (typist.world.folder / "answer").unlink()
    done = typist.type("explain")
    assert done.returncode == 4
    assert done.stdout.startswith("✗ ClusterProfile 'fleet-1' does not work: its plugin gave no credential")
    assert "kubeconfig" not in done.stdout


def test_explain_says_that_nobody_should_have_written_the_provider_file_and_runs_nothing(
    typist: Typist,
) -> None:
    typist.world.file.chmod(0o666)
    done = typist.type("explain")
    assert done.returncode == 3
    assert "keyferry refuses to use it" in done.stdout
    assert not (typist.world.folder / "args").exists()
    assert typist.type("explain", "--trust").returncode == 0


def test_a_variable_that_loads_code_is_refused_unless_allowed(typist: Typist) -> None:
    typist.world.write(profileSourcedEnvVarsPolicy="Replace")
    typist.write(typist.world.profile({ENVS: {"LD_PRELOAD": ""}}))
    refused = typist.type("raw", "/version")
    assert refused.returncode == 3
    assert "'LD_PRELOAD'" in refused.stderr
    assert "keyferry kube explain --cluster-profile" in refused.stderr
    explained = typist.type("explain")
    assert (explained.returncode, explained.stderr) == (3, "")
    assert explained.stdout.startswith("✗ ClusterProfile 'fleet-1' does not work: ")
    assert "'LD_PRELOAD'" in explained.stdout
    assert "--allow-loader-variables" in explained.stdout.partition("WHAT TO DO")[2]
    assert not (typist.world.folder / "args").exists()
    assert typist.type("raw", "/version", "--allow-loader-variables").returncode == 0


def test_explain_tells_that_no_provider_of_the_file_serves_the_profile(typist: Typist) -> None:
    """With those that it has, which are as they should be: lint is no help."""
    typist.world.file.write_text(
        json.dumps({"providers": [{"name": "other", "execConfig": {"command": "/nowhere"}}]})
    )
    done = typist.type("explain", "-o", "json")
    assert (done.returncode, done.stderr) == (3, "")
    found = json.loads(done.stdout)
    assert (found["clusterProfile"], found["verdict"]["outcome"]) == ("fleet-1", "no")
    assert "it has 'cloud', the file has 'other'" in found["cause"]
    assert str(typist.world.file) in found["cure"][0]["text"]
    (reason,) = found["reasons"]
    assert reason["facts"] == {"provider": "", "passedOver": ["other"]}
    refused = typist.type("whoami")
    assert refused.returncode == 3
    assert "keyferry lint" not in refused.stderr
    assert "keyferry kube explain --cluster-profile" in refused.stderr


# From the cluster that has the inventory.


@pytest.fixture
def hub(authority: Authority, kube: Kube, world: ProfileWorld) -> Iterator[Hub]:
    """A cluster with one profile, which the kubeconfig names; its credential is another one."""
    with Hub(authority) as running:
        running.tokens = {OTHER}
        running.profiles = {"inventory/fleet-1": world.profile()}
        kube.write(running.url, ca=authority.pem, user={"token": OTHER})
        yield running


def test_a_profile_is_read_by_its_name_with_the_credential_of_the_context(
    hub: Hub, kube: Kube, typist: Typist, server: ApiServer
) -> None:
    done = typist.type(
        "raw", "/version", "-n", "inventory", "--kubeconfig", str(kube.path), profile="fleet-1"
    )
    assert (done.returncode, done.stderr) == (0, "")
    asked = [(each.path, each.token) for each in hub.seen]
    path = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/inventory/clusterprofiles/fleet-1"
    assert asked == [(path, OTHER)]
    assert [each.token for each in server.seen] == [TOKEN]


@pytest.mark.parametrize(
    ("namespace", "name", "code", "said"),
    [
        ("inventory", "none", 3, "there is no ClusterProfile 'none' in namespace 'inventory'"),
        ("forbidden", "x", 5, "no permission to get clusterprofiles.multicluster.x-k8s.io in forbidden"),
        ("inventory", "..%2f..", 3, "there is no ClusterProfile '..%2f..'"),
    ],
    ids=["absent", "forbidden", "another path"],
)
def test_a_profile_that_cannot_be_read_says_why(
    hub: Hub, kube: Kube, typist: Typist, namespace: str, name: str, code: int, said: str
) -> None:
    done = typist.type("whoami", "-n", namespace, "--kubeconfig", str(kube.path), profile=name)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert all(each.path.startswith("/apis/multicluster.x-k8s.io/") for each in hub.seen)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cluster-profile", "x.json"], "--cluster-profile requires --provider-file"),
        (["--provider-file", "x.json"], "--provider-file requires --cluster-profile"),
        (["--allow-loader-variables"], "--allow-loader-variables requires --cluster-profile"),
        (
            ["--cluster-profile", "./x", "--provider-file", "y", "--context", "prod"],
            "--context has no effect: the ClusterProfile is a file, './x'",
        ),
    ],
    ids=["no file", "no profile", "nothing allowed", "two clusters"],
)
def test_options_that_do_not_go_together_are_wrong_usage(words: list[str], said: str) -> None:
    done = run_in_process("kube", "whoami", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_broken_provider_file_is_sent_to_lint(typist: Typist) -> None:
    typist.world.file.write_text('{"providers": {}}')
    done = typist.type("whoami")
    assert done.returncode == 3
    assert f"keyferry lint {typist.world.file}" in done.stderr
