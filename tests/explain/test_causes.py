"""What is said of an image: what happened comes first, then what a kubelet would find.

The pod, its secret and what its kubelet reported come from a file, and a registry that is asked is one of this machine.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from keyferry import Explanation, Outcome, RegistryOptions
from support.account_world import registry_of
from support.commands import Node
from support.fake_cloud import Received, Reply, serving
from support.kubelets import Processes
from support.kubernetes_api import Json, pod
from support.mirrors import write
from support.pod_files import cures_of, explain_file, lines_of
from support.pod_world import HOST, NODE
from support.pull_reports import (
    QPS_EXCEEDED,
    Report,
    Reported,
    aged,
    failed,
    not_found,
    running,
    unauthorized,
    unreachable,
    untrusted,
    waiting,
)
from support.situations import IMAGE, LOGIN, login_secret, web

AGO = 30
_PULL = f'Failed to pull image "{IMAGE}": failed to pull and unpack image "{IMAGE}": '
_RESOLVE = f'{_PULL}failed to resolve reference "{IMAGE}": '
_HEAD = f'{_RESOLVE}failed to do request: Head "https://{HOST}/v2/team/app/manifests/v1": '
_TOKEN = f'{_RESOLVE}failed to authorize: failed to fetch oauth token: Post "https://auth.corp/token": '
_FETCH = f"{_PULL}failed to copy: httpReadSeeker: failed open: "
_LAYER = f'{_FETCH}failed to do request: Get "https://cdn.corp/x": '


def failure(message: str) -> Report:
    """Return what a kubelet reports of an attempt that failed with this message."""
    return Report(waiting("ErrImagePull"), (Reported("Failed", message, AGO, type="Warning"),))


def refused(image: str = IMAGE) -> Report:
    return failed(image, unauthorized(image), ago=AGO)


def bare(image: str = IMAGE) -> tuple[Json]:
    """Return a pod without a credential."""
    return (web(image),)


def with_secret(image: str = IMAGE, changed: float | None = None) -> tuple[Json, Json]:
    """Return a pod with a secret for its registry."""
    secret = login_secret(host=image.partition("/")[0])
    return web(image, secrets=("regcred",)), aged(secret, changed=changed)


# What keeps a node from an image: the kubelet's message, what is said of it, its cure, and what no cure has.
NOT_IN_THE_POD = "in the pod|/v2/"
FAILURES = [
    pytest.param(
        f"{_RESOLVE}{IMAGE}: not found",
        "no such image or tag",
        "check the name and the tag",
        "",
        id="not found",
    ),
    pytest.param(
        f"{_HEAD}dial tcp 127.0.0.1:1: connect: connection refused",
        f"cannot reach {HOST}: connection refused",
        f"https://{HOST}/v2/",
        "",
        id="unreachable",
    ),
    pytest.param(
        f"{_HEAD}dial tcp 127.0.0.1:1: i/o timeout",
        f"cannot reach {HOST}: i/o timeout",
        f"https://{HOST}/v2/",
        "",
        id="timeout",
    ),
    pytest.param(
        f'Failed to apply default image tag "{IMAGE}": couldn\'t parse image name: invalid reference format',
        "the name of the image is not valid",
        "correct it in the pod",
        "",
        id="name",
    ),
    pytest.param(
        f"{_HEAD}dial tcp: lookup {HOST} on 10.0.0.1:53: no such host",
        f"cannot resolve {HOST}",
        f"getent hosts {HOST}",
        "",
        id="dns",
    ),
    pytest.param(
        f"{_HEAD}x509: certificate signed by unknown authority",
        f"does not trust the certificate of {HOST}",
        'ca = "',
        "openssl",
        id="authority",
    ),
    pytest.param(
        f"{_HEAD}x509: certificate has expired or is not yet valid: current time 2026-11-18T02:14:14Z is after 2025",
        f"does not accept the certificate of {HOST}: certificate has expired",
        "openssl x509 -noout -dates",
        r"hosts\.toml",
        id="expired",
    ),
    pytest.param(
        f"{_HEAD}remote error: tls: certificate required",
        "without a certificate of its own",
        "client = [[",
        "http://",
        id="client certificate",
    ),
    pytest.param(
        f"{_HEAD}http: server gave HTTP response to HTTPS client",
        "do not speak the same protocol",
        f'[host."http://{HOST}"]',
        "",
        id="protocol",
    ),
    pytest.param(
        f"{_RESOLVE}unexpected status from HEAD request to https://{HOST}/v2/: 429 Too Many Requests",
        "limits the number of pulls",
        "wait",
        "",
        id="rate limit",
    ),
    pytest.param(
        f"{_RESOLVE}unexpected status from HEAD request to https://{HOST}/v2/: 503 Service Unavailable",
        "itself fails: 503",
        "wait",
        "",
        id="server",
    ),
    pytest.param(
        f"{_PULL}no match for platform in manifest: not found",
        "not built for the node's platform",
        "build the image for it",
        "",
        id="platform",
    ),
    pytest.param(f"{_PULL}write /var/lib/x: no space left on device", "is full", "df -h", "", id="disk"),
    pytest.param(
        f"{_PULL}Source image rejected: A signature was required, but no signature exists",
        "forbids the image",
        "sign the image",
        "",
        id="policy",
    ),
    pytest.param(
        f"{_FETCH}content at https://{HOST}/v2/team/app/blobs/sha256:0465 not found: not found",
        "lacks a layer of it",
        "push the image again",
        "",
        id="layer",
    ),
    pytest.param(
        f"{_FETCH}unexpected status code https://cdn.corp/x?sig=a%3D: 403 Forbidden",
        "cdn.corp (where the registry keeps its layers) refuses a layer of the image: 403 Forbidden",
        "no credential helps",
        "",
        id="store refuses",
    ),
    pytest.param(
        f"{_PULL}context canceled", "gave up the pull", "journalctl", "--check-registry", id="canceled"
    ),
    pytest.param(
        f'Failed to inspect image "{IMAGE}": rpc error: code = Unavailable desc = connection error: desc = "transport: '
        'Error while dialing: dial unix /run/containerd/containerd.sock: connect: no such file or directory"',
        "the container runtime itself fails: connection error",
        "journalctl",
        "--check-registry",
        id="runtime",
    ),
    pytest.param(
        f"{_PULL}failed to extract layer sha256:0465: wrong diff id calculated on extraction: unknown",
        "the container runtime itself fails: failed to extract layer",
        "journalctl",
        "--check-registry",
        id="unpack",
    ),
    # A host that is not looked for in the pod: a proxy, a token server or a store of layers has no API of registries.
    pytest.param(
        f"{_HEAD}proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused",
        "cannot reach the proxy 10.0.0.9:3128: connection refused",
        "HTTPS_PROXY",
        NOT_IN_THE_POD,
        id="proxy",
    ),
    pytest.param(
        f"{_HEAD}proxyconnect tcp: dial tcp: lookup proxy.corp on 10.0.0.2:53: no such host",
        "cannot resolve the proxy proxy.corp",
        "HTTPS_PROXY",
        NOT_IN_THE_POD,
        id="name of the proxy",
    ),
    pytest.param(
        f"{_HEAD}proxyconnect tcp: tls: first record does not look like a TLS handshake",
        "the node and the proxy do not speak the same protocol",
        "HTTPS_PROXY",
        NOT_IN_THE_POD,
        id="protocol of the proxy",
    ),
    pytest.param(
        f"{_TOKEN}dial tcp: lookup auth.corp on 10.0.0.2:53: no such host",
        "cannot resolve the registry's token server auth.corp",
        "getent hosts auth.corp",
        NOT_IN_THE_POD,
        id="name of the token server",
    ),
    pytest.param(
        f"{_TOKEN}dial tcp 10.0.0.7:443: i/o timeout",
        "cannot reach the registry's token server auth.corp",
        "https://auth.corp/",
        NOT_IN_THE_POD,
        id="token server",
    ),
    pytest.param(
        f"{_LAYER}dial tcp: lookup cdn.corp on 10.0.0.2:53: no such host",
        "cannot resolve cdn.corp (where the registry keeps its layers)",
        "getent hosts cdn.corp",
        NOT_IN_THE_POD,
        id="name of the store",
    ),
    pytest.param(
        f"{_LAYER}dial tcp 10.0.0.7:443: connect: connection refused",
        "cannot reach cdn.corp (where the registry keeps its layers)",
        "https://cdn.corp/",
        NOT_IN_THE_POD,
        id="store",
    ),
    pytest.param(
        f"{_LAYER}x509: certificate has expired or is not yet valid: current time is after 2025",
        "does not accept the certificate of cdn.corp (where the registry keeps its layers)",
        "cdn.corp:443",
        NOT_IN_THE_POD,
        id="certificate of the store",
    ),
    pytest.param(
        _HEAD.replace(f"https://{HOST}", "https://mirror.io:5000")
        + "dial tcp 10.0.0.7:5000: connect: connection refused",
        "cannot reach mirror.io:5000",
        "settings for mirrors",
        "in the pod",
        id="a mirror that no file names",
    ),
]


@pytest.mark.parametrize(("message", "said", "cure", "never"), FAILURES)
def test_a_reason_that_is_no_credential_comes_first(
    message: str, said: str, cure: str, never: str, tmp_path: Path
) -> None:
    """Whether or not there is a credential; that there is none is noted."""
    for objects in (with_secret(), bare()):
        found = explain_file(tmp_path, *objects, reports=[failure(message)])
        assert found.outcome is Outcome.OTHER_REASON
        assert said in found.text
        assert cure in cures_of(found)
        assert not (never and re.search(never, cures_of(found)))
        assert any("no credential is found" in note for note in found.notes) is (len(objects) == 1)


@pytest.mark.parametrize("where", [_TOKEN, _LAYER], ids=["token server", "store"])
@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("x509: certificate signed by unknown authority", f'  ca = "/etc/containerd/certs.d/{HOST}/ca.crt"'),
        ("remote error: tls: certificate required", "  client = [["),
        ("http: server gave HTTP response to HTTPS client", ""),
    ],
)
def test_no_cure_makes_a_mirror_of_a_token_server_or_a_store(
    where: str, fault: str, line: str, tmp_path: Path
) -> None:
    """Containerd uses for them what its file says under the registry's own host."""
    found = explain_file(tmp_path, *with_secret(), reports=[failure(where + fault)])
    assert ".corp" in found.text
    assert lines_of(found)[:1] == ([f'[host."https://{HOST}"]'] if line else [])
    assert line in cures_of(found)


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
def test_a_host_that_is_none_is_in_no_line_to_paste(fault: str, tmp_path: Path) -> None:
    host = "a'x\\$(id)`"
    message = f"{_RESOLVE}failed to do request: Head https://{host}/v2/: {fault}"
    found = explain_file(tmp_path, *with_secret(), reports=[failure(message)])
    assert found.outcome is Outcome.OTHER_REASON
    assert host in found.text
    assert lines_of(found) == []


