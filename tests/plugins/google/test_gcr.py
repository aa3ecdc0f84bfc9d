"""keyferry-gcr run as a kubelet runs it: the node's identity and a pod's, and the tool before it."""

from __future__ import annotations

import time
from base64 import b64encode

import pytest

from keyferry.api.meta import parse_duration
from support.fake_cloud import Handler, Received, Reply, serving
from support.google_world import (
    ACCOUNT,
    ATTRIBUTES,
    CONFIG_HOST,
    FEDERATED_TOKEN,
    NODE_TOKEN,
    OAUTH,
    POD_TOKEN,
    STS,
    World,
    error_reply,
    service_account,
    token_reply,
    user,
    verified_claims,
)
from support.reference import Answer, ask_image, run_plugin

IMAGE = "us-docker.pkg.dev/demo/repo/app"
WORKLOAD = ("--identity-provider=https://idp.example.com/demo", "--project-id=demo")
ANNOTATED = {"iam.gke.io/enable-wi-image-pull": "true"}


def shown_seconds(answer: Answer) -> float:
    """How long the answer may be kept."""
    return parse_duration(str(answer.document["cacheDuration"])) / 1e9


def check_exchange(received: Received) -> Reply:
    """The exchange of a pod's token, as auth-provider-gcp asks for it."""
    assert received.headers["content-type"] == "application/json"
    assert received.json == {
        "audience": "identitynamespace:demo.svc.id.goog:https://idp.example.com/demo",
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "scope": "https://www.googleapis.com/auth/cloud-platform",
        "subject_token": POD_TOKEN,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    }
    return token_reply(FEDERATED_TOKEN)


def test_a_node_pulls_with_its_own_service_account(world: World) -> None:
    """One question to the metadata server, a login for the registry asked for, kept shorter than the token lives."""
    world.on(f"GET {ACCOUNT}/token", token_reply(expires_in=3599))
    answer = ask_image("gcr", IMAGE, args=["get-credentials", "--v=3"], env=world.node_env())
    assert answer.auth == {"us-docker.pkg.dev": ("_token", NODE_TOKEN)}
    assert answer.document["cacheKeyType"] == "Registry"
    assert 3000 < shown_seconds(answer) < 3300
    assert world.asked(world.metadata) == [f"GET {ACCOUNT}/token"]


def test_the_metadata_server_is_never_asked_through_a_proxy(world: World) -> None:
    """Whoever runs the proxy would get the node's token."""
    world.on(f"GET {ACCOUNT}/token", token_reply())
    env = world.node_env(HTTP_PROXY=world.proxy.url, http_proxy=world.proxy.url)
    # By name, since loopback is led past every proxy anyway.
    env["GCE_METADATA_HOST"] = f"metadata.invalid:{world.metadata.port}"
    answer = ask_image("gcr", IMAGE, env=env)
    assert answer.status == 1
    assert "metadata.invalid" in answer.stderr
    assert world.proxy.asked == []


def test_the_variables_of_the_sidecar_decide_about_caching(world: World) -> None:
    """Within the life of the token; an answer for all images names all of Google's registries."""
    world.on(f"GET {ACCOUNT}/token", token_reply(expires_in=3599))
    more = {"KUBE_SIDECAR_CACHE_DURATION": "10m", "KUBE_SIDECAR_CACHE_TYPE": "global"}
    answer = ask_image("gcr", "docker.us-central1.rep.pkg.dev/demo/repo/app", env=world.node_env(**more))
    assert answer.document["cacheDuration"] == "10m0s"
    assert answer.document["cacheKeyType"] == "Global"
    assert set(answer.auth) == {
        "docker.us-central1.rep.pkg.dev",
        "container.cloud.google.com",
        "gcr.io",
        "*.gcr.io",
        "*.pkg.dev",
        "docker.*.rep.pkg.dev",
        "docker.*.goog",
    }


@pytest.mark.parametrize(
    ("life", "asked", "longest"),
    [(3600, "24h", 3300), (3600, "", 3300), (700, "", 400), (600, "", 300), (400, "", 200), (1, "24h", 0)],
)
def test_a_token_is_kept_with_a_margin(world: World, life: int, asked: str, longest: int) -> None:
    """Five minutes, or half of what is left where that is little, whatever is asked for."""
    world.on(f"GET {ACCOUNT}/token", token_reply(expires_in=life))
    answer = ask_image("gcr", IMAGE, env=world.node_env(KUBE_SIDECAR_CACHE_DURATION=asked))
    assert max(longest - 100, 0) <= shown_seconds(answer) <= longest


