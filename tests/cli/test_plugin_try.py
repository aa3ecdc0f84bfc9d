"""``keyferry plugin try``: the chain from a service account to an image, against real servers, link by link.

Also with keyferry-federate, whose calls are links of the chain, and with the reference plugins of the clouds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from support import azure_cloud, google_world
from support.account_world import AUDIENCE, HOST, IMAGE, LOGIN, AccountWorld, account_world
from support.aws_services import ANNOTATION, PASSWORD, ROLE, FakeAws
from support.aws_services import HOST as ECR_HOST
from support.aws_services import IMAGE as ECR_IMAGE
from support.azure_acr import ANNOTATIONS
from support.azure_cloud import serving_azure
from support.commands import run_in_process
from support.fake_cloud import Authority, ConnectProxy, Received, Reply, serving
from support.federation import issued, write_config
from support.kube import TOKEN
from support.kubernetes_api import ISSUER, pod
from support.reference import write_launcher

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


UNKNOWN: dict[str, tuple[Callable[[AccountWorld], object], str]] = {
    "a user whom the server does not know": (lambda world: world.api.users.clear(), "keyferry kube explain"),
    # It has said nothing: a 500 is neither yes nor no.
    "a server that fails": (lambda world: setattr(world.api, "always", 500), ""),
    "no server": (lambda world: world.kube.write("https://127.0.0.1:1", user={"token": TOKEN}), ""),
}


@pytest.mark.parametrize(("spoil", "cure"), UNKNOWN.values(), ids=UNKNOWN)
def test_of_an_account_that_nobody_tells_of_nothing_is_known(
    world: AccountWorld, spoil: Callable[[AccountWorld], object], cure: str
) -> None:
    """Nothing about RBAC is said, and the exit code says that nothing is known."""
    spoil(world)
    link = check_broken(world.run(IMAGE, "-o", "json"), "account", 6, "unknown")
    assert cure in str(link["cure"])
    assert link["manifests"] == []


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
    """Before 1.33 no review is needed; vendors put a plus sign after the version, which may be of any length."""
    world.api.minor, world.api.node_audiences = "32+", None
    done = world.run(IMAGE, "-o", "json")
    assert done.returncode == 0
    assert "Kubernetes 1.32 does not restrict" in str(links_of(done)["node"]["text"])
    world.api.minor, world.api.node_audiences = 5000 * "9", {AUDIENCE}
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
    check_broken(world.run(IMAGE, "-o", "json", "--timeout", "0.3"), "plugin", 124)


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


EXCHANGE_HOST = "quay.example.com"
OWN = ["plugin/subject", "plugin/call-1", "plugin/login"]
PLUGIN = """\
#!/bin/sh
cat >"$0.request"
if [ "$KEYFERRY_LINKS" = 1 ]; then :
{lines}
fi
printf '%s' '{response}'
exit {status}
"""


@contextmanager
def federate_world(
    folder: Path, answer: Callable[[Received], Reply], **changes: object
) -> Iterator[AccountWorld]:
    """Yield a chain whose plugin is keyferry-federate, with one call to a server that answers with *answer*."""
    (folder / "exchange").mkdir()
    exchange = Authority(folder / "exchange")
    with (
        account_world(folder) as world,
        serving(answer, exchange.context(EXCHANGE_HOST)) as server,
        ConnectProxy({EXCHANGE_HOST: server.port}) as proxy,
    ):
        rule = {
            "registries": [HOST],
            "subject": {"audience": AUDIENCE, "issuer": ISSUER},
            "preset": "quay",
            "params": {"host": EXCHANGE_HOST, "robot": LOGIN[0]},
            "caFile": str(exchange.bundle),
            **changes,
        }
        config = write_config(folder / "federation.json", rule)
        write_launcher(world.bin_dir, "federate", file_name="provider")
        world.fields["args"] = [f"--config={config}"]
        world.fields["env"] = [{"name": "HTTPS_PROXY", "value": proxy.url}]
        yield world


def test_each_call_is_a_link(tmp_path: Path) -> None:
    """With the claims that were sent, what the server answered and what was taken; no value of it."""
    login = issued()
    with federate_world(tmp_path, lambda _: Reply(document={"token": login})) as world:
        world.accepts[:] = [(LOGIN[0], login)]
        done = world.run(IMAGE, "-o", "json")
        text = world.run(IMAGE)
    assert done.returncode == 0, done.stdout
    links = links_of(done)
    assert [name for name in links if "/" in name] == OWN
    assert list(links).index("plugin/login") + 1 == list(links).index("plugin")
    claims = links["plugin/subject"]["facts"]
    assert isinstance(claims, dict)
    assert (claims["iss"], claims["aud"]) == (ISSUER, AUDIENCE)
    assert claims["sub"] == "system:serviceaccount:shop:puller"
    call = links["plugin/call-1"]["facts"]
    assert isinstance(call, dict)
    assert call.pop("seconds") >= 0
    assert call == {
        "method": "GET", "host": EXCHANGE_HOST, "path": "/oauth2/federation/robot/token", "status": 200,
        "taken": ["token"],
    }  # fmt: skip
    assert (
        "\n✓   > call-1  GET https://quay.example.com/oauth2/federation/robot/token: status 200\n"
        in text.stdout
    )
    for secret in (*world.api.issued, login):
        assert secret not in done.stdout + done.stderr + text.stdout + text.stderr


BROKEN: dict[str, tuple[Reply, Mapping[str, object], str, str, str]] = {
    "the exchange refuses": (
        Reply(401, document={"error": "invalid_grant"}), {}, "plugin/call-1",
        "refused with status 401 and the error 'invalid_grant'", "check what the server expects",
    ),
    "the exchange redirects": (
        Reply(302, headers={"Location": "https://evil.example/"}), {}, "plugin/call-1",
        "answered with a redirect", "set the host and path that it leads to",
    ),
    "no token": (Reply(document={"other": 1}), {}, "plugin/call-1", "without a text at /token", ""),
    "another audience": (
        Reply(), {"subject": {"audience": "other", "issuer": ISSUER}}, "plugin/subject",
        "the subject token's aud is 'registry.audience.example', expected 'other'",
        "make the rule's audience and serviceAccountTokenAudience equal",
    ),
    "another issuer": (
        Reply(), {"subject": {"audience": AUDIENCE, "issuer": "https://other.example"}}, "plugin/subject",
        "the subject token's iss is", "set the rule's issuer",
    ),
    "no rule": (
        Reply(), {"registries": ["other.example.com"]}, "plugin/rule", "no rule is for the registry",
        "add the registry to a rule",
    ),
    "no annotation": (
        Reply(), {"params": {"host": EXCHANGE_HOST, "robot": {"annotation": "x/robot", "pattern": "a"}}},
        "plugin/parameters", "has no annotation 'x/robot'", "requiredServiceAccountAnnotationKeys",
    ),
    "expired": (
        Reply(document={"token": issued(-10)}), {}, "plugin/login", "has expired already", "clock",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "changes", "name", "text", "cure"), BROKEN.values(), ids=BROKEN)
def test_the_broken_step_is_the_first_problem(
    tmp_path: Path, reply: Reply, changes: Mapping[str, object], name: str, text: str, cure: str
) -> None:
    """With its cure; the plugin's link after it is broken too, and the exit code is the plugin's."""
    with federate_world(tmp_path, lambda _: reply, **changes) as world:
        done = world.run(IMAGE, "-o", "json")
    assert done.returncode == 4, done.stdout
    links = links_of(done)
    assert json.loads(done.stdout)["firstProblem"] == name
    assert links[name]["state"] == links["plugin"]["state"] == "broken"
    assert text in str(links[name]["text"])
    assert cure in str(links[name]["cure"])
    assert "keyferry-link" not in done.stdout + done.stderr
    assert world.api.issued[-1] not in done.stdout + done.stderr


def test_the_second_call_may_be_the_broken_link(tmp_path: Path) -> None:
    """The first is told as it went, and the second has the cause; there is no login after it."""

    def answer(received: Received) -> Reply:
        if received.method == "POST":
            return Reply(document={"auth": {"client_token": "hvs.vault-token"}})
        return Reply(403, document={"errors": ["permission denied"]})

    params = {"host": EXCHANGE_HOST, "role": "puller", "secret": "secret/data/registry"}
    with federate_world(tmp_path, answer, preset="vault", params=params) as world:
        done = world.run(IMAGE, "-o", "json")
    assert done.returncode == 4, done.stdout
    links = links_of(done)
    assert [name for name in links if "/" in name] == ["plugin/subject", "plugin/call-1", "plugin/call-2"]
    assert json.loads(done.stdout)["firstProblem"] == "plugin/call-2"
    assert [links[f"plugin/call-{number}"]["state"] for number in (1, 2)] == ["ok", "broken"]
    url = f"https://{EXCHANGE_HOST}/v1/secret/data/registry"
    assert (
        links["plugin/call-2"]["text"] == f"{url}: refused with status 403 and the error 'permission denied'"
    )
    assert "hvs.vault-token" not in done.stdout + done.stderr


def respond(world: AccountWorld, lines: list[str], status: int = 0) -> None:
    """Let a plugin in shell write lines on standard error, and then answer."""
    response = {
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "cacheDuration": "1m",
        "auth": {HOST: {"username": LOGIN[0], "password": LOGIN[1]}},
    }
    echoes = "\n".join(f"printf '%s\\n' '{line}' >&2" for line in lines)
    world.plugin(
        PLUGIN.format(lines=echoes, response=json.dumps(response) if not status else "", status=status)
    )


def line(**fields: object) -> str:
    """Return a line of the protocol."""
    return "keyferry-link: " + json.dumps({"name": "step", "state": "ok", "text": "done", **fields})


def test_a_plugin_in_any_language_can_report(world: AccountWorld) -> None:
    """Only if it is asked to; what it writes is masked, and cannot be taken for another link."""
    said = f"the password is {LOGIN[1]}"
    respond(world, [line(name="registry", text=said, facts={"n": 1, "list": ["a"]})])
    done = world.run(IMAGE, "-o", "json")
    text = world.run(IMAGE).stdout
    links = links_of(done)
    assert done.returncode == 0
    assert links["plugin/registry"]["text"] == "the password is ********"
    assert links["plugin/registry"]["facts"] == {"n": 1, "list": ["a"]}
    assert "\n✓   > registry the password is ********\n" in text
    assert LOGIN[1] not in done.stdout + text


def test_a_step_that_failed_does_not_count_if_the_plugin_succeeds(world: AccountWorld) -> None:
    """It is shown; the response is what counts."""
    respond(world, [line(state="broken", text="no luck"), line(name="second")])
    done = world.run(IMAGE, "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (0, "ok")
    assert links_of(done)["plugin/step"]["state"] == "broken"


MALFORMED = [
    "keyferry-link: ", "keyferry-link: []", "keyferry-link: {", line(name="UPPER"), line(name=""),
    line(state="notReached"), line(text=""), line(text=1), line(text="x" * 501), line(facts=[]),
    line(facts={"a": {}}), line(facts={"a\u001b": "b"}), line(facts={"a": "x" * 301}), line(cure=[]),
    line(facts={str(number): 1 for number in range(21)}), line(more="x" * 9000),
]  # fmt: skip


def test_malformed_lines_are_ordinary_messages(world: AccountWorld) -> None:
    """They are no links, and a failure quotes them like any other line."""
    respond(world, MALFORMED)
    done = world.run(IMAGE, "-o", "json")
    assert not [name for name in links_of(done) if "/" in name]
    respond(world, [line(text="fine"), "keyferry-link: []", "out of luck"], status=3)
    failed = world.run(IMAGE, "-o", "json")
    links = links_of(failed)
    assert links["plugin/step"]["text"] == "fine"
    assert "keyferry-link: [] | out of luck" in str(links["plugin"]["text"])
    assert "fine" not in str(links["plugin"]["text"])


def test_there_is_a_limit(world: AccountWorld) -> None:
    """Sixteen are shown, and a flood is cut."""
    respond(world, [line(name=f"step-{number}") for number in range(40)])
    done = world.run(IMAGE, "-o", "json")
    assert len([name for name in links_of(done) if "/" in name]) == 16


def test_nothing_is_reported_to_a_kubelet(tmp_path: Path) -> None:
    """Without the variable, keyferry-federate writes nothing but the error of a failure."""
    with federate_world(tmp_path, lambda _: Reply(401)) as world:
        world.run(IMAGE)
        token = tmp_path / "token"
        token.write_text(world.api.issued[-1])
        done = run_in_process(
            "explain", IMAGE, "--config", str(tmp_path / "providers.json"), "--bin-dir", str(world.bin_dir),
            "--service-account", "shop/puller", "--service-account-token", str(token), HTTPS_PROXY=world.proxy.url,
        )  # fmt: skip
    assert "refused with status 401" in done.stdout + done.stderr
    assert "keyferry-link" not in done.stdout + done.stderr


AZURE_AUDIENCE, GOOGLE_AUDIENCE = "api://AzureADTokenExchange", "demo.svc.id.goog"
GOOGLE_HOST = "us-docker.pkg.dev"


def configure(
    world: AccountWorld, plugin: str, audience: str, annotations: Mapping[str, str], env: Mapping[str, str]
) -> None:
    """Let the node use a reference plugin in the environment of its cloud."""
    write_launcher(world.bin_dir, plugin, file_name="provider")
    world.fields["env"] = [{"name": name, "value": value} for name, value in env.items()]
    world.attributes["serviceAccountTokenAudience"] = audience
    world.attributes["requiredServiceAccountAnnotationKeys"] = list(annotations)
    world.api.node_audiences = {audience}


def check_all_in_order(world: AccountWorld, done: CompletedProcess[str], image: str, *secrets: str) -> None:
    """Check the verdict, and that no secret of the chain is shown."""
    assert done.stdout.startswith(f"yes: shop/puller can pull {image}\n"), done.stdout
    assert (done.returncode, done.stdout.count("\n✓")) == (0, 8)
    for secret in (world.api.issued[-1], *secrets):
        assert secret not in done.stdout + done.stderr


def test_the_chain_of_ecr(tmp_path: Path) -> None:
    """STS exchanges the token for the annotation's role, and ECR returns the registry's password."""
    annotations = {ANNOTATION: ROLE}
    aws = FakeAws()
    with account_world(tmp_path, ECR_HOST, annotations=annotations) as world:

        def answer(received: Received) -> Reply:
            aws.identity_token = world.api.issued[-1]
            return aws(received)

        with serving(answer) as server:
            env = {"AWS_ENDPOINT_URL": server.url, "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
            configure(world, "ecr", "sts.amazonaws.com", annotations, env)
            world.accepts[:] = [("AWS", PASSWORD)]
            done = world.run(f"{ECR_IMAGE}:v1", "--pod", "web")
    check_all_in_order(world, done, f"{ECR_IMAGE}:v1", PASSWORD)
    assert [action for action, _ in aws.calls] == ["AssumeRoleWithWebIdentity", "ecr"]


def test_the_chain_of_acr(tmp_path: Path) -> None:
    """Entra exchanges the token for the annotations' identity, and the registry returns its own token."""
    host, token = azure_cloud.REGISTRY, azure_cloud.registry_token()
    (tmp_path / "azure").mkdir()
    with (
        account_world(tmp_path, host, annotations=ANNOTATIONS) as world,
        serving_azure(tmp_path / "azure") as azure,
    ):

        def exchange(received: Received) -> Reply:
            return azure_cloud.federated_answers(world.api.issued[-1])(received)

        azure.on(azure_cloud.ENTRA, exchange)
        azure.on(host, azure_cloud.registry_answers(token))
        configure(world, "acr", AZURE_AUDIENCE, ANNOTATIONS, azure.environ)
        world.fields["args"] = [azure.config(tenantId=azure_cloud.TENANT)]
        world.accepts[:] = [(azure_cloud.ZERO_USER, token)]
        done = world.run(f"{host}/team/app:v1")
    check_all_in_order(world, done, f"{host}/team/app:v1", token, azure_cloud.ENTRA_TOKEN)


