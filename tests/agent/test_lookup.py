"""The agent answers lookups over its socket: for everybody from one cache, for tenants by their whole token."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyferry.agent.lookups import read_question
from support.agent_here import agent_here
from support.agents import Agent, make_token
from support.parts import need
from support.plugins import IMAGE, PLUGIN, REGISTRY, Node, print_answer, wait_until, write_executable

TOKENS = {
    "serviceAccountTokenAudience": "registry",
    "cacheType": "ServiceAccount",
    "requireServiceAccount": True,
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent for questions that change nothing."""
    made = Node(tmp_path_factory.mktemp("node"))
    made.recording()
    with agent_here(made) as running:
        yield running


def test_a_lookup_gives_the_credentials_and_where_they_are_from(agent: Agent) -> None:
    first, second = agent.look_up(f"{IMAGE}:v1"), agent.look_up(f"{REGISTRY}/other")
    assert (first.status, second.status) == (200, 200)
    document = first.document
    assert document["kind"] == "LookupResponse"
    assert document["credentials"] == [
        {
            "username": "user",
            "password": "pass",
            "key": REGISTRY,
            "source": {"kind": "provider", "name": PLUGIN},
        }
    ]
    assert document["sources"] == {PLUGIN: "run"}
    assert second.document["sources"] == {PLUGIN: "cache"}
    assert document["expiresAt"] <= second.document["expiresAt"]
    assert agent.node.runs() == [IMAGE]


def test_no_provider_for_an_image_is_an_empty_answer(agent: Agent) -> None:
    document = agent.look_up("elsewhere.example/app").document
    assert (document["credentials"], document["failures"], document["sources"]) == ([], [], {})
    assert "expiresAt" not in document


def test_ten_clients_at_once_cause_one_run(node: Node) -> None:
    """Those that come during the run share its answer; one that is late finds it in the cache."""
    node.recording(before='until [ -e "$HERE/go" ]; do sleep 0.05; done')
    found: list[str] = []
    with agent_here(node) as agent:
        threads = [
            threading.Thread(target=lambda: found.append(agent.look_up(IMAGE).document["sources"][PLUGIN]))
            for _ in range(10)
        ]
        for each in threads:
            each.start()
        wait_until(lambda: node.runs() and agent.status["connections"]["open"] == 11, "the clients")
        node.file("go").touch()
        for each in threads:
            each.join()
    assert (found.count("run"), set(found) - {"cache"}) == (1, {"run", "shared"})
    assert len(node.runs()) == 1


def test_one_provider_answers_as_the_plugin_would(agent: Agent) -> None:
    """The kubelet may not cache it, so that an eviction or a reload counts at once."""
    for source in ("run", "cache"):
        document = agent.look_up(IMAGE, provider=PLUGIN).document
        assert (document["kind"], document["outcome"], document["source"]) == (
            "ProviderResponse",
            "answered",
            source,
        )
        assert document["response"] == {
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Registry",
            "cacheDuration": "0s",
            "auth": {REGISTRY: {"username": "user", "password": "pass"}},
        }


def test_one_provider_that_does_not_match_or_is_unknown(agent: Agent) -> None:
    assert agent.look_up("elsewhere.example/app", provider=PLUGIN).document["outcome"] == "noMatch"
    unknown = agent.look_up(IMAGE, provider="other")
    assert (unknown.status, unknown.document["reason"]) == (404, "UnknownProvider")


def test_one_provider_that_fails(node: Node) -> None:
    """Its status and what it said, with secrets masked; the next request runs it again."""
    node.shell("echo 'token: hunter2secretvalue' >&2; echo oops >&2; exit 7")
    with agent_here(node) as agent:
        document = agent.look_up(IMAGE, provider=PLUGIN).document
        assert (document["outcome"], document["exitCode"]) == ("failed", 7)
        assert document["stderr"] == "token: ********\noops\n"
        assert document["message"].endswith("; stderr: token: ******** | oops")
        assert "hunter2" not in json.dumps(document)
        failures = agent.look_up(IMAGE).document["failures"]
        assert [(each["provider"], each["cause"]) for each in failures] == [(PLUGIN, "exit")]
        [provider] = agent.status["providers"]
        assert provider["lastFailure"]["cause"] == "exit"
        assert provider["runs"] == 2