def test_a_token_of_unknown_life_is_not_kept(world: World) -> None:
    """It may be over any time."""
    world.on(f"POST {OAUTH}/token", token_reply("ya29.from-user", expires_in=None))
    env = world.env(GOOGLE_APPLICATION_CREDENTIALS=world.write("key.json", user()))
    more = {"KUBE_SIDECAR_CACHE_DURATION": "10m"}
    assert ask_image("gcr", IMAGE, env=env | more).document["cacheDuration"] == "0s"


@pytest.mark.parametrize(
    "image",
    [
        "registry.k8s.io/pause",
        "gcr.io.example.com/app",
        "example.com/gcr.io/app",
        "gcr.io@example.com/app",
        "a.b.gcr.io/app",
        "us-docker.pkg.dev.example.com/app",
        "gcr.io:8080/app",
        "gcr.io",
        "x.gcr.io./app",
        "docker.us.evil.pkg.dev/app",
        "/app",
        "io/app",
        "pkg.dev/app",
        ".gcr.io/app",
        "*.gcr.io/app",
        "a.b.pkg.dev/app",
        "evilgcr.io/app",
        "gcr.io./app",
        "gcr\u3002io/app",
        "x\n.gcr.io/app",
    ],
)
def test_a_foreign_registry_gets_no_token(world: World, image: str) -> None:
    """Not even the metadata server is asked; the message says what to narrow."""
    answer = ask_image("gcr", image, env=world.node_env())
    assert (answer.status, answer.stdout) == (1, "")
    assert "matchImages" in answer.stderr
    assert world.metadata.received == []


@pytest.mark.parametrize(
    "host",
    [
        "gcr.io",
        "GCR.IO",
        "eu.gcr.io",
        "marketplace.gcr.io",
        "gcr.io:443",
        "europe-west1-docker.pkg.dev",
        "docker.europe-west1.rep.pkg.dev",
        "DOCKER.US-EAST1.REP.PKG.DEV",
        "US.gcr.io",
    ],
)
def test_each_of_googles_hosts_gets_its_own_key(world: World, host: str) -> None:
    """The key is the text before the first slash, so that the kubelet matches it, five labels or port included."""
    world.on(f"GET {ACCOUNT}/token", token_reply())
    assert set(ask_image("gcr", f"{host}/demo/app", env=world.node_env()).auth) == {host}


def test_a_pod_pulls_as_itself_where_it_asks_to(world: World) -> None:
    """The pod's token is exchanged, and the node's account is not touched."""
    world.on(f"POST {STS}/v1/token", check_exchange)
    answer = ask_image(
        "gcr", IMAGE, args=WORKLOAD, env=world.node_env(), token=POD_TOKEN, annotations=ANNOTATED
    )
    assert answer.auth == {"us-docker.pkg.dev": ("_token", FEDERATED_TOKEN)}
    assert world.metadata.received == []


@pytest.mark.parametrize(
    ("args", "annotations"),
    [(WORKLOAD, {}), (WORKLOAD, {"iam.gke.io/enable-wi-image-pull": "True"}), ((), ANNOTATED)],
)
def test_a_pod_that_does_not_ask_pulls_as_the_node(
    world: World, args: tuple[str, ...], annotations: dict[str, str]
) -> None:
    """The annotation is exactly ``true`` and there is an identity provider, or the node pulls."""
    world.on(f"GET {ACCOUNT}/token", token_reply())
    answer = ask_image(
        "gcr", IMAGE, args=args, env=world.node_env(), token=POD_TOKEN, annotations=annotations
    )
    assert answer.auth["us-docker.pkg.dev"] == ("_token", NODE_TOKEN)


def test_a_refused_exchange_says_what_to_check_and_never_falls_back(world: World) -> None:
    """The node may read what the pod may not; the server's words are shown, the token in them is not."""
    world.on(f"POST {STS}/v1/token", error_reply(400, "invalid_grant", f"bad audience in {POD_TOKEN}"))
    answer = ask_image(
        "gcr", IMAGE, args=WORKLOAD, env=world.node_env(), token=POD_TOKEN, annotations=ANNOTATED
    )
    assert (answer.status, answer.stdout) == (1, "")
    for words in ("invalid_grant", "serviceAccountTokenAudience", "roles/artifactregistry.reader"):
        assert words in answer.stderr
    assert POD_TOKEN not in answer.stderr
    assert world.metadata.received == []


