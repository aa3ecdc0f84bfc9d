"""The agent answers lookups over its socket: for everybody from one cache, for tenants by their whole token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyferry.agent.lookups import BadQuestionError, read_eviction, read_question
from keyferry.images.keyring import ServiceAccountRef
from support.agent_here import agent_here
from support.agents import Agent, make_token
from support.parts import need
from support.plugins import IMAGE, PLUGIN, REGISTRY, Node, wait_until, write_executable

TOKENS = {
    "serviceAccountTokenAudience": "registry",
    "cacheType": "ServiceAccount",
    "requireServiceAccount": True,
}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one provider that counts its runs."""
    made = Node(tmp_path)
    made.recording()
    return made


@pytest.fixture
def agent(node: Node) -> Iterator[Agent]:
    """An agent of that node."""
    with agent_here(node) as running:
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
    node.recording(before="sleep 0.3")
    with agent_here(node) as agent:
        found: list[str] = []
        threads = [
            threading.Thread(target=lambda: found.append(agent.look_up(IMAGE).document["sources"][PLUGIN]))
            for _ in range(10)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sorted(found) == ["run"] + ["shared"] * 9
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
    node.recording(duration="1s")
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


def test_fields_that_the_agent_does_not_know_are_ignored(agent: Agent) -> None:
    assert agent.look_up(IMAGE, later=[1], kinder={}).document["credentials"]


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


@pytest.mark.parametrize(
    ("method", "path", "document", "status"),
    [
        ("POST", "/v1/lookup", {}, 400),
        ("POST", "/v1/lookup", {"image": 5}, 400),
        ("POST", "/v1/lookup", {"image": "UPPER CASE"}, 400),
        ("POST", "/v1/lookup", [], 400),
        ("POST", "/v1/lookup", {"image": IMAGE, "serviceAccountToken": "\ud800"}, 400),
        ("POST", "/v1/lookup", {"image": IMAGE, "serviceAccountAnnotations": {"a": 1}}, 400),
        ("POST", "/v1/lookup", {"image": IMAGE, "apiVersion": "agent.keyferry.dev/v1", "new": 1}, 200),
        ("POST", "/v1/lookup", {"image": IMAGE, "apiVersion": "agent.keyferry.dev/v9"}, 400),
        ("POST", "/v1/evict", {"image": IMAGE}, 400),
        (
            "POST",
            "/v1/evict",
            {"image": IMAGE, "username": "u", "password": "p", "apiVersion": "agent.keyferry.dev/v9"},
            400,
        ),
        ("GET", "/v1/lookup", None, 405),
        ("GET", "/v2/lookup", None, 404),
        ("GET", "/v1/health", None, 200),
        ("GET", "/v1/ready?verbose", None, 200),
    ],
)
def test_every_request_has_its_status(
    agent: Agent, method: str, path: str, document: object, status: int
) -> None:
    reply = agent.ask(method, path, document)
    assert reply.status == status
    assert reply.document["apiVersion"] == "agent.keyferry.dev/v1"


def test_figures_have_the_kubelets_names_and_the_agents_own(agent: Agent) -> None:
    agent.look_up(IMAGE)
    figures = agent.ask("GET", "/metrics").body.decode()
    assert 'kubelet_credential_provider_plugin_duration_count{plugin_name="plugin"} 1.0' in figures
    assert "keyferry_config_reload_success 1.0" in figures
    assert 'keyferry_agent_requests_total{status="200"}' in figures
    assert 'keyferry_agent_planned_refreshes{plugin_name="plugin"} 1.0' in figures
    names = {line.partition("{")[0] for line in figures.splitlines() if line.startswith("# HELP")}
    again = agent.ask("GET", "/v1/metrics")
    assert again.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert names <= {line.partition("{")[0] for line in again.body.decode().splitlines()}


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


def test_a_client_that_sends_no_more_gets_the_answer_of_a_run(node: Node) -> None:
    """As of the cache: shutdown(SHUT_WR) after a request says that there will be no other one."""
    node.recording(before="sleep 0.5")
    with agent_here(node) as agent:
        for source in (b"run", b"cache"):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(30)
                client.connect(agent.socket)
                body = json.dumps({"image": IMAGE})
                head = f"POST /v1/lookup HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n"
                client.sendall((head + body).encode())
                client.shutdown(socket.SHUT_WR)
                found = b""
                while piece := client.recv(65536):
                    found += piece
            assert found.startswith(b"HTTP/1.1 200 ")
            assert b'"sources":{"plugin":"%b"}' % source in found


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


def test_the_docker_helper_gets_its_login_from_the_agent(agent: Agent) -> None:
    """Ten at once cause one run of the plugin, and none in the helper's own process."""
    command = [sys.executable, "-c", "from keyferry.bridge.docker_helper import main; main()", "get"]
    environ = {**os.environ, "KEYFERRY_AGENT": agent.socket, "KEYFERRY_HOST_ROOT": "/nonexistent"}
    helpers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)
        for _ in range(10)
    ]
    printed = [helper.communicate(REGISTRY.encode(), timeout=60)[0] for helper in helpers]
    assert {helper.returncode for helper in helpers} == {0}
    assert {json.loads(each)["Secret"] for each in printed} == {"pass"}
    assert len(agent.node.runs()) == 1


