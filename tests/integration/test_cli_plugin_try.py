"""``keyferry plugin try``: the chain from a service account to an image, against real servers, link by link."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from support.account_world import AUDIENCE, HOST, IMAGE, LOGIN, AccountWorld, account_world
from support.kube import TOKEN
from support.kubernetes_api import ISSUER, pod

NAMES = ["provider", "account", "token", "node", "claims", "plugin", "keys", "registry"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[AccountWorld]:
    """A chain in which every link is in order."""
    with account_world(tmp_path) as made:
        yield made


def links_of(done: CompletedProcess[str]) -> dict[str, dict[str, object]]:
    """Return the links by name."""
    assert done.stdout, done.stderr
    return {link["name"]: link for link in json.loads(done.stdout)["links"]}


def states_of(done: CompletedProcess[str]) -> dict[str, object]:
    """Return the state of each link."""
    return {name: link["state"] for name, link in links_of(done).items()}


def check_broken(
    done: CompletedProcess[str], name: str, code: int, state: str = "broken"
) -> dict[str, object]:
    """Check that one link has the state, those before it are in order and the rest is not reached; return it."""
    at = NAMES.index(name)
    expected = ["ok"] * at + [state] + ["notReached"] * (len(NAMES) - at - 1)
    assert states_of(done) == dict(zip(NAMES, expected, strict=True))
    assert json.loads(done.stdout)["firstProblem"] == name
    assert done.returncode == code, done.stderr
    return links_of(done)[name]


def test_a_chain_in_order_is_exit_code_0(world: AccountWorld) -> None:
    """Every link is tried, the token reaches the plugin, and no output has it or the password."""
    done = world.run(IMAGE, "-o", "json", "--pod", "web")
    assert done.returncode == 0, done.stdout
    assert states_of(done) == dict.fromkeys(NAMES, "ok")
    assert world.request()["serviceAccountToken"] == world.api.issued[-1]
    facts = links_of(done)["claims"]["facts"]
    assert isinstance(facts, dict)
    assert facts["iss"] == ISSUER
    assert facts["sub"] == "system:serviceaccount:shop:puller"
    assert facts["aud"] == [AUDIENCE]
    assert facts["pod"] == "web"
    assert facts["exp"].endswith("Z")
    for secret in (world.api.issued[-1], LOGIN[1], TOKEN):
        assert secret not in done.stdout + done.stderr


def test_the_verdict_comes_first(world: AccountWorld) -> None:
    """Then every link with its mark; an unbound token says how to bind it."""
    done = world.run(IMAGE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"yes: shop/puller can pull {IMAGE}"
    assert [line.split()[1] for line in lines if line.startswith("✓")] == NAMES
    assert "bind it with --pod NAME" in done.stdout


def test_no_provider_for_the_image(world: AccountWorld) -> None:
    """The pattern that would match is the cure."""
    done = world.run("other.example/app", "-o", "json")
    assert "other.example" in str(check_broken(done, "provider", 1)["cure"])


def test_a_provider_without_token_attributes(world: AccountWorld) -> None:
    """The kubelet passes it no token; the attributes to add are the cure."""
    world.fields["tokenAttributes"] = None
    link = check_broken(world.run(IMAGE, "-o", "json"), "provider", 1)
    assert "tokenAttributes: {serviceAccountTokenAudience: AUDIENCE" in str(link["cure"])


def test_a_provider_that_is_not_in_the_config(world: AccountWorld) -> None:
    """It is named beside those that are."""
    link = check_broken(world.run(IMAGE, "-o", "json", "--provider", "nope"), "provider", 1)
    assert link["text"] == "the config has no provider 'nope', found provider"


def test_an_account_that_does_not_exist(world: AccountWorld) -> None:
    """The command that creates it names the same kubeconfig."""
    link = check_broken(world.run(IMAGE, "-o", "json", name="shop/nobody"), "account", 1)
    assert f"kubectl --kubeconfig {world.kube.path} create serviceaccount nobody" in str(link["cure"])


def test_an_account_without_the_required_annotation(world: AccountWorld) -> None:
    """The kubelet would leave out the provider without a word."""
    world.attributes["requiredServiceAccountAnnotationKeys"] = ["example.com/role"]
    link = check_broken(world.run(IMAGE, "-o", "json"), "account", 1)
    assert "lacks the annotation 'example.com/role'" in str(link["text"])
    assert 'annotate serviceaccount puller --namespace shop example.com/role="${VALUE:?}"' in str(
        link["cure"]
    )


@pytest.mark.parametrize("name", ["account", "token"])
def test_a_missing_permission_is_printed_as_objects(world: AccountWorld, name: str) -> None:
    """The verb and resource are named, and the Role and RoleBinding are for the user that the server knows."""
    world.api.users[TOKEN].permitted.clear()
    if name == "token":
        world.api.permit(TOKEN, "get", "serviceaccounts", "shop")
    link = check_broken(world.run(IMAGE, "-o", "json"), name, 6, "unknown")
    assert str(link["cure"]).startswith("your user may not permit it to itself: as an administrator ")
    assert str(world.kube.path) not in str(link["cure"])
    what = "create serviceaccounts/token" if name == "token" else "get serviceaccounts"
    assert str(link["text"]).startswith(f"no permission to {what} in shop")
    role, binding = link["manifests"]  # type: ignore[misc] # two objects
    assert role["kind"] == "Role"  # type: ignore[has-type]
    assert [rule["verbs"] for rule in role["rules"]] == [["get"], ["create"]]  # type: ignore[has-type]
    assert binding["subjects"][0]["name"] == "bob"  # type: ignore[has-type]
    shown = world.run(IMAGE).stdout
    assert f"\n?   {name}" in shown
    if name == "token":
        assert "\n✓   account" in shown
    unknown = f"cannot tell whether shop/puller can pull {IMAGE}"
    assert " ".join(shown.split()).startswith(f"{unknown}: no permission to {what} in shop")
    assert "\nkind: RoleBinding\n" in shown


def test_a_user_whom_the_server_does_not_know(world: AccountWorld) -> None:
    """Nothing about RBAC is said."""
    world.api.users.clear()
    link = check_broken(world.run(IMAGE, "-o", "json"), "account", 6, "unknown")
    assert "keyferry kube explain" in str(link["cure"])
    assert link["manifests"] == []


def test_a_server_that_cannot_be_reached(world: AccountWorld) -> None:
    """Nothing is known of the account, and the exit code says so."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        world.kube.write(f"https://127.0.0.1:{unused.getsockname()[1]}", user={"token": TOKEN})
        done = world.run(IMAGE, "-o", "json")
    assert done.returncode == 6
    assert states_of(done)["account"] == "unknown"
    assert states_of(done)["token"] == "notReached"


