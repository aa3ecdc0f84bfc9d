"""What is said of an image: what happened comes first, then what a kubelet would find."""

from __future__ import annotations

import json

import pytest

from keyferry._core.values import replace
from keyferry.errors import Kind, PluginExitError, RegistryError
from keyferry.explain.causes import explain
from keyferry.explain.evidence import Evidence, KubeletStart, see
from keyferry.explain.explanation import Explanation, Facts, Outcome
from keyferry.explain.registry import RegistryCheck
from keyferry.images.answer import Answer, LookupInput, MissingInput
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.node.changes import ChangedFile, Newer
from keyferry.images.provider.accounts import Pod
from keyferry.pulls.failure_text import FailureKind
from keyferry.pulls.mirrors.endpoints import Endpoint, Mirrors, RuntimeKind
from keyferry.pulls.trial import Attempt
from keyferry.workloads.events import pull_events
from keyferry.workloads.objects import Change, Json, KubernetesObject, ObjectKind
from keyferry.workloads.pods import read_pod
from support.function_plugins import answering, failing, provider, providers

IMAGE = "reg.io/team/app:v1"
POD = Pod(namespace="shop", name="web", uid="u", service_account_name="default")
LOGIN = ("bob", "hidden-password")
NOW = 1_790_000_000.0
FAILED_AT = "2026-09-21T14:13:08Z"  # 12 seconds before NOW
_PULL = f'Failed to pull image "{IMAGE}": failed to pull and unpack image "{IMAGE}": '
_RESOLVE = f'{_PULL}failed to resolve reference "{IMAGE}": '
_FETCH = f"{_PULL}failed to copy: httpReadSeeker: failed open: "
UNAUTHORIZED = f"{_RESOLVE}pulling from host reg.io failed with status code [manifests v1]: 401 Unauthorized"


def secret(name: str = "regcred", *hosts: str) -> PullSecret:
    auths = {host: {"username": LOGIN[0], "password": LOGIN[1]} for host in hosts or ("reg.io",)}
    data = {".dockerconfigjson": json.dumps({"auths": auths}).encode()}
    return PullSecret(namespace="shop", name=name, type="kubernetes.io/dockerconfigjson", data=data)


def with_secret() -> Answer:
    return providers().lookup(IMAGE, pod=POD, pull_secrets=(secret(),))


def with_plugin() -> Answer:
    plugin = provider("p", ["reg.io"], answering({"reg.io": LOGIN}))
    return providers(plugin).lookup(IMAGE, pod=POD)


def nothing() -> Answer:
    return providers().lookup(IMAGE, pod=POD)


def seen(
    *events: tuple[str, str], waiting: str = "", message: str = "", running: bool = False, **more: object
) -> Evidence:
    """Return what a pod shows with these events, as reason and message, and this state of its container."""
    state: dict[str, object] = {"waiting": {"reason": waiting or "ContainerCreating", "message": message}}
    if running:
        state = {"running": {"startedAt": "2026-09-21T11:02:00Z"}}
    value: dict[str, object] = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"containers": [{"name": "app", "image": IMAGE}]},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "app", "state": state}]},
    }
    pod = read_pod(KubernetesObject(origin="test", kind=ObjectKind.POD, value=value))
    items = [
        {
            "reason": reason,
            "message": text,
            "lastTimestamp": FAILED_AT,
            "involvedObject": {"name": "web", "fieldPath": "spec.containers{app}"},
        }
        for reason, text in events
    ]
    return see(pod, pod.containers, pull_events(items), now=NOW, **more)  # type: ignore[arg-type] # by name


def refused(**more: object) -> Evidence:
    return seen(("Failed", UNAUTHORIZED), waiting="ImagePullBackOff", **more)  # type: ignore[arg-type] # by name


def explained(answer: Answer, evidence: Evidence | None = None, **facts: object) -> Explanation:
    more: dict[str, object] = {"pod": POD, "command": "keyferry explain pod/web", **facts}
    found = explain(Facts(answer=answer, evidence=evidence or Evidence(), **more))  # type: ignore[arg-type] # by name
    assert LOGIN[1] not in str(found)
    return found


def check(answer: Answer, status: int = 0, kind: Kind | None = None) -> RegistryCheck:
    error = RegistryError("reg.io", status, "responds so", kind) if status or kind else None
    attempts = tuple(Attempt(credential=each, error=error) for each in answer.credentials) or (
        Attempt(credential=None, error=error),
    )
    return RegistryCheck(image=answer.image, attempts=attempts)