def without_interpreter(node: Node) -> None:
    write_executable(node.bin_dir / PLUGIN, "#!/nonexistent/loader\n")


def of_another_format(node: Node) -> None:
    write_executable(node.bin_dir / PLUGIN, b"\x7fELF\0")


def without_permission(node: Node) -> None:
    write_executable(node.bin_dir / PLUGIN, f"#!{node.root}\n")


def without_library(node: Node) -> None:
    """The loader runs, and tells that there is none."""
    build_library(node.root, "V1")
    link_plugin(node)
    (node.root / "libneeded.so").unlink()


def with_a_library_that_is_too_old(node: Node) -> None:
    build_library(node.root, "V2")
    link_plugin(node)
    build_library(node.root, "V1")


def with_a_program_that_is_missing(node: Node) -> None:
    write_executable(node.bin_dir / PLUGIN, "#!/usr/bin/env keyferry-nonexistent\n")


def build_library(folder: Path, version: str) -> None:
    (folder / "needed.c").write_text("int needed(void) { return 0; }\n")
    (folder / "needed.map").write_text(f"{version} {{ global: needed; }};\n")
    options = ["-shared", "-fPIC", f"-Wl,--version-script={folder}/needed.map"]
    target = f"{folder}/libneeded.so"
    subprocess.run([need("gcc"), *options, "-o", target, f"{folder}/needed.c"], check=True)


def link_plugin(node: Node) -> None:
    (node.root / "plugin.c").write_text("int needed(void);\nint main(void) { return needed(); }\n")
    libraries = [f"-L{node.root}", "-lneeded", f"-Wl,-rpath,{node.root}"]
    target = str(node.bin_dir / PLUGIN)
    subprocess.run([need("gcc"), "-o", target, f"{node.root}/plugin.c", *libraries], check=True)


@pytest.mark.parametrize(
    "write",
    [
        without_interpreter,
        of_another_format,
        without_permission,
        without_library,
        with_a_library_that_is_too_old,
        with_a_program_that_is_missing,
    ],
)
def test_one_provider_that_cannot_be_started_here(node: Node, write: Callable[[Node], None]) -> None:
    """That says nothing about the plugin in another place, so it has an outcome of its own."""
    write(node)
    with agent_here(node) as agent:
        document = agent.look_up(IMAGE, provider=PLUGIN).document
        assert document["outcome"] == "notStarted"
        assert PLUGIN in document["message"]
        [provider] = agent.status["providers"]
        assert provider["lastFailure"]["cause"] in ("not-found", "start", "exit")


@pytest.mark.parametrize("status", [1, 2, 125, 128, 255])
def test_one_provider_that_ran_has_failed(node: Node, status: int) -> None:
    node.shell(f"echo 'file not found' >&2; exit {status}")
    with agent_here(node) as agent:
        document = agent.look_up(IMAGE, provider=PLUGIN).document
        assert (document["outcome"], document["exitCode"]) == ("failed", status)


def tenant_node(node: Node, key_type: str = "Registry") -> None:
    """A provider whose answer depends on the token."""
    node.provider(tokenAttributes=TOKENS)
    node.python(
        "import json, sys, hashlib\n"
        "request = json.load(sys.stdin)\n"
        "token = request.get('serviceAccountToken', '')\n"
        "open(HERE + '/plugin.runs', 'a').write(token[-8:] + chr(10))\n"
        "word = hashlib.sha256(token.encode()).hexdigest()\n"
        "json.dump({'kind': 'CredentialProviderResponse', 'apiVersion': request['apiVersion'],\n"
        f" 'cacheKeyType': '{key_type}', 'cacheDuration': '10m',\n"
        f" 'auth': {{'{REGISTRY}': {{'username': 'u', 'password': word}}}}}}, sys.stdout)\n"
    )