def test_plugins_of_the_agent_do_not_ask_it(node: Node) -> None:
    """A shim that is run by mistake would wait for its own caller."""
    write_executable(
        node.bin_dir / PLUGIN, f'#!/bin/sh\necho "agent=$KEYFERRY_AGENT" > {node.root}/seen\nexit 1\n'
    )
    with agent_here(node) as agent:
        agent.look_up(IMAGE)
    assert (node.root / "seen").read_text() == "agent=off\n"


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


def test_a_question_has_what_the_protocol_names_and_ignores_the_rest() -> None:
    body = {
        "image": "r.example/app:v1",
        "provider": "p",
        "serviceAccountToken": "t",
        "serviceAccountAnnotations": {"a": "b"},
        "serviceAccount": {"namespace": "n", "name": "s", "uid": "u"},
        "later": [1],
    }
    question = read_question(json.dumps(body).encode())
    assert (question.image.repository, question.provider, question.token) == ("r.example/app", "p", "t")
    assert (question.annotations, question.account) == (
        {"a": "b"},
        ServiceAccountRef(namespace="n", name="s", uid="u"),
    )
    assert "'t'" not in repr(question)
    del body["serviceAccount"]
    assert read_question(json.dumps(body).encode()).account is None


def test_a_service_account_that_is_no_object_is_refused() -> None:
    with pytest.raises(BadQuestionError, match=r"^serviceAccount: expected an object of strings$"):
        read_question(json.dumps({"image": "r.example/app", "serviceAccount": "n/s"}).encode())


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b'{"image": null}', b'{"image": "a b"}', b"[" * 100_000, b'{"image":1e999}'],
)
def test_what_is_no_question_is_refused_without_a_quote(body: bytes) -> None:
    with pytest.raises(BadQuestionError) as caught:
        read_question(body)
    assert "a b" not in str(caught.value)


def test_a_name_that_is_longer_than_any_is_refused_before_it_is_parsed() -> None:
    """Though it could be one."""
    host = "a." * 505 + "example"
    assert len(f"{host}/team/a") == 1024
    assert read_question(json.dumps({"image": f"{host}/team/a"}).encode()).image.registry == host
    registry = "a" * 1016 + ".example"
    assert read_question(json.dumps({"registry": registry}).encode()).registry == registry
    login = {"username": "u", "password": "p"}
    for read, field, name in (
        (read_question, "image", f"{host}/team/ab"),
        (read_question, "registry", f"a{registry}"),
        (read_eviction, "image", f"{host}/team/ab"),
    ):
        with pytest.raises(BadQuestionError, match=f"^{field}: expected at most 1024 characters$"):
            read(json.dumps({field: name, **login}).encode())


@pytest.mark.parametrize("version", ["agent.keyferry.dev/v2", "", None, 1])
def test_a_question_of_another_version_is_refused(version: object) -> None:
    """Its client does the work itself; a question without a version is one of this."""
    with pytest.raises(BadQuestionError, match=r"^apiVersion: expected 'agent\.keyferry\.dev/v1'$"):
        read_question(json.dumps({"apiVersion": version, "image": "r.example/app"}).encode())
    with pytest.raises(BadQuestionError):
        read_question(json.dumps({"apiVersion": version, "registry": "r.example"}).encode())


@pytest.mark.parametrize("version", ["agent.keyferry.dev/v9", "", None, 1])
def test_an_eviction_of_another_version_is_refused(version: object) -> None:
    """As every question is: what it means is not known here."""
    refused = {"image": "r.example/app", "username": "u", "password": "p"}
    image, *login = read_eviction(json.dumps(refused).encode())
    assert (image.repository, login) == ("r.example/app", ["u", "p"])
    with pytest.raises(BadQuestionError, match=r"^apiVersion: expected"):
        read_eviction(json.dumps(refused | {"apiVersion": version}).encode())


@pytest.mark.parametrize("name", ["image", "username", "password"])
@pytest.mark.parametrize("value", [None, 1, ["a"]])
def test_an_eviction_names_an_image_and_a_whole_login(name: str, value: object) -> None:
    refused: dict[str, object] = {"image": "r.example/app", "username": "u", "password": "p", name: value}
    for document in (refused, {each: refused[each] for each in refused if each != name}):
        with pytest.raises(BadQuestionError, match=r"^image, username and password: expected strings$"):
            read_eviction(json.dumps(document).encode())