def test_a_container_that_runs_needs_no_cure() -> None:
    found = explained(nothing(), seen(running=True))
    assert (found.outcome, found.cures) == (Outcome.RUNS, ())
    assert found.text.startswith("runs since ")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (f'Successfully pulled image "{IMAGE}" in 67ms (870ms including waiting).', "was pulled 12 s ago"),
        (
            f'Container image "{IMAGE}" already present on machine and can be accessed by the pod',
            "on the node and this pod may use it",
        ),
    ],
)
def test_how_it_got_its_image_is_told_from_the_event(message: str, said: str) -> None:
    found = explained(nothing(), seen(("Pulled", message), running=True))
    assert found.outcome is Outcome.RUNS
    assert said in found.text


def test_a_failure_that_is_newer_than_every_change_is_never_a_yes() -> None:
    before = (Change(what="pull secret shop/regcred", at=NOW - 60),)
    found = explained(with_secret(), refused(changes=before))
    assert found.outcome is Outcome.REFUSED
    assert found.text == (
        "the registry refuses user 'bob' of pull secret shop/regcred (401 Unauthorized, 12 s ago)"
    )
    accepted = explained(with_secret(), refused(changes=before), check=check(with_secret()))
    assert accepted.outcome is Outcome.UNEXPLAINED


@pytest.mark.parametrize(
    "said",
    [
        "unexpected status from HEAD request to https://reg.io/v2/team/app/manifests/v1: 403 Forbidden",
        "pull access denied, repository does not exist or may require authorization: server message: "
        "insufficient_scope: authorization failed",
    ],
)
def test_a_user_whom_the_registry_knows_may_lack_access(said: str) -> None:
    """A better password does not help."""
    found = explained(with_secret(), seen(("Failed", f"{_RESOLVE}{said}"), waiting="ErrImagePull"))
    assert found.outcome is Outcome.REFUSED
    assert "does not let user 'bob' of pull secret shop/regcred pull this image" in found.text
    assert "let that user read it" in found.cures[0].text


def test_a_mirror_that_refuses_is_named() -> None:
    """It gets the credential of the registry, and need not accept it."""
    own = Endpoint(
        url="https://mirror.io", host="mirror.io", api="https://mirror.io/v2", repository="team/app"
    )
    mirrors = Mirrors(
        runtime=RuntimeKind.CONTAINERD, file="/etc/containerd/certs.d/reg.io/hosts.toml", endpoints=(own,)
    )
    message = UNAUTHORIZED.replace("from host reg.io", "from host mirror.io")
    found = explained(with_secret(), seen(("Failed", message), waiting="ErrImagePull"), mirrors=mirrors)
    assert found.outcome is Outcome.REFUSED
    assert "the mirror mirror.io refuses user 'bob' of pull secret shop/regcred" in found.text
    assert mirrors.file in found.cures[0].text


def test_what_changed_since_the_failure_is_an_outcome_of_its_own() -> None:
    since = (Change(what="pull secret shop/regcred", at=NOW - 5),)
    found = explained(with_secret(), refused(changes=since))
    assert found.outcome is Outcome.CHANGED
    assert "pull secret shop/regcred changed 5 s ago" in found.text
    assert "the kubelet tries again by " in found.text
    answer = with_secret()
    assert explained(answer, refused(changes=since), check=check(answer)).outcome is Outcome.FOUND
    assert explained(answer, refused(changes=since), check=check(answer, 401)).outcome is Outcome.REFUSED
    assert explained(nothing(), refused(changes=since)).outcome is Outcome.NO_CREDENTIAL


def test_a_docker_config_counts_after_five_minutes() -> None:
    """The kubelet may not have known it at an attempt that came after the change."""
    for age, outcome in ((60, Outcome.CHANGED), (400, Outcome.REFUSED)):
        change = Change(what="docker config /root/.docker/config.json", at=NOW - age, delay_seconds=300)
        found = explained(with_secret(), refused(changes=(change,)))
        assert found.outcome is outcome
        assert ("which the kubelet knows after 5 min" in found.text) is (outcome is Outcome.CHANGED)