def test_an_annotated_account_without_a_token_is_an_error(world: World) -> None:
    """The kubelet's config lacks tokenAttributes, and the message says so."""
    answer = ask_image("gcr", IMAGE, args=WORKLOAD, env=world.node_env(), annotations=ANNOTATED)
    assert answer.status == 1
    assert "serviceAccountTokenAudience demo.svc.id.goog" in answer.stderr


def test_application_default_credentials_serve_nodes_elsewhere(world: World) -> None:
    """A key file named by the environment wins over the node's account; the user name is the one for such tokens."""

    def check(received: Received) -> Reply:
        claims = verified_claims(received.form["assertion"])
        assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
        return token_reply("ya29.from-key")

    world.on(f"POST {OAUTH}/token", check)
    env = world.node_env(GOOGLE_APPLICATION_CREDENTIALS=world.write("key.json", service_account()))
    assert ask_image("gcr", IMAGE, env=env).auth == {
        "us-docker.pkg.dev": ("oauth2accesstoken", "ya29.from-key")
    }
    assert world.metadata.received == []


def test_gclouds_own_file_is_used_off_googles_machines(world: World) -> None:
    """The well-known file, which on a node of Google's counts for less than the node's account."""
    world.write(".config/gcloud/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", token_reply("ya29.from-user"))
    world.on(f"GET {ACCOUNT}/token", token_reply())
    assert ask_image("gcr", IMAGE, env=world.env()).auth["us-docker.pkg.dev"] == (
        "oauth2accesstoken",
        "ya29.from-user",
    )
    assert ask_image("gcr", IMAGE, env=world.node_env()).auth["us-docker.pkg.dev"] == ("_token", NODE_TOKEN)


def test_without_any_credentials_the_message_says_what_to_set(world: World) -> None:
    """Off Google's machines, with no file."""
    answer = ask_image("gcr", IMAGE, env=world.env())
    assert (answer.status, answer.stdout) == (1, "")
    assert "GOOGLE_APPLICATION_CREDENTIALS" in answer.stderr


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(404, body=b"not found"), "attach a service account"),
        (Reply(403, body=b"no"), "roles/iam.workloadIdentityUser"),
        (Reply(200, body=b"<html>"), "not a JSON object"),
        (Reply(200, {"expires_in": 3600}), "access_token is missing"),
        (Reply(200, {"access_token": "ya29.a\r\nX: y", "expires_in": 3600}), "not valid in an HTTP header"),
        (Reply(200, {"access_token": NODE_TOKEN, "expires_in": 0}), "expires_in"),
        (Reply(200, {"access_token": NODE_TOKEN, "expires_in": "NaN"}), "expires_in"),
        (Reply(raw=b"not http at all\r\n\r\n"), "the metadata server http://127.0.0.1"),
        (Reply(302, headers={"Location": "http://127.0.0.1:1/"}), "status 302"),
        (Reply(503, headers={"Retry-After": "600"}), "retry after 600 s"),
        (Reply(is_endless=True), "longer than"),
    ],
    ids=[
        "404", "403", "html", "no token", "header injection", "zero", "not a number", "no http", "redirect",
        "asks to wait", "endless",
    ],
)  # fmt: skip
def test_a_broken_metadata_server_is_an_error_with_a_reason(world: World, reply: Reply, words: str) -> None:
    """Exit 1 and a message, never an empty answer that looks like success; no token in it, and no long wait."""
    world.on(f"GET {ACCOUNT}/token", reply)
    answer = ask_image("gcr", IMAGE, env=world.node_env())
    assert (answer.status, answer.stdout) == (1, "")
    assert words in answer.stderr
    assert "ya29" not in answer.stderr


@pytest.mark.parametrize("host", ["http://127.0.0.1", "127.0.0.1/x", "a@b", "a b", "a?b"])
def test_a_metadata_host_is_a_host(world: World, host: str) -> None:
    """And not a URL, nor a part of one."""
    answer = ask_image("gcr", IMAGE, env=world.env(GCE_METADATA_HOST=host))
    assert answer.status == 1
    assert "GCE_METADATA_HOST" in answer.stderr