def test_a_token_for_another_audience_is_left_to_the_caller(node: Node) -> None:
    """The caller's own config may name that audience, so this is no failure of the plugin."""
    tenant_node(node)
    with agent_here(node) as agent:
        token = make_token(time.time() + 600, aud=["elsewhere"])
        document = agent.look_up(IMAGE, provider=PLUGIN, serviceAccountToken=token).document
        assert document["outcome"] == "notStarted"
        assert "'elsewhere'" in document["message"]
        assert node.runs() == []


def test_a_tenant_gets_the_answer_of_its_own_token_alone(node: Node) -> None:
    """A forged token with the same claims runs the plugin with that forged token."""
    tenant_node(node)
    real, forged = make_token(time.time() + 600, "real"), make_token(time.time() + 600, "fake")
    with agent_here(node) as agent:
        first = agent.look_up(IMAGE, provider=PLUGIN, serviceAccountToken=real).document
        again = agent.look_up(IMAGE, provider=PLUGIN, serviceAccountToken=real).document
        other = agent.look_up(IMAGE, provider=PLUGIN, serviceAccountToken=forged).document
        assert [each["source"] for each in (first, again, other)] == ["run", "cache", "run"]
        assert first["response"]["auth"] == again["response"]["auth"] != other["response"]["auth"]
        # The plugin's own duration, then what is left of it.
        assert first["response"]["cacheDuration"] == "10m0s"
        assert again["response"]["cacheDuration"].startswith("9m5")
        assert len(node.runs()) == 2
        # Without a token there is nothing for anybody, and no run.
        assert agent.look_up(IMAGE, provider=PLUGIN).document["outcome"] == "noMatch"
        assert agent.look_up(IMAGE).document["credentials"] == []
        whole = agent.look_up(IMAGE, serviceAccountToken=real).document
        assert whole["sources"] == {PLUGIN: "cache"}
        status = agent.status
        assert [each["cache"]["tenantEntries"] for each in status["providers"]] == [2]
        assert status["refresh"]["planned"] == 0
        assert real not in agent.log


def test_an_answer_that_has_expired_is_not_counted(node: Node) -> None:
    """Nobody asks again, so it is still in memory; the page does not show it either."""
    node.recording(duration="100ms")
    with agent_here(node) as agent:
        agent.look_up(IMAGE)
        wait_until(lambda: [each["cache"]["entries"] for each in agent.status["providers"]] == [0], "the end")


def test_the_answer_for_a_token_without_an_end_is_not_kept(node: Node) -> None:
    tenant_node(node)
    with agent_here(node) as agent:
        for _ in range(2):
            token = make_token(None)
            assert (
                agent.look_up(IMAGE, provider=PLUGIN, serviceAccountToken=token).document["source"] == "run"
            )
        assert len(node.runs()) == 2


def test_evict_drops_a_refused_credential_and_is_limited(agent: Agent) -> None:
    agent.look_up(IMAGE)
    refused = {"image": IMAGE, "username": "user", "password": "pass"}
    assert agent.ask("POST", "/v1/evict", refused | {"password": "x"}).document["evicted"] is False
    assert agent.ask("POST", "/v1/evict", refused).document["evicted"] is True
    assert agent.look_up(IMAGE).document["sources"] == {PLUGIN: "run"}
    statuses = [agent.ask("POST", "/v1/evict", refused).status for _ in range(12)]
    assert 429 in statuses
    limited = agent.ask("POST", "/v1/evict", refused)
    assert (limited.status, limited.document["reason"]) == (429, "TooManyRequests")
    assert int(limited.headers["retry-after"]) > 0