@pytest.mark.parametrize("is_certain", [True, False])
def test_a_config_that_is_newer_than_the_kubelet_is_not_the_kubelets(is_certain: bool) -> None:
    newer = Newer(
        path="/etc/p.yaml",
        changed=NOW - 60,
        started=NOW - 3600,
        kind=ChangedFile.PROVIDER_CONFIG,
        is_certain=is_certain,
    )
    start = KubeletStart(at=NOW - 3600, unread=(newer,))
    found = explained(with_plugin(), refused(start=start))
    assert found.outcome is Outcome.NOT_KNOWN_YET
    assert ("has not read /etc/p.yaml" in found.text) is is_certain
    assert "restart" in found.cures[0].text
    # A secret needs no restart, so its refusal is one.
    assert explained(with_secret(), refused(start=start)).outcome is Outcome.REFUSED


def test_the_kubelet_may_hold_an_older_answer_until_a_bound() -> None:
    plugin = provider("p", ["reg.io"], answering({"reg.io": LOGIN}))
    answer = providers(plugin).lookup(IMAGE, pod=POD)
    answer = replace(
        answer, provisions=tuple(replace(each, cache_duration_ns=600 * 10**9) for each in answer.provisions)
    )
    found = explained(answer, refused())
    assert found.outcome is Outcome.REFUSED
    assert "may hold an older answer of provider 'p' until " in found.text
    assert "at the latest (cache duration 10 min)" in found.text
    works = explained(answer, refused(), check=check(answer))
    assert works.outcome is Outcome.REFUSED
    assert "which the registry accepts" in works.text
    assert "older answer" not in explained(answer, refused(), check=check(answer, 401)).text