def test_only_users_that_saw_it_are_told_to_be_denied_the_image(tmp_path: Path) -> None:
    """One of two was refused, and the texts do not tell which."""
    objects = (web(secrets=("one", "two")), login_secret("one"), login_secret("two", login="bob:kf-marked-2"))
    absent = not_found(IMAGE)
    mixed = failed(IMAGE, f"[{unauthorized(IMAGE)}, {absent}]", ago=AGO)
    found = explain_file(tmp_path, *objects, reports=[mixed])
    assert found.outcome is Outcome.OTHER_REASON
    assert "hides it from the users that it accepts" in found.text
    assert "alice" not in found.text + cures_of(found)
    both = explain_file(tmp_path, *objects, reports=[failed(IMAGE, absent, ago=AGO)])
    assert "hides it from user 'alice' of pull secret shop/one and user 'bob'" in both.text


# Refusals.


@pytest.mark.parametrize(
    "said",
    [
        f"unexpected status from HEAD request to https://{HOST}/v2/team/app/manifests/v1: 403 Forbidden",
        "pull access denied, repository does not exist or may require authorization: server message: "
        "insufficient_scope: authorization failed",
    ],
    ids=["forbidden", "scope"],
)
def test_a_user_whom_the_registry_knows_may_lack_access(said: str, tmp_path: Path) -> None:
    """A better password does not help."""
    found = explain_file(tmp_path, *with_secret(), reports=[failure(f"{_RESOLVE}{said}")])
    assert found.outcome is Outcome.REFUSED
    assert "does not let user 'alice' of pull secret shop/regcred pull this image" in found.text
    assert "let that user read it" in found.cures[0].text