def test_the_chain_of_gcr(tmp_path: Path) -> None:
    """Google's STS exchanges the token for one that the registry accepts."""
    annotations = {"iam.gke.io/enable-wi-image-pull": "true"}
    image = f"{GOOGLE_HOST}/demo/repo/app:v1"
    (tmp_path / "google").mkdir()
    with (
        account_world(tmp_path, GOOGLE_HOST, annotations=annotations) as world,
        google_world.google_world(tmp_path / "google") as google,
    ):

        def exchange(received: Received) -> Reply:
            assert received.json["subject_token"] == world.api.issued[-1]
            return google_world.token_reply(google_world.FEDERATED_TOKEN)

        google.on(f"POST {google_world.STS}/v1/token", exchange)
        configure(world, "gcr", GOOGLE_AUDIENCE, annotations, google.node_env())
        world.fields["args"] = ["--identity-provider=https://idp.example.com/demo", "--project-id=demo"]
        world.accepts[:] = [("_token", google_world.FEDERATED_TOKEN)]
        done = world.run(image)
    check_all_in_order(world, done, image, google_world.FEDERATED_TOKEN)


def test_a_trust_policy_that_refuses_the_token(tmp_path: Path) -> None:
    """The plugin is the broken link, and its claims are shown for the comparison with the policy."""
    annotations = {ANNOTATION: ROLE}
    with account_world(tmp_path, ECR_HOST, annotations=annotations) as world:
        refusal = Reply(403, body=b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>")
        with serving(lambda _: refusal) as server:
            env = {"AWS_ENDPOINT_URL": server.url, "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
            configure(world, "ecr", "sts.amazonaws.com", annotations, env)
            done = world.run(f"{ECR_IMAGE}:v1")
    assert done.returncode == 4
    assert f"grant sts:AssumeRoleWithWebIdentity on {ROLE}" in done.stdout
    assert "sub: system:serviceaccount:shop:puller" in done.stdout
    assert world.api.issued[-1] not in done.stdout + done.stderr