OTHERS = {
    "not-found": (f"{_RESOLVE}{IMAGE}: not found", "no such image or tag"),
    "unreachable": (
        f'{_RESOLVE}failed to do request: Head "https://reg.io/v2/": dial tcp 127.0.0.1:1: connect: connection refused',
        "cannot reach reg.io: connection refused",
    ),
    "timeout": (
        f'{_RESOLVE}failed to do request: Head "https://reg.io/v2/": dial tcp 127.0.0.1:1: i/o timeout',
        "cannot reach reg.io: i/o timeout",
    ),
    "name": (
        f'Failed to apply default image tag "{IMAGE}": couldn\'t parse image name: invalid reference format',
        "the name of the image is not valid",
    ),
    "dns": (
        f'{_RESOLVE}failed to do request: Head "https://reg.io/v2/": dial tcp: lookup reg.io on 10.0.0.1:53: '
        "no such host",
        "cannot resolve reg.io",
    ),
    "certificate": (
        f'{_RESOLVE}failed to do request: Head "https://reg.io/v2/": x509: certificate signed by unknown authority',
        "does not trust the certificate of reg.io",
    ),
    "expired": (
        f'{_RESOLVE}failed to do request: Head "https://reg.io/v2/": x509: certificate has expired or is not yet '
        "valid: current time 2026-11-18T02:14:14Z is after 2025-06-01T00:00:00Z",
        "does not accept the certificate of reg.io: certificate has expired",
    ),
    "client-certificate": (
        f'{_RESOLVE}failed to do request: Head "https://reg.io/v2/": remote error: tls: certificate required',
        "without a certificate of its own",
    ),
    "protocol": (
        f'{_RESOLVE}failed to do request: Head "https://reg.io/v2/": http: server gave HTTP response to HTTPS client',
        "do not speak the same protocol",
    ),
    "rate-limit": (
        f"{_RESOLVE}unexpected status from HEAD request to https://reg.io/v2/: 429 Too Many Requests",
        "limits the number of pulls",
    ),
    "server": (
        f"{_RESOLVE}unexpected status from HEAD request to https://reg.io/v2/: 503 Service Unavailable",
        "itself fails: 503",
    ),
    "platform": (f"{_PULL}no match for platform in manifest: not found", "not built for the node's platform"),
    "disk": (f"{_PULL}write /var/lib/x: no space left on device", "is full"),
    "policy": (
        f"{_PULL}Source image rejected: A signature was required, but no signature exists",
        "forbids the image",
    ),
    "layer": (
        f"{_FETCH}content at https://reg.io/v2/team/app/blobs/sha256:0465 not found: not found",
        "lacks a layer of it",
    ),
    "store": (
        f"{_FETCH}unexpected status code https://cdn.corp/x?sig=a%3D: 403 Forbidden",
        "cdn.corp (where the registry keeps its layers) refuses a layer of the image: 403 Forbidden",
    ),
    "canceled": (f"{_PULL}context canceled", "gave up the pull"),
    "runtime": (
        f'Failed to inspect image "{IMAGE}": rpc error: code = Unavailable desc = connection error: desc = "transport: '
        'Error while dialing: dial unix /run/containerd/containerd.sock: connect: no such file or directory"',
        "the container runtime itself fails: connection error",
    ),
    "unpack": (
        f"{_PULL}failed to extract layer sha256:0465: wrong diff id calculated on extraction: unknown",
        "the container runtime itself fails: failed to extract layer",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("has_credential", [True, False])
def test_a_reason_that_is_no_credential_comes_first(kind: str, has_credential: bool) -> None:
    message, said = OTHERS[kind]
    evidence = seen(("Failed", message), waiting="ErrImagePull")
    found = explained(with_secret() if has_credential else nothing(), evidence)
    assert found.outcome is Outcome.OTHER_REASON
    assert said in found.text
    assert found.cures
    assert any("no credential is found" in note for note in found.notes) is not has_credential


# Kinds that credentials, the pod itself or a later attempt decide about, or that nothing is known about.
TOLD_ELSEWHERE = {
    FailureKind.REFUSED,
    FailureKind.EXPIRED,
    FailureKind.HIDDEN,
    FailureKind.QPS,
    FailureKind.NEVER,
    FailureKind.SECRET,
    FailureKind.UNKNOWN,
}


def test_every_kind_of_failure_is_explained() -> None:
    """One that is new needs a function in other_causes, and its text above."""
    attempts = [
        seen(("Failed", message), waiting="ErrImagePull").last_attempt for message, _ in OTHERS.values()
    ]
    kinds = {attempt.failure.kind for attempt in attempts if attempt.failure is not None}
    assert kinds == set(FailureKind) - TOLD_ELSEWHERE


@pytest.mark.parametrize("has_credential", [True, False])
def test_a_file_of_the_runtime_that_changed_since_decides_at_the_next_attempt(has_credential: bool) -> None:
    """Where the runtime did not reach the registry; a change of a secret does not help there."""
    message, _ = OTHERS["certificate"]
    answer = with_secret() if has_credential else nothing()
    change = (Change(what="/etc/containerd/certs.d/reg.io/hosts.toml", at=NOW - 5),)
    evidence = seen(("Failed", message), waiting="ErrImagePull", runtime_changes=change)
    found = explained(answer, evidence)
    assert found.outcome is Outcome.CHANGED
    assert "hosts.toml changed 5 s ago" in found.text
    assert explained(answer, evidence, check=check(answer)).outcome is Outcome.FOUND
    secret_changed = seen(("Failed", message), waiting="ErrImagePull", changes=change)
    assert explained(answer, secret_changed).outcome is Outcome.OTHER_REASON
    assert explained(answer, refused(runtime_changes=change)).outcome is not Outcome.CHANGED


def test_a_registry_that_answers_now_is_a_note_beside_the_failure() -> None:
    message, _ = OTHERS["unreachable"]
    answer = with_secret()
    found = explained(answer, seen(("Failed", message), waiting="ErrImagePull"), check=check(answer))
    assert found.outcome is Outcome.OTHER_REASON
    assert any("asked now, the registry says yes" in note for note in found.notes)


def test_a_volume_that_is_an_image_was_had_if_the_pod_runs() -> None:
    value: dict[str, object] = {
        "metadata": {"name": "web"},
        "spec": {"volumes": [{"name": "data", "image": {"reference": IMAGE}}]},
        "status": {"phase": "Running"},
    }
    pod = read_pod(KubernetesObject(origin="test", kind=ObjectKind.POD, value=value))
    assert explained(nothing(), see(pod, pod.containers, (), now=NOW)).outcome is Outcome.RUNS
    pending = read_pod(
        KubernetesObject(origin="test", kind=ObjectKind.POD, value={**value, "status": {"phase": "Pending"}})
    )
    assert explained(nothing(), see(pending, pending.containers, (), now=NOW)).outcome is Outcome.NOT_TRIED


@pytest.mark.parametrize(
    ("kind", "cure", "never"),
    [
        ("certificate", 'ca = "', "openssl"),
        ("expired", "openssl x509 -noout -dates", "hosts.toml"),
        ("client-certificate", "client = [[", "http://"),
    ],
)
def test_each_fault_of_a_certificate_has_a_cure_of_its_own(kind: str, cure: str, never: str) -> None:
    """No authority helps against a certificate that has expired, and plain HTTP against none."""
    found = explained(with_secret(), seen(("Failed", OTHERS[kind][0]), waiting="ErrImagePull"))
    (only,) = found.cures
    shown = "\n".join((only.text, *only.lines))
    assert cure in shown
    assert never not in shown


def test_no_credential_is_found_and_the_registry_wants_one() -> None:
    found = explained(nothing(), refused())
    assert found.outcome is Outcome.NO_CREDENTIAL
    assert found.text.startswith("no credential is found: there is no provider, no pull secret ")
    plugin = failing(lambda: PluginExitError("p", 3, stderr_tail="token expired"))
    failed = explained(providers(provider("p", ["reg.io"], plugin)).lookup(IMAGE), refused())
    assert failed.outcome is Outcome.PLUGIN_FAILED
    assert "plugin 'p' fails: token expired (exit status 3)" in failed.text


def test_an_event_names_the_secret_that_the_kubelet_cannot_read() -> None:
    """Also to somebody who may not read secrets."""
    unknown = MissingInput(input=LookupInput.PULL_SECRET, name="regcred", instead="no permission")
    evidence = refused()
    event: Json = {
        "reason": "FailedToRetrieveImagePullSecret",
        "message": "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not "
        "succeed.",
    }
    evidence = replace(evidence, pod_events=pull_events([event]))
    found = explained(replace(nothing(), not_given=(unknown,)), evidence)
    assert found.outcome is Outcome.NO_CREDENTIAL
    assert "the kubelet cannot read pull secret shop/regcred" in found.text


def test_what_is_known_may_not_explain_a_failure() -> None:
    strange = seen(("Failed", f"{_PULL}the moon is full"), waiting="ErrImagePull")
    found = explained(with_secret(), strange)
    assert found.outcome is Outcome.UNEXPLAINED
    assert "the moon is full" in found.text
    assert "kubectl create secret" not in shown_cures(found)
    unknown = replace(nothing(), not_given=(MissingInput(input=LookupInput.NODE),))
    assert explained(unknown, refused()).outcome is Outcome.UNEXPLAINED
    # Before 1.32, and without events, the status tells only that the kubelet waits.
    silent = seen(waiting="ImagePullBackOff", message=f'Back-off pulling image "{IMAGE}"')
    assert explained(with_secret(), silent).outcome is Outcome.UNEXPLAINED
    assert explained(nothing(), silent).outcome is Outcome.NO_CREDENTIAL


def test_without_events_the_waiting_message_counts() -> None:
    message = f'Back-off pulling image "{IMAGE}": ErrImagePull: {UNAUTHORIZED.partition(": ")[2]}'
    found = explained(with_secret(), seen(waiting="ImagePullBackOff", message=message))
    assert found.outcome is Outcome.REFUSED
    assert found.text.endswith("(401 Unauthorized)")


def test_nothing_was_tried_yet() -> None:
    found = explained(with_secret(), seen())
    assert found.outcome is Outcome.NOT_TRIED
    assert "a credential is found: user 'bob'" in found.text
    pulling = seen(("Pulling", f'Pulling image "{IMAGE}"'))
    assert "is being pulled" in explained(with_secret(), pulling).text


def test_the_kubelets_own_limit_is_a_note() -> None:
    limited = ("Failed", f'Failed to pull image "{IMAGE}": pull QPS exceeded')
    found = explained(nothing(), seen(limited))
    assert found.outcome is Outcome.NOT_TRIED
    assert any("pull QPS exceeded" in note for note in found.notes)
    after = explained(nothing(), seen(("Failed", UNAUTHORIZED), limited, waiting="ErrImagePull"))
    assert after.outcome is Outcome.NO_CREDENTIAL
    refusal = explained(with_secret(), seen(("Failed", UNAUTHORIZED), limited, waiting="ErrImagePull"))
    assert refusal.outcome is Outcome.REFUSED
    assert "pull QPS exceeded" not in refusal.text
    assert any("pull QPS exceeded" in note for note in refusal.notes)


def test_an_event_about_another_image_or_container_is_no_evidence() -> None:
    other = ("Failed", UNAUTHORIZED.replace(IMAGE, "reg.io/team/app:v0"))
    assert explained(with_secret(), seen(other)).outcome is Outcome.NOT_TRIED


def test_without_anything_seen_the_lookup_decides() -> None:
    found = explained(with_secret())
    assert (found.outcome, found.text) == (
        Outcome.FOUND,
        "a credential is found: user 'bob' of pull secret shop/regcred",
    )
    assert explained(nothing()).outcome is Outcome.NO_CREDENTIAL
    unknown = explained(replace(nothing(), not_given=(MissingInput(input=LookupInput.POD),)))
    assert unknown.outcome is Outcome.UNKNOWN
    assert unknown.text.startswith("cannot tell whether the kubelet has a credential: the pod was not given")


def test_an_empty_login_is_no_credential_to_rely_on() -> None:
    content = json.dumps({"auths": {"reg.io": {}}, "credsStore": "desktop"}).encode()
    empty = PullSecret(
        namespace="shop", name="s", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": content}
    )
    found = explained(providers().lookup(IMAGE, pull_secrets=(empty,)))
    assert found.outcome is Outcome.NO_CREDENTIAL
    assert found.text.startswith("a login is found, but it is empty: ")


@pytest.mark.parametrize(
    ("status", "kind", "outcome"),
    [
        (0, None, Outcome.FOUND),
        (401, None, Outcome.REFUSED),
        (404, None, Outcome.OTHER_REASON),
        (500, None, Outcome.UNKNOWN),
        (0, Kind.UNREACHABLE, Outcome.UNKNOWN),
        (429, Kind.THROTTLED, Outcome.UNKNOWN),
    ],
)
def test_the_registrys_word_decides_where_nothing_was_seen(
    status: int, kind: Kind | None, outcome: Outcome
) -> None:
    answer = with_secret()
    assert explained(answer, check=check(answer, status, kind)).outcome is outcome


@pytest.mark.parametrize(("status", "kind"), [(401, None), (500, None), (0, Kind.UNREACHABLE)])
def test_asking_the_registry_hides_no_cause(status: int, kind: Kind | None) -> None:
    """Whether it answers or not."""
    answer = providers(provider("p", ["reg.io:5000"], answering({}))).lookup(IMAGE, pod=POD)
    for evidence in (Evidence(), refused()):
        without = explained(answer, evidence)
        found = explained(answer, evidence, check=check(answer, status, kind))
        assert (found.outcome, found.cause) == (Outcome.NO_CREDENTIAL, without.cause)
        assert "pattern 'reg.io:5000' of provider 'p' nearly matches" in found.text


_HEAD = f'{_RESOLVE}failed to do request: Head "https://reg.io/v2/team/app/manifests/v1": '
_TOKEN = f'{_RESOLVE}failed to authorize: failed to fetch oauth token: Post "https://auth.corp/token": '
_LAYER = f'{_FETCH}failed to do request: Get "https://cdn.corp/x": '
ASIDE = {
    "proxy": (
        f"{_HEAD}proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused",
        "cannot reach the proxy 10.0.0.9:3128: connection refused",
        "HTTPS_PROXY",
    ),
    "name of the proxy": (
        f"{_HEAD}proxyconnect tcp: dial tcp: lookup proxy.corp on 10.0.0.2:53: no such host",
        "cannot resolve the proxy proxy.corp",
        "HTTPS_PROXY",
    ),
    "protocol of the proxy": (
        f"{_HEAD}proxyconnect tcp: tls: first record does not look like a TLS handshake",
        "the node and the proxy do not speak the same protocol",
        "HTTPS_PROXY",
    ),
    "name of the token server": (
        f"{_TOKEN}dial tcp: lookup auth.corp on 10.0.0.2:53: no such host",
        "cannot resolve the registry's token server auth.corp",
        "getent hosts auth.corp",
    ),
    "token server": (
        f"{_TOKEN}dial tcp 10.0.0.7:443: i/o timeout",
        "cannot reach the registry's token server auth.corp",
        "https://auth.corp/",
    ),
    "name of the store": (
        f"{_LAYER}dial tcp: lookup cdn.corp on 10.0.0.2:53: no such host",
        "cannot resolve cdn.corp (where the registry keeps its layers)",
        "getent hosts cdn.corp",
    ),
    "store": (
        f"{_LAYER}dial tcp 10.0.0.7:443: connect: connection refused",
        "cannot reach cdn.corp (where the registry keeps its layers)",
        "https://cdn.corp/",
    ),
    "certificate of the store": (
        f"{_LAYER}x509: certificate has expired or is not yet valid: current time is after 2025",
        "does not accept the certificate of cdn.corp (where the registry keeps its layers)",
        "cdn.corp:443",
    ),
}


def shown_cures(found: Explanation) -> str:
    return "\n".join(line for cure in found.cures for line in (cure.text, *cure.lines))


@pytest.mark.parametrize(("message", "said", "cure"), ASIDE.values(), ids=ASIDE)
def test_a_host_that_the_pod_does_not_name_is_not_looked_for_there(
    message: str, said: str, cure: str
) -> None:
    """It is a proxy, a token server or a store of layers, and has no API of registries."""
    found = explained(with_secret(), seen(("Failed", message), waiting="ErrImagePull"))
    assert found.outcome is Outcome.OTHER_REASON
    assert said in found.text
    assert cure in shown_cures(found)
    assert "in the pod" not in shown_cures(found)
    assert "/v2/" not in shown_cures(found)


@pytest.mark.parametrize("where", [_TOKEN, _LAYER], ids=["token server", "store"])
@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("x509: certificate signed by unknown authority", '  ca = "/etc/containerd/certs.d/reg.io/ca.crt"'),
        ("remote error: tls: certificate required", "  client = [["),
        ("http: server gave HTTP response to HTTPS client", ""),
    ],
)
def test_no_cure_makes_a_mirror_of_a_token_server_or_a_store(where: str, fault: str, line: str) -> None:
    """Containerd uses for them what its file says under the registry's own host."""
    found = explained(with_secret(), seen(("Failed", where + fault), waiting="ErrImagePull"))
    assert ".corp" in found.text
    lines = [each for cure in found.cures for each in cure.lines]
    assert lines[:1] == (['[host."https://reg.io"]'] if line else [])
    assert line in "\n".join(lines)