def test_throttling_is_waited_out(world: World) -> None:
    """A transient status is tried again."""
    world.on(f"GET {ACCOUNT}/token", Reply(429), Reply(503), token_reply())
    assert ask_image("gcr", IMAGE, env=world.node_env()).auth["us-docker.pkg.dev"] == ("_token", NODE_TOKEN)
    assert len(world.metadata.received) == 3


def test_a_docker_config_comes_from_the_instances_metadata(world: World) -> None:
    """Packed and separate logins, keys as they are; how long to keep them is left to the kubelet's config."""
    packed = b64encode(b"u:p:q").decode()
    config = {
        "https://hello.kubernetes.io": {"auth": b64encode(b"foo:bar").decode(), "email": "x@example.com"},
        "reg.example.com": {"username": "user", "password": "pass"},
        "padded.io": {"auth": packed, "username": "x", "password": "y"},
        "unpadded.io": {"auth": packed.rstrip("=")},
        "blank.io": {"auth": f" {packed}\n"},
    }
    world.on(f"GET {ATTRIBUTES}/google-dockercfg", Reply(document=config))
    answer = ask_image("gcr", "reg.example.com/app", args=["--authFlow", "dockercfg"], env=world.node_env())
    assert answer.auth == {
        "https://hello.kubernetes.io": ("foo", "bar"),
        "reg.example.com": ("user", "pass"),
        **dict.fromkeys(("padded.io", "unpadded.io", "blank.io"), ("u", "p:q")),
    }
    assert "cacheDuration" not in answer.document


def test_a_docker_config_comes_from_where_the_metadata_says(world: World) -> None:
    """The URL's server gets no header of the metadata server's."""

    def check(received: Received) -> Reply:
        assert "metadata-flavor" not in received.headers
        return Reply(document={"reg.example.com": {"username": "user", "password": "pass"}})

    world.on(f"GET {CONFIG_HOST}/docker.json", check)
    world.on(
        f"GET {ATTRIBUTES}/google-dockercfg-url", Reply(body=f"https://{CONFIG_HOST}/docker.json\n".encode())
    )
    args = ["get-credentials", "-a", "dockercfg-url", "--v=3", "--logtostderr"]
    answer = ask_image("gcr", "reg.example.com/app", args=args, env=world.node_env())
    assert answer.auth == {"reg.example.com": ("user", "pass")}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not a JSON object"),
        (b"\xff\x00", "not a JSON object"),
        (b'["secret-mark"]', "not a JSON object"),
        (b'{"r.io": {"username": ["secret-mark"]}}', "username of 'r.io' is not a string"),
        (b'{"r.io": {"auth": "c2VjcmV0LW1hcms="}}', "not base64 of a user name"),
        (b'{"r.io": {"auth": "secret-mark!"}}', "not base64 of a user name"),
        (b'{"r.io": "secret-mark"}', "is not an object"),
    ],
)
def test_a_broken_docker_config_is_an_error_that_quotes_nothing(
    world: World, body: bytes, words: str
) -> None:
    """One bad entry spoils the document, as upstream has it."""
    world.on(f"GET {ATTRIBUTES}/google-dockercfg", Reply(body=body))
    answer = ask_image("gcr", "r.io/app", args=["-a", "dockercfg"], env=world.node_env())
    assert answer.status == 1
    assert words in answer.stderr
    assert "secret-mark" not in answer.stderr
    assert "c2Vj" not in answer.stderr


@pytest.mark.parametrize("attribute", ["ftp://example.com/x", "httpx", "127.0.0.1/x"])
def test_only_a_url_is_followed(world: World, attribute: str) -> None:
    """What the attribute says has to be http or https."""
    world.on(f"GET {ATTRIBUTES}/google-dockercfg-url", Reply(body=attribute.encode()))
    answer = ask_image("gcr", "r.io/app", args=["-a", "dockercfg-url"], env=world.node_env())
    assert "google-dockercfg-url is not an http:// or https:// URL" in answer.stderr


@pytest.mark.parametrize("flow", ["gcr", "dockercfg", "dockercfg-url"])
@pytest.mark.parametrize("compat", [(), ("--compat",)])
def test_an_identity_provider_needs_a_project(world: World, flow: str, compat: tuple[str, ...]) -> None:
    """For every flow, with and without upstream's manners."""
    args = (f"--authFlow={flow}", "--identity-provider=https://idp.example.com", *compat)
    answer = ask_image("gcr", IMAGE, args=args, env=world.node_env())
    assert answer.status != 0
    assert answer.stdout == ""
    assert "--project-id" in answer.stderr