def test_a_server_that_fails_has_said_nothing(world: AccountWorld) -> None:
    """A 500 is neither yes nor no."""
    world.api.always = 500
    done = world.run(IMAGE, "-o", "json")
    assert (done.returncode, states_of(done)["account"]) == (6, "unknown")


def test_a_pod_of_another_account(world: AccountWorld) -> None:
    """Its kubelet would request a token of that account."""
    world.api.add(pod("other", serviceAccountName="someone"))
    link = check_broken(world.run(IMAGE, "-o", "json", "--pod", "other"), "token", 1)
    assert "has the service account 'someone', not 'puller'" in str(link["text"])


def test_kubelets_that_may_not_request_the_audience(world: AccountWorld) -> None:
    """The rest is tried all the same with the user's token; the ClusterRole for kubelets is the cure."""
    world.api.node_audiences = set()
    done = world.run(IMAGE, "-o", "json", "--pod", "web")
    assert done.returncode == 5
    assert states_of(done) == {**dict.fromkeys(NAMES, "ok"), "node": "broken"}
    role, binding = links_of(done)["node"]["manifests"]  # type: ignore[misc] # two objects
    assert role["rules"] == [  # type: ignore[has-type]
        {
            "apiGroups": [""],
            "resources": [AUDIENCE],
            "resourceNames": ["puller"],
            "verbs": ["request-serviceaccounts-token-audience"],
        }
    ]
    assert binding["subjects"][0]["name"] == "system:nodes"  # type: ignore[has-type]
    review = world.api.reviewed[0]
    assert review["user"] == "system:node:node1"
    assert review["resourceAttributes"] == {
        "namespace": "shop",
        "verb": "request-serviceaccounts-token-audience",
        "group": "",
        "resource": AUDIENCE,
        "name": "puller",
    }


def test_a_review_that_is_forbidden_leaves_the_kubelets_unknown(world: AccountWorld) -> None:
    """Everything else works, and still nobody says yes."""
    world.api.node_audiences = None
    done = world.run(IMAGE, "-o", "json")
    assert done.returncode == 6
    assert states_of(done) == {**dict.fromkeys(NAMES, "ok"), "node": "unknown"}
    assert world.run(IMAGE).stdout.startswith("cannot tell whether shop/puller can pull")