@pytest.mark.parametrize(
    "fault",
    [
        "x509: certificate signed by unknown authority",
        "x509: certificate has expired or is not yet valid: x",
        "remote error: tls: certificate required",
        "http: server gave HTTP response to HTTPS client",
        "EOF",
        "no such host",
    ],
)
def test_a_host_that_is_none_is_in_no_line_to_paste(fault: str) -> None:
    host = "a'x\\$(id)`"
    message = f"{_RESOLVE}failed to do request: Head https://{host}/v2/: {fault}"
    found = explained(with_secret(), seen(("Failed", message), waiting="ErrImagePull"))
    assert found.outcome is Outcome.OTHER_REASON
    assert host in found.text
    assert [each for cure in found.cures for each in cure.lines] == []


def test_a_host_that_neither_the_pod_nor_a_known_file_names_is_a_mirror() -> None:
    """From another machine than the node, the runtime's files are not known."""
    message = _HEAD.replace("https://reg.io", "https://mirror.io:5000")
    message += "dial tcp 10.0.0.7:5000: connect: connection refused"
    found = explained(with_secret(), seen(("Failed", message), waiting="ErrImagePull"))
    assert "settings for mirrors" in shown_cures(found)
    assert "https://mirror.io:5000/v2/" in shown_cures(found)