@pytest.mark.parametrize(
    ("args", "more"),
    [
        (["--authFlow=GCR"], {}),
        (["--authFlow="], {}),
        (["put-credentials"], {}),
        ([], {"KUBE_SIDECAR_CACHE_DURATION": "soon"}),
        ([], {"KUBE_SIDECAR_CACHE_TYPE": "Image"}),
    ],
)
@pytest.mark.parametrize("compat", [[], ["--compat"]])
def test_bad_settings_are_errors(
    world: World, args: list[str], more: dict[str, str], compat: list[str]
) -> None:
    """Nothing on standard output, a status that is not 0."""
    answer = ask_image("gcr", IMAGE, args=[*args, *compat], env=world.node_env(**more))
    assert answer.status != 0
    assert answer.stdout == ""
    assert answer.stderr


def test_a_request_of_another_kind_is_refused(world: World) -> None:
    """Without upstream's manners the request's kind counts."""
    answer = run_plugin("gcr", '{"kind":"Foo","apiVersion":"v9","image":"gcr.io/a"}', [], world.node_env())
    assert answer.status == 1


def test_the_answer_is_in_the_version_asked_for(world: World) -> None:
    """Older kubelets ask in v1beta1."""
    world.on(f"GET {ACCOUNT}/token", token_reply())
    answer = ask_image("gcr", IMAGE, env=world.node_env(), version="v1beta1")
    assert answer.document["apiVersion"] == "credentialprovider.kubelet.k8s.io/v1beta1"


@pytest.mark.parametrize(
    "reply", [Reply(200, body=b"please log in"), Reply(after=30)], ids=["a portal", "silence"]
)
def test_a_probe_finds_a_metadata_server_by_its_answer(world: World, reply: Reply) -> None:
    """No variable names it: the address answers soon, and as Google's does, or it does not count."""
    before = time.monotonic()
    with serving(lambda _: reply) as other:
        env = world.env(GCE_METADATA_IP=f"127.0.0.1:{other.port}", NO_GCE_CHECK="")
        answer = ask_image("gcr", IMAGE, env=env)
    assert "there are no application default credentials" in answer.stderr
    assert [each.headers["metadata-flavor"] for each in other.received] == ["Google"]
    assert time.monotonic() - before < 25


AGENT = "GKE auth-provider-gcp image pull"
FIXED = {"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"}
OTHER_WORKLOAD = ("--identity-provider=https://idp.example.com/other-project", "--project-id=demo")
COMPAT = ("get-credentials", "--compat", "--v=3")


def env_of(world: World, **more: str) -> dict[str, str]:
    """Upstream has no switch to lead it elsewhere, but it honours proxies, for metadata, too."""
    return world.env(HTTP_PROXY=world.proxy.url, **more)


def from_metadata(reply: Reply) -> Handler:
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


def exchange(audience: str) -> Handler:
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


@pytest.mark.parametrize(
    ("image", "keys"),
    [("nginx", FIXED), ("gcr.io:443/a", FIXED | {"gcr.io:443"})],
    ids=["no registry", "a port"],
)
def test_the_key_is_the_text_before_the_first_slash(world: World, image: str, keys: set[str]) -> None:
    """If there is one."""
    start_node(world)
    assert set(ask_image("gcr", image, args=COMPAT, env=env_of(world)).auth) == keys


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
    args = (*COMPAT, *OTHER_WORKLOAD)
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
    answer = ask_image(
        "gcr", "gcr.io/a", args=(*COMPAT, *OTHER_WORKLOAD), env=env_of(world), annotations=ANNOTATED
    )
    assert answer.auth == {}
    assert (world.api.received, world.metadata.received) == ([], [])


@pytest.mark.parametrize(("args", "annotations"), [((), ANNOTATED), (OTHER_WORKLOAD, {})])
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
    answer = ask_image("gcr", "x.io/a", args=(*COMPAT, *OTHER_WORKLOAD, "-a", "dockercfg"), env=env_of(world))
    assert answer.status == 0
    assert "--identity-provider has no effect" in answer.stderr
