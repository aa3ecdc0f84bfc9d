"""The image plugin with ``--compat``: auth-provider-gcp's behaviour, quirks included, request by request."""

from __future__ import annotations

from base64 import b64encode

import pytest

from support.fake_cloud import Received, Reply
from support.google_world import (
    ACCOUNT,
    ATTRIBUTES,
    CONFIG_HOST,
    FEDERATED_TOKEN,
    NODE_TOKEN,
    POD_TOKEN,
    STS,
    Answer,
    World,
    error_reply,
    service_account,
    token_reply,
)
from support.reference import ask_image, run_plugin

AGENT = "GKE auth-provider-gcp image pull"
FIXED = {"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"}
ANNOTATED = {"iam.gke.io/enable-wi-image-pull": "true"}
WORKLOAD = ("--identity-provider=https://idp.example.com/other-project", "--project-id=demo")
COMPAT = ("get-credentials", "--compat", "--v=3")


def env_of(world: World, **more: str) -> dict[str, str]:
    """Upstream has no switch to lead it elsewhere, but it honours proxies, for metadata, too."""
    return world.env(HTTP_PROXY=world.proxy.url, **more)


def from_metadata(reply: Reply) -> Answer:
    """An answer for a request that has upstream's headers."""

    def check(received: Received) -> Reply:
        assert received.headers["host"] == "metadata.google.internal."
        assert received.headers["user-agent"] == AGENT
        assert received.query == {}
        return reply

    return check


def start_node(world: World) -> None:
    """A metadata server that works."""
    world.on(f"GET {ACCOUNT}/token", from_metadata(token_reply()))
    world.on(f"GET {ACCOUNT}/email", from_metadata(Reply(body=b"node@demo.iam.gserviceaccount.com")))


def exchange(audience: str) -> Answer:
    """The exchange of the pod's token for one audience."""

    def check(received: Received) -> Reply:
        assert received.headers["user-agent"] == AGENT
        assert received.headers["content-type"] == "application/json"
        assert received.json["audience"] == audience
        assert received.json["subject_token"] == POD_TOKEN
        return token_reply(FEDERATED_TOKEN)

    return check


def test_the_nodes_token_is_given_under_all_keys(world: World) -> None:
    """Token, then e-mail address, by a name with a dot at its end and through the proxy; nothing is cached."""
    start_node(world)
    answer = ask_image("gcr", "docker.us.rep.pkg.dev/pause", args=COMPAT, env=env_of(world))
    assert answer.auth == dict.fromkeys({"docker.us.rep.pkg.dev", *FIXED}, ("_token", NODE_TOKEN))
    assert answer.stdout.startswith(
        '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",'
        '"cacheKeyType":"Image","cacheDuration":"0s","auth":{'
    )
    assert answer.stdout.endswith("}\n")
    assert world.asked(world.metadata) == [f"GET {ACCOUNT}/token", f"GET {ACCOUNT}/email"]
    assert world.proxy.asked == ["metadata.google.internal."] * 2


def test_an_image_without_a_slash_gets_the_fixed_keys(world: World) -> None:
    """There is no registry in its name."""
    start_node(world)
    assert set(ask_image("gcr", "nginx", args=COMPAT, env=env_of(world)).auth) == FIXED


def test_a_port_is_part_of_the_key(world: World) -> None:
    """The text before the first slash."""
    start_node(world)
    assert set(ask_image("gcr", "gcr.io:443/a", args=COMPAT, env=env_of(world)).auth) == FIXED | {
        "gcr.io:443"
    }


def test_neither_kind_nor_version_of_the_request_matter(world: World) -> None:
    """The answer is v1, whatever is asked."""
    start_node(world)
    answer = run_plugin("gcr", '{"kind":"Foo","apiVersion":"v9","image":"gcr.io/a"}', COMPAT, env_of(world))
    assert answer.document["apiVersion"] == "credentialprovider.kubelet.k8s.io/v1"


def test_credential_files_and_metadata_hosts_of_the_environment_are_not_looked_at(world: World) -> None:
    """Upstream knows neither variable."""
    start_node(world)
    key = world.write("key.json", service_account())
    env = env_of(world, GOOGLE_APPLICATION_CREDENTIALS=key, GCE_METADATA_HOST="127.0.0.1:1")
    assert ask_image("gcr", "gcr.io/a", args=COMPAT, env=env).auth["gcr.io"] == ("_token", NODE_TOKEN)


def test_the_variables_are_obeyed_beyond_the_tokens_life(world: World) -> None:
    """A day, for a token of an hour."""
    start_node(world)
    env = env_of(world, KUBE_SIDECAR_CACHE_DURATION="24h", KUBE_SIDECAR_CACHE_TYPE="registry")
    answer = ask_image("gcr", "gcr.io/a", args=COMPAT, env=env)
    assert (answer.document["cacheDuration"], answer.document["cacheKeyType"]) == ("24h0m0s", "Registry")


@pytest.mark.parametrize("provider", ["https://idp.example.com/other-project", "https://custom-provider.com"])
def test_a_pods_token_is_exchanged_for_the_project_given(world: World, provider: str) -> None:
    """Not for the one in the provider's URL, which is taken as it is."""
    world.on(f"POST {STS}/v1/token", exchange(f"identitynamespace:demo.svc.id.goog:{provider}"))
    args = (*COMPAT, f"--identity-provider={provider}", "--project-id=demo")
    answer = ask_image(
        "gcr", "gcr.io/a", args=args, env=env_of(world), token=POD_TOKEN, annotations=ANNOTATED
    )
    assert answer.auth == dict.fromkeys(FIXED, ("_token", FEDERATED_TOKEN))
    assert world.metadata.received == []