def test_a_runtime_that_fails_is_no_question_for_the_registry() -> None:
    for kind in ("runtime", "unpack", "canceled"):
        found = explained(with_secret(), seen(("Failed", OTHERS[kind][0]), waiting="ErrImagePull"))
        assert "journalctl" in shown_cures(found)
        assert "--check-registry" not in shown_cures(found)


def test_only_users_that_saw_it_are_told_to_be_denied_the_image() -> None:
    """One of two was refused, and the texts do not tell which."""
    absent = OTHERS["not-found"][0].removeprefix(f'Failed to pull image "{IMAGE}": ')
    refusal = UNAUTHORIZED.removeprefix(f'Failed to pull image "{IMAGE}": ')
    answer = providers().lookup(IMAGE, pod=POD, pull_secrets=(secret("one"), secret("two")))
    mixed = seen(("Failed", f'Failed to pull image "{IMAGE}": [{refusal}, {absent}]'), waiting="ErrImagePull")
    found = explained(answer, mixed)
    assert found.outcome is Outcome.OTHER_REASON
    assert "hides it from the users that it accepts" in found.text
    assert "bob" not in found.text + shown_cures(found)
    both = seen(("Failed", f'Failed to pull image "{IMAGE}": {absent}'), waiting="ErrImagePull")
    assert "hides it from user 'bob' of pull secret shop/one and user 'bob'" in explained(answer, both).text