def test_a_mirror_that_refuses_is_named(tmp_path: Path) -> None:
    """It gets the credential of the registry, and need not accept it."""
    file = write(tmp_path, f"hosts/{HOST}/hosts.toml", '[host."https://mirror.io"]\n')
    options = RegistryOptions(hosts_dir=str(tmp_path / "hosts"))
    why = unauthorized(IMAGE).replace(f"from host {HOST}", "from host mirror.io")
    found = explain_file(tmp_path, *with_secret(), reports=[failed(IMAGE, why, ago=AGO)], registry=options)
    assert found.outcome is Outcome.REFUSED
    assert "the mirror mirror.io refuses user 'alice' of pull secret shop/regcred" in found.text
    assert file in found.cures[0].text


def test_the_status_tells_of_a_refusal_without_events(tmp_path: Path) -> None:
    """And it has no age."""
    found = explain_file(tmp_path, *with_secret(), reports=[replace(refused(), events=())])
    assert found.outcome is Outcome.REFUSED
    assert found.text.endswith("(401 Unauthorized)")


@pytest.mark.parametrize(
    "report",
    [
        failure(f"{_PULL}the moon is full"),
        # Before 1.32, and without events, the status tells only that the kubelet waits.
        Report(waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"')),
    ],
    ids=["strange", "silent"],
)
def test_what_is_known_may_not_explain_a_failure(report: Report, tmp_path: Path) -> None:
    found = explain_file(tmp_path, *with_secret(), reports=[report])
    assert found.outcome is Outcome.UNEXPLAINED
    assert report.events == () or "the moon is full" in found.text
    assert "kubectl create secret" not in cures_of(found)


def test_a_failure_of_another_image_is_no_evidence(tmp_path: Path) -> None:
    former = IMAGE.replace("v1", "v0")
    seen = Report(waiting("ContainerCreating"), failed(former, unauthorized(former)).events)
    assert explain_file(tmp_path, *with_secret(), reports=[seen]).outcome is Outcome.NOT_TRIED


@pytest.mark.parametrize("is_before", [True, False])
def test_the_kubelets_own_limit_is_a_note(is_before: bool, tmp_path: Path) -> None:
    """It is no attempt: neither the first one, nor after one that was refused."""
    limited = Reported("Failed", f'Failed to pull image "{IMAGE}": {QPS_EXCEEDED}', 3, type="Warning")
    report = refused() if is_before else Report(waiting("ContainerCreating"))
    found = explain_file(
        tmp_path, *with_secret(), reports=[replace(report, events=(*report.events, limited))]
    )
    assert found.outcome is (Outcome.REFUSED if is_before else Outcome.NOT_TRIED)
    assert QPS_EXCEEDED not in found.text
    assert any(QPS_EXCEEDED in note for note in found.notes)


# What the registry says, if it is asked.


def asked(
    folder: Path,
    answer: Callable[[Received], Reply],
    *,
    has_secret: bool = True,
    changed: float | None = None,
) -> Explanation:
    """Return what is said where a registry was asked that refused the kubelet before."""
    with serving(answer) as server:
        image = f"127.0.0.1:{server.port}/team/app:v1"
        objects = with_secret(image, changed) if has_secret else bare(image)
        return explain_file(folder, *objects, reports=[refused(image)], check_registry=True)


ACCEPTS, REFUSES = registry_of([LOGIN]), registry_of([])


@pytest.mark.parametrize(
    ("answer", "changed", "has_secret", "outcome"),
    [
        pytest.param(ACCEPTS, 60, True, Outcome.UNEXPLAINED, id="accepts what it refused"),
        pytest.param(ACCEPTS, 5, True, Outcome.FOUND, id="accepts what is new"),
        pytest.param(REFUSES, 5, True, Outcome.REFUSED, id="refuses what is new"),
        pytest.param(REFUSES, None, False, Outcome.NO_CREDENTIAL, id="refuses anonymous pulls"),
    ],
)
def test_a_failure_that_is_newer_than_every_change_is_never_a_yes(
    answer: Callable[[Received], Reply],
    changed: float | None,
    has_secret: bool,
    outcome: Outcome,
    tmp_path: Path,
) -> None:
    found = asked(tmp_path, answer, has_secret=has_secret, changed=changed)
    assert found.outcome is outcome


def test_a_registry_that_answers_now_is_a_note_beside_the_failure(tmp_path: Path) -> None:
    with serving(ACCEPTS) as server:
        image = f"127.0.0.1:{server.port}/team/app:v1"
        seen = failed(image, unreachable(image), ago=AGO)
        found = explain_file(tmp_path, *with_secret(image), reports=[seen], check_registry=True)
    assert found.outcome is Outcome.OTHER_REASON
    assert any("asked now, the registry says yes" in note for note in found.notes)


@pytest.mark.parametrize(
    ("reply", "outcome", "cure"),
    [
        pytest.param(None, Outcome.FOUND, "", id="accepts"),
        pytest.param(
            Reply(401, headers={"WWW-Authenticate": 'Basic realm="test"'}),
            Outcome.REFUSED,
            "correct the password of 'alice'",
            id="refuses",
        ),
        pytest.param(
            Reply(404),
            Outcome.OTHER_REASON,
            "give user 'alice' of pull secret shop/regcred access to it",
            id="not found",
        ),
        pytest.param(Reply(400), Outcome.UNKNOWN, "", id="another error"),
        pytest.param(
            Reply(is_closed=True),
            Outcome.UNKNOWN,
            "check the name and the port of 127.0.0.1",
            id="unreachable",
        ),
    ],
)
def test_the_registrys_word_decides_where_nothing_was_seen(
    reply: Reply | None, outcome: Outcome, cure: str, tmp_path: Path
) -> None:
    with serving(lambda received: reply or ACCEPTS(received)) as server:
        image = f"127.0.0.1:{server.port}/team/app:v1"
        found = explain_file(tmp_path, *with_secret(image), check_registry=True)
    assert found.outcome is outcome
    assert cure in cures_of(found)
    assert bool(cure) is bool(found.cures)
    assert bool(found.cause) is (outcome not in (Outcome.FOUND, Outcome.UNKNOWN))


@pytest.mark.parametrize("reply", [Reply(401), Reply(400), Reply(is_closed=True)])
def test_asking_the_registry_hides_no_cause(reply: Reply, tmp_path: Path) -> None:
    """Whether it answers or not."""
    with serving(lambda _: reply) as server:
        image = f"127.0.0.1:{server.port}/team/app:v1"
        node = Node(tmp_path).add("p", [f"127.0.0.1:{server.port}/other"])
        for reports in ((), (refused(image),)):
            without = explain_file(tmp_path, *bare(image), reports=reports, node=node)
            found = explain_file(tmp_path, *bare(image), reports=reports, node=node, check_registry=True)
            assert (found.outcome, found.cause) == (Outcome.NO_CREDENTIAL, without.cause)
            assert "of provider 'p' nearly matches" in found.text


# What changed since.


def test_a_file_of_the_runtime_that_changed_since_decides_at_the_next_attempt(tmp_path: Path) -> None:
    """Where the runtime did not reach the registry; a change of a secret does not help there."""
    file = write(tmp_path, f"hosts/{HOST}/hosts.toml", f'server = "https://{HOST}"\n')
    runtime = RegistryOptions(hosts_dir=str(tmp_path / "hosts"))
    unreached = failed(IMAGE, untrusted(IMAGE), ago=AGO)
    for objects in (with_secret(), bare()):
        found = explain_file(tmp_path, *objects, reports=[unreached], registry=runtime)
        assert found.outcome is Outcome.CHANGED
        assert f"{file} changed" in found.text
    new_secret = explain_file(tmp_path, *with_secret(changed=5), reports=[unreached])
    assert new_secret.outcome is Outcome.OTHER_REASON
    assert (
        explain_file(tmp_path, *with_secret(), reports=[refused()], registry=runtime).outcome
        is Outcome.REFUSED
    )


@pytest.mark.parametrize(("age", "outcome"), [(60, Outcome.CHANGED), (400, Outcome.REFUSED)])
def test_a_docker_config_counts_after_five_minutes(
    age: int, outcome: Outcome, tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet may not have known it at an attempt that came after the change."""
    (tmp_path / "root").mkdir()
    login = base64.b64encode(":".join(LOGIN).encode()).decode()
    (tmp_path / "root" / "config.json").write_text(json.dumps({"auths": {HOST: {"auth": login}}}))
    processes.write(812, "kubelet", f"--root-dir={tmp_path / 'root'}", f"--hostname-override={NODE}")
    now = time.time() + age
    monkeypatch.setattr(time, "time", lambda: now)
    found = explain_file(tmp_path, *bare(), reports=[refused()], docker_config=None)
    assert found.outcome is outcome
    assert ("which the kubelet knows after 5 min" in found.text) is (outcome is Outcome.CHANGED)


def test_a_volume_that_is_an_image_was_had_if_the_pod_runs(tmp_path: Path) -> None:
    volumes = [{"name": "data", "image": {"reference": IMAGE}}]
    about = pod(images=(), volumes=volumes)
    for phase, outcome in (("Running", Outcome.RUNS), ("Pending", Outcome.NOT_TRIED)):
        found = explain_file(tmp_path, {**about, "status": {"phase": phase}})
        assert found.outcome is outcome


@pytest.mark.parametrize(
    ("ago", "shown"),
    [(600, "23:35:00"), (86400, "2026-11-18 23:45:00")],
    ids=["today", "yesterday"],
)
def test_an_instant_of_another_day_has_its_date(
    ago: int, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.mktime((2026, 11, 19, 23, 45, 0, 0, 0, -1))
    monkeypatch.setattr(time, "time", lambda: now)
    found = explain_file(tmp_path, *bare(), reports=[running(IMAGE, ago)])
    assert found.text.startswith(f"runs since {shown}")