def test_an_older_server_restricts_no_audience(world: AccountWorld) -> None:
    """Before 1.33 no review is needed; vendors put a plus sign after the version."""
    world.api.minor, world.api.node_audiences = "32+", None
    done = world.run(IMAGE, "-o", "json")
    assert done.returncode == 0
    assert "Kubernetes 1.32 does not restrict" in str(links_of(done)["node"]["text"])


def test_a_version_of_any_length_is_one(world: AccountWorld) -> None:
    """What the server writes there is no reason to fail."""
    world.api.minor = 5000 * "9"
    assert world.run(IMAGE).returncode == 0


def test_a_volume_with_the_audience_permits_it(world: AccountWorld) -> None:
    """As NodeRestriction decides, without RBAC."""
    world.api.node_audiences = set()
    token = {"serviceAccountToken": {"audience": AUDIENCE, "path": "t"}}
    volumes = [{"name": "v", "projected": {"sources": [token]}}]
    world.api.add(pod("mounted", serviceAccountName="puller", volumes=volumes))
    assert world.run(IMAGE, "--pod", "mounted").returncode == 0


def test_a_plugin_that_fails(world: AccountWorld) -> None:
    """Its message is shown without control characters, and the commands that record the exchange are the cure."""
    world.plugin('#!/bin/sh\ncat >/dev/null\nprintf "no role \\033[31mred" >&2\nexit 1\n')
    done = world.run(IMAGE, "-o", "json")
    link = check_broken(done, "plugin", 4)
    assert "no role" in str(link["text"])
    assert "\x1b" not in str(link["text"])
    assert '--audience registry.audience.example > "$token" && keyferry plugin trace' in str(link["cure"])
    assert world.api.issued[-1] not in done.stdout


def test_a_plugin_that_hangs_is_a_timeout(world: AccountWorld) -> None:
    """The exit code is 124, as everywhere."""
    world.plugin("#!/bin/sh\nsleep 60\n")
    check_broken(world.run(IMAGE, "-o", "json", "--timeout", "2"), "plugin", 124)


def test_a_plugin_that_returns_the_token_itself(world: AccountWorld) -> None:
    """With cacheType ServiceAccount the kubelet rejects it; the token is not shown."""
    body = f"""#!/bin/sh
token=$(sed 's/.*"serviceAccountToken":"\\([^"]*\\)".*/\\1/')
printf '{{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",'
printf '"cacheKeyType":"Registry","auth":{{"{HOST}":{{"username":"u","password":"%s"}}}}}}' "$token"
"""
    world.plugin(body)
    done = world.run(IMAGE, "-o", "json")
    check_broken(done, "plugin", 4)
    assert world.api.issued[-1] not in done.stdout + done.stderr


def test_keys_that_do_not_match_are_listed_with_the_reason(world: AccountWorld) -> None:
    """A key that may be a secret is not shown."""
    world.answer({"other.example": LOGIN, "kf-marked-key": LOGIN})
    done = world.run(IMAGE, "-o", "json")
    facts = check_broken(done, "keys", 1)["facts"]
    assert isinstance(facts, dict)
    assert facts["reasons"][0].startswith("other.example: ")
    assert "kf-marked" not in done.stdout


def test_a_registry_that_refuses(world: AccountWorld) -> None:
    """The last link is broken, with the registry's own exit code."""
    world.accepts.clear()
    link = check_broken(world.run(IMAGE, "-o", "json"), "registry", 5)
    assert "cannot be pulled with robot of provider provider" in str(link["text"])


def test_a_registry_that_cannot_be_reached(world: AccountWorld) -> None:
    """It has not refused: nobody knows."""
    done = world.run(IMAGE, "-o", "json", HTTPS_PROXY="http://127.0.0.1:9")
    assert done.returncode == 6
    assert states_of(done)["registry"] == "unknown"


@pytest.mark.parametrize("name", ["puller", "/puller", "shop/"])
def test_an_account_is_namespace_and_name(world: AccountWorld, name: str) -> None:
    """Anything else is wrong usage."""
    done = world.run(IMAGE, name=name)
    assert done.returncode == 2
    assert "expected NAMESPACE/NAME" in done.stderr


def test_hostile_words_of_the_cluster_are_harmless(world: AccountWorld) -> None:
    """An annotation may hold anything."""
    world.attributes["optionalServiceAccountAnnotationKeys"] = ["example.com/a"]
    metadata = world.api.objects["", "serviceaccounts", "shop", "puller"]["metadata"]
    assert isinstance(metadata, dict)
    metadata["annotations"] = {"example.com/a": "x\x1b[2Jy\nz"}
    done = world.run(IMAGE)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