def test_curl_can_ask(agent: Agent) -> None:
    """The example of the documentation; a long body makes curl wait for 100 Continue."""
    body = json.dumps({"image": IMAGE, "padding": "x" * 100_000})
    command = [need("curl"), "-sS", "--unix-socket", agent.socket, "-d", "@-", "http://agent/v1/lookup"]
    command += ["-H", "Expect: 100-continue"]
    done = subprocess.run(command, input=body, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["credentials"][0]["username"] == "user"


def test_requests_are_in_the_log_at_debug_level_only(node: Node) -> None:
    """With the caller and its trace context, and without a secret."""
    with agent_here(node, "--log-level", "debug", "--log-format", "json") as agent:
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        agent.ask("POST", "/v1/lookup", {"image": IMAGE}, traceparent=trace)
        events = [json.loads(line) for line in agent.log.splitlines()]
        [request] = [each for each in events if each["event"] == "request"]
        assert request["traceparent"] == trace
        assert (request["path"], request["status"], request["id"]) == ("/v1/lookup", 200, 1)
        assert '"pass"' not in agent.log
    with agent_here(Node(node.root), "--log-level", "info") as agent:
        agent.look_up(IMAGE)
        assert "/v1/lookup" not in agent.log


def test_every_line_about_a_request_has_its_id_and_trace(node: Node) -> None:
    """Also at the default level, where the request itself is not logged."""
    with agent_here(node, "--log-format", "json") as agent:
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        agent.look_up(IMAGE)
        refused = {"image": IMAGE, "username": "user", "password": "pass"}
        agent.ask("POST", "/v1/evict", refused, traceparent=trace)
        [evict] = [each for each in map(json.loads, agent.log.splitlines()) if each["event"] == "evict"]
        assert (evict["id"], evict["traceparent"], evict["evicted"]) == (2, trace, True)
        assert '"pass"' not in agent.log


def test_a_registry_is_answered_if_all_its_images_have_one_login(agent: Agent) -> None:
    """As docker's tools ask, which name no image; from the cache the second time."""
    question = {"apiVersion": "agent.keyferry.dev/v1", "kind": "LookupRequest", "registry": REGISTRY}
    first, second = (agent.ask("POST", "/v1/lookup", question).document for _ in range(2))
    assert (first["kind"], first["outcome"]) == ("RegistryResponse", "found")
    assert [each["username"] for each in first["credentials"]] == ["user"]
    assert first["candidates"] == [f"{REGISTRY}/keyferry"]
    assert "expiresAt" in first
    assert second["credentials"] == first["credentials"]
    assert len(agent.node.runs()) == 1
    none = agent.ask("POST", "/v1/lookup", {**question, "registry": "elsewhere.example"}).document
    assert (none["outcome"], none["credentials"]) == ("none", [])
    for wrong in ("", "a/b", "registry example", 7):
        assert agent.ask("POST", "/v1/lookup", {**question, "registry": wrong}).status == 400


def test_an_answer_can_be_asked_of_one_config_only(agent: Agent) -> None:
    """The agent tells the config that an answer stands for, and does nothing for a caller that means another one."""
    config = agent.status["config"]
    mine = {"configHash": config["hash"], "binDir": config["binDir"]}
    for question in ({}, {"provider": PLUGIN}):
        for _ in range(2):  # from a run, then from the cache
            reply = agent.look_up(IMAGE, **question, **mine)
            assert (reply.status, reply.document["configHash"]) == (200, config["hash"])
        assert "configHash" not in agent.look_up(IMAGE, **question).document
        for other in ({"configHash": "sha256:0"}, {"binDir": "/elsewhere"}):
            reply = agent.look_up("registry.example/unseen", **question, **{**mine, **other})
            assert (reply.status, reply.document["reason"]) == (409, "OtherConfig")
    assert agent.node.runs() == [IMAGE]


def test_the_login_of_a_registry_can_be_asked_of_one_config_only(agent: Agent) -> None:
    config = agent.status["config"]
    mine = {"registry": REGISTRY, "configHash": config["hash"], "binDir": config["binDir"]}
    for other in ({"configHash": "sha256:0"}, {"binDir": "/elsewhere"}):
        reply = agent.ask("POST", "/v1/lookup", {**mine, **other})
        assert (reply.status, reply.document["reason"]) == (409, "OtherConfig")
    assert agent.node.runs() == []
    reply = agent.ask("POST", "/v1/lookup", mine)
    assert (reply.document["outcome"], reply.document["configHash"]) == ("found", config["hash"])
    assert "configHash" not in agent.ask("POST", "/v1/lookup", {"registry": REGISTRY}).document


def test_a_lookup_tells_the_inputs_that_were_not_given(node: Node) -> None:
    """The kubelet, which has the pod, may get another answer."""
    optional = {**TOKENS, "requireServiceAccount": False}
    node.provider(tokenAttributes=optional)
    with agent_here(node) as agent:
        assert [each["input"] for each in agent.look_up(IMAGE).document["missing"]] == ["pod"]
        assert agent.look_up("elsewhere.example/app").document["missing"] == []


def test_what_the_caller_passes_on_reaches_the_plugin_and_its_account_is_named(node: Node) -> None:
    node.provider(tokenAttributes={**TOKENS, "optionalServiceAccountAnnotationKeys": ["a"]})
    node.shell(f'cat >"$HERE/request"; {print_answer()}')
    token, account = make_token(time.time() + 600), {"namespace": "ns", "name": "builder", "uid": "u"}
    annotations = {"a": "b", "other": "c"}
    with agent_here(node) as agent:
        passed_on = {"serviceAccountToken": token, "serviceAccountAnnotations": annotations}
        [found] = agent.look_up(IMAGE, **passed_on, serviceAccount=account).document["credentials"]
    request = json.loads(node.file("request").read_text())
    assert (request["serviceAccountToken"], request["serviceAccountAnnotations"]) == (token, {"a": "b"})
    assert found["source"]["serviceAccount"] == account


def test_a_question_does_not_show_its_token() -> None:
    assert "its-token" not in repr(read_question(b'{"image": "r.io/a", "serviceAccountToken": "its-token"}'))


LOGIN = {"username": "u", "password": "p"}
EVICTION = {"image": IMAGE, **LOGIN}
NO_VERSION = "apiVersion: expected 'agent.keyferry.dev/v1'"
NO_OBJECT = "the body is not a JSON object"
NO_LOGIN = "image, username and password: expected strings"
NO_IMAGE = "image: expected a name such as 'registry.example:5000/team/app:v1'"


@pytest.mark.parametrize(
    ("target", "body", "message"),
    [
        *(("/v1/lookup", body, NO_OBJECT) for body in (b"", b"[]", b"{", b"\xff", b"[" * 100_000)),
        *(("/v1/lookup", body, "image: expected a string") for body in ({}, {"image": None}, {"image": 5})),
        ("/v1/lookup", b'{"image":1e999}', "image: expected a string"),
        *(("/v1/lookup", {"image": name}, NO_IMAGE) for name in ("a b", "UPPER CASE")),
        (
            "/v1/lookup",
            {"image": IMAGE, "serviceAccountToken": "\ud800"},
            "serviceAccountToken: expected a string",
        ),
        (
            *("/v1/lookup", {"image": IMAGE, "serviceAccountAnnotations": {"a": 1}}),
            "serviceAccountAnnotations: expected an object of strings",
        ),
        (
            "/v1/lookup",
            {"image": IMAGE, "serviceAccount": "n/s"},
            "serviceAccount: expected an object of strings",
        ),
        *(
            (target, {**document, "apiVersion": version}, NO_VERSION)
            for version in ("agent.keyferry.dev/v9", "", None, 1)
            for target, document in (
                *(("/v1/lookup", {"image": IMAGE}), ("/v1/lookup", {"registry": REGISTRY})),
                ("/v1/evict", EVICTION),
            )
        ),
        *(
            ("/v1/evict", {**EVICTION, name: value}, NO_LOGIN)
            for name in EVICTION
            for value in (None, 1, ["a"])
        ),
        *(("/v1/evict", {each: "a" for each in EVICTION if each != name}, NO_LOGIN) for name in EVICTION),
        ("/v1/evict", {**LOGIN, "image": "a" * 1025}, "image: expected at most 1024 characters"),
    ],
)
def test_what_is_no_question_is_refused_without_a_quote(
    shared: Agent, target: str, body: object, message: str
) -> None:
    reply = shared.ask("POST", target, body)
    assert (reply.status, reply.document["message"]) == (400, message)