@pytest.mark.parametrize("status", [400, 503])
def test_a_refused_exchange_is_an_empty_answer(world: World, status: int) -> None:
    """Exit 0 without credentials, although the metadata server would have some; one try."""
    start_node(world)
    world.on(f"POST {STS}/v1/token", error_reply(status, "invalid_grant", POD_TOKEN))
    args = (*COMPAT, *WORKLOAD)
    answer = ask_image(
        "gcr", "gcr.io/a", args=args, env=env_of(world), token=POD_TOKEN, annotations=ANNOTATED
    )
    assert answer.auth == {}
    assert "auth" not in answer.document
    assert f"status {status}" in answer.stderr
    assert POD_TOKEN not in answer.stderr
    assert len(world.api.received) == 1
    assert world.metadata.received == []


def test_an_annotated_account_without_a_token_is_an_empty_answer(world: World) -> None:
    """Nobody is asked."""
    start_node(world)
    answer = ask_image("gcr", "gcr.io/a", args=(*COMPAT, *WORKLOAD), env=env_of(world), annotations=ANNOTATED)
    assert answer.auth == {}
    assert (world.api.received, world.metadata.received) == ([], [])


@pytest.mark.parametrize(("args", "annotations"), [((), ANNOTATED), (WORKLOAD, {})])
def test_otherwise_the_nodes_account_is_used(
    world: World, args: tuple[str, ...], annotations: dict[str, str]
) -> None:
    """Annotated without a provider, or a provider without the annotation."""
    start_node(world)
    answer = ask_image(
        "gcr", "gcr.io/a", args=(*COMPAT, *args), env=env_of(world), token=POD_TOKEN, annotations=annotations
    )
    assert answer.auth["gcr.io"] == ("_token", NODE_TOKEN)


@pytest.mark.parametrize(
    ("token", "email"),
    [
        (Reply(503), Reply()),
        (Reply(body=b"<html>"), Reply()),
        (Reply(is_closed=True), Reply()),
        (token_reply(), Reply(404)),
        (Reply(201, {"access_token": NODE_TOKEN}), Reply()),
    ],
    ids=["unavailable", "html", "closed", "no address", "another success"],
)
def test_a_failing_metadata_server_is_an_empty_answer(world: World, token: Reply, email: Reply) -> None:
    """One try each, a line on standard error, exit 0."""
    world.on(f"GET {ACCOUNT}/token", token)
    world.on(f"GET {ACCOUNT}/email", email)
    answer = ask_image("gcr", "gcr.io/a", args=COMPAT, env=env_of(world))
    assert answer.auth == {}
    assert answer.stderr
    assert NODE_TOKEN not in answer.stderr
    assert world.asked(world.metadata).count(f"GET {ACCOUNT}/token") == 1


def test_a_docker_config_keeps_its_keys(world: World) -> None:
    """Scheme included; an answer of the kind ``Image`` that is never cached."""
    config = {"https://hello.kubernetes.io": {"auth": b64encode(b"foo:bar").decode().rstrip("=")}}
    world.on(f"GET {ATTRIBUTES}/google-dockercfg", from_metadata(Reply(document=config)))
    answer = ask_image("gcr", "x.io/a", args=(*COMPAT, "--authFlow=dockercfg"), env=env_of(world))
    assert answer.auth == {"https://hello.kubernetes.io": ("foo", "bar")}
    assert (answer.document["cacheKeyType"], answer.document["cacheDuration"]) == ("Image", "0s")


def test_a_docker_config_elsewhere_is_fetched_without_headers(world: World) -> None:
    """Not those of the metadata server."""

    def check(received: Received) -> Reply:
        assert "metadata-flavor" not in received.headers
        assert received.headers["user-agent"] != AGENT
        return Reply(document={"reg.io": {"username": "user", "password": "pass"}})

    url = Reply(body=f"https://{CONFIG_HOST}/docker.json".encode())
    world.on(f"GET {ATTRIBUTES}/google-dockercfg-url", from_metadata(url))
    world.on(f"GET {CONFIG_HOST}/docker.json", check)
    answer = ask_image("gcr", "x.io/a", args=(*COMPAT, "-a", "dockercfg-url"), env=env_of(world))
    assert answer.auth == {"reg.io": ("user", "pass")}


def test_a_missing_docker_config_is_an_empty_answer_without_a_word(world: World) -> None:
    """HTTP failures of these flows are silent."""
    world.on(f"GET {ATTRIBUTES}/google-dockercfg", Reply(404))
    answer = ask_image("gcr", "x.io/a", args=(*COMPAT, "-a", "dockercfg"), env=env_of(world))
    assert (answer.auth, answer.stderr) == ({}, "")


def test_an_identity_provider_for_another_flow_is_only_a_warning(world: World) -> None:
    """It has no effect there."""
    world.on(f"GET {ATTRIBUTES}/google-dockercfg", Reply(document={}))
    answer = ask_image("gcr", "x.io/a", args=(*COMPAT, *WORKLOAD, "-a", "dockercfg"), env=env_of(world))
    assert answer.status == 0
    assert "--identity-provider has no effect" in answer.stderr
