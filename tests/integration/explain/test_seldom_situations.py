"""Situations that are met seldom, and what ``keyferry explain`` says of them."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.account_world import registry_of
from support.kube import TOKEN
from support.kubernetes_api import Json, pull_secret
from support.pod_world import HOST, PodWorld
from support.pull_reports import (
    DIGEST,
    Report,
    Reported,
    aged,
    creating,
    failed,
    lacking_secrets,
    never_pulled,
    not_found,
    pulled,
    running,
    stamp,
    unauthorized,
    waiting,
)
from support.situations import (
    CREATE,
    IMAGE,
    LOGIN,
    POD,
    Told,
    add_provider,
    login_secret,
    situation_world,
    tell,
    web,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")

WRONG = "alice:kf-marked-wrong"
REF = f"sha256:{'a' * 64}"


def listed(
    world: PodWorld, login: str = ":".join(LOGIN), policy: str = "IfNotPresent", image: str = IMAGE
) -> None:
    world.api.add(web(image, secrets=("regcred",), policy=policy), login_secret(login=login))
    world.answer = registry_of([LOGIN])


def said(
    tmp_path: Path,
    make: Callable[[PodWorld], None],
    *,
    after: Callable[[PodWorld], None] | None = None,
    options: str = "",
    subject: str = POD,
    node: bool = False,
) -> Told:
    def whole(world: PodWorld) -> None:
        world.is_node = node
        make(world)

    with situation_world(tmp_path, whole) as world:
        if after is not None:
            after(world)
        return tell(world, options, subject)


def the_pod(world: PodWorld) -> Any:
    return world.api.objects["", "pods", "shop", "web"]


def resolve(image: str, why: str) -> str:
    return f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {why}'


@pytest.mark.parametrize("why", ["401", "not found"])
def test_a_restarted_container_whose_pull_fails_does_not_run(tmp_path: Path, why: str) -> None:
    """The kubelet keeps the imageID of the container that ran before: a restart with Always, or `kubectl set image`."""
    reason = unauthorized(IMAGE) if why == "401" else not_found(IMAGE)

    def make(world: PodWorld) -> None:
        listed(world, WRONG, "Always")
        world.report(replace(failed(IMAGE, reason, ago=12), image_id=f"{HOST}/team/app@{DIGEST}"))

    told = said(tmp_path, make)
    assert told.verdict[0] == "no", told.text


def test_an_image_that_was_loaded_after_never_pull_is_not_forbidden(tmp_path: Path) -> None:
    """What the cure "load the image" leads to, until the kubelet's next sync."""

    def make(world: PodWorld) -> None:
        world.run_runtime({IMAGE: REF})
        world.api.add(web(policy="Never"))
        world.report(never_pulled(IMAGE))

    told = said(tmp_path, make, node=True)
    assert "does not let this pod use it" not in told.flat_text, told.text
    assert not re.search(CREATE, told.cures), told.text


def test_an_image_that_came_to_the_node_after_the_failure_is_a_change(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        world.run_runtime({IMAGE: REF})  # preloaded: this pod may use it
        listed(world, WRONG)
        world.report(failed(IMAGE, unauthorized(IMAGE)))

    told = said(tmp_path, make, node=True)
    assert "on the node" in told.flat_text, told.text


def test_the_registry_accepts_the_credential_that_it_accepts(tmp_path: Path) -> None:
    """The secret's user bob is refused, the provider's user alice is accepted."""

    def make(world: PodWorld) -> None:
        listed(world, "bob:kf-marked-x")
        add_provider(world, HOST)
        world.report(failed(IMAGE, unauthorized(IMAGE)))

    told = said(tmp_path, make, node=True, options="--check-registry")
    assert "accepts user 'bob'" not in told.flat_text, told.text


@pytest.mark.parametrize("name", ["auth", "token", "secret"])
def test_events_of_an_image_with_the_name_of_a_secret_count(tmp_path: Path, name: str) -> None:
    image = f"{HOST}/team/{name}:v1"

    def make(world: PodWorld) -> None:
        world.api.add(web(image, secrets=("regcred",)), aged(login_secret(), changed=3))
        world.report(failed(image, unauthorized(image), ago=12))

    told = said(tmp_path, make)
    assert told.verdict == ("unknown", "changed"), told.text


def test_an_image_that_may_not_exist_is_not_only_a_missing_credential(tmp_path: Path) -> None:
    image = "docker.io/library/ngnix:1.27"
    why = resolve(
        image,
        "pull access denied, repository does not exist or may require authorization: "
        "server message: insufficient_scope: authorization failed",
    )

    def make(world: PodWorld) -> None:
        world.api.add(web("ngnix:1.27"))
        world.report(failed("ngnix:1.27", why))

    told = said(tmp_path, make, node=True)
    assert re.search("no such image|not exist|check the name", told.flat_text), told.text


@pytest.mark.parametrize("status", ["insufficient_scope: authorization failed", "403 Forbidden"])
def test_a_provider_whose_user_has_no_access_is_not_only_an_old_answer(tmp_path: Path, status: str) -> None:
    where = f"unexpected status from HEAD request to https://{HOST}/v2/team/app/manifests/v1: "

    def make(world: PodWorld) -> None:
        add_provider(world, HOST)
        world.report(
            failed(IMAGE, resolve(IMAGE, where + status if status[0] == "4" else f"server message: {status}"))
        )

    told = said(tmp_path, make, node=True)
    assert re.search("no such image|not let|check the name|access", told.flat_text), told.text


def test_a_running_pod_and_a_registry_that_refuses_is_told(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        listed(world, WRONG)
        world.report(running(IMAGE))

    told = said(tmp_path, make, options="--check-registry")
    assert re.search("401|refuse|not accept", told.flat_text), told.text


def test_a_pod_that_was_evicted_while_it_could_not_pull_has_no_image(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        listed(world, WRONG)
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=12))

    def evict(world: PodWorld) -> None:
        status = the_pod(world)["status"]
        status |= {"phase": "Failed", "reason": "Evicted"}
        message = "The container could not be located when the pod was terminated"
        gone = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}
        status["containerStatuses"][0]["state"] = {"terminated": gone}

    told = said(tmp_path, make, after=evict)
    assert told.verdict[0] != "yes", told.text


def test_an_evicted_pod_is_not_one_that_waits(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        listed(world)
        world.report(creating())

    def evict(world: PodWorld) -> None:
        the_pod(world)["status"] = {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource",
        }

    told = said(tmp_path, make, after=evict)
    assert "yet" not in told.first_line, told.text


def test_the_kubelet_does_not_try_again_for_a_pod_that_is_deleted(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        world.api.add(web(secrets=("regcred",)), aged(login_secret(), changed=3))
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=12))

    told = said(
        tmp_path, make, after=lambda world: the_pod(world)["metadata"].update(deletionTimestamp=stamp(5))
    )
    assert re.search("delet", told.flat_text), told.text


def test_a_workload_is_explained_by_a_pod_that_lives(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        listed(world, WRONG)
        deployment(world, old=failed(IMAGE, unauthorized(IMAGE), ago=12), new=pulled(IMAGE, ago=60))

    def evict(world: PodWorld) -> None:
        old: Any = world.api.objects["", "pods", "shop", "web-old"]
        old["status"] = {"phase": "Failed", "reason": "Evicted"}
        old["metadata"]["managedFields"] = [{"manager": "kubelet", "operation": "Update", "time": stamp(2)}]

    told = said(tmp_path, make, after=evict, subject="deploy/web -n shop")
    assert told.document["pods"][0]["pod"] == "web-new", told.text


def test_a_pod_that_has_its_image_does_not_wait_for_it(tmp_path: Path) -> None:
    state = waiting("CreateContainerError", "context deadline exceeded")

    def make(world: PodWorld) -> None:
        listed(world)
        deployment(world, old=replace(pulled(IMAGE, ago=60), state=state), new=pulled(IMAGE, ago=60))

    told = said(tmp_path, make, subject="deploy/web -n shop")
    assert not ("has its image" in told.flat_text and "waits for its image" in told.flat_text), told.text


def test_a_deployment_whose_pods_have_another_image_than_its_template(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        listed(world)
        deployment(world, "app:v2", old=pulled(IMAGE, ago=60), new=pulled(IMAGE, ago=60))

    told = said(tmp_path, make, subject="deploy/web -n shop")
    assert "v2" in told.flat_text, told.text


def deployment(world: PodWorld, name: str = "app:v1", **reports: Report) -> None:
    kinds = "deployments replicasets pods events secrets serviceaccounts"
    world.api.permit(TOKEN, "get list", kinds, "shop")
    labels = {"app": "x"}
    spec = json.loads(json.dumps(web(secrets=("regcred",))["spec"]).replace("app:v1", name))
    template = {"metadata": {"labels": labels}, "spec": spec}

    def made(kind: str, uid: str, owner: str, called: str, **spec: object) -> Json:
        owners = {"ownerReferences": [{"uid": owner, "controller": True}]} if owner else {}
        metadata = {"name": called, "namespace": "shop", "uid": uid, "labels": labels, **owners}
        return aged({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})

    world.api.add(
        made("Deployment", "d1", "", "web", selector={"matchLabels": labels}, template=template),
        made("ReplicaSet", "r1", "d1", "web-1"),
    )
    for at, (which, report) in enumerate(reports.items()):
        one: Any = web(secrets=("regcred",))
        own: Json = {"name": f"web-{which}", "uid": f"u-{which}", "labels": labels}
        own["ownerReferences"] = [{"uid": "r1", "controller": True}]
        one["metadata"] |= {**own, "creationTimestamp": stamp(3000 - 2900 * at)}
        world.api.add(one)
        world.reported.append((one, (report,)))


@pytest.mark.parametrize("kind", ["wrong-password", "other-host"])
def test_the_cure_for_a_secret_of_the_old_type_writes_that_type(tmp_path: Path, kind: str) -> None:
    """The type of a secret is immutable, and it has no .dockerconfigjson."""
    host = HOST if kind == "wrong-password" else f"{HOST}:5000"
    content = base64.b64encode(
        json.dumps({host: {"username": "alice", "password": "kf-marked-w"}}).encode()
    ).decode()

    def make(world: PodWorld) -> None:
        secret = aged(pull_secret(type="kubernetes.io/dockercfg", data={".dockercfg": content}))
        world.api.add(web(secrets=("regcred",)), secret)
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=12))

    told = said(tmp_path, make)
    assert not re.search("dockerconfigjson|create secret docker-registry", told.cures), told.cures


def test_an_old_event_about_a_secret_is_not_the_cause_of_a_new_failure(tmp_path: Path) -> None:
    """The secret was missing 40 minutes ago, and exists since; the user may not read secrets."""

    def make(world: PodWorld) -> None:
        listed(world, WRONG)
        world.report(lacking_secrets("regcred"), failed(IMAGE, unauthorized(IMAGE), ago=12))

    def age(world: PodWorld) -> None:
        user = world.api.users[TOKEN]
        user.permitted = {rule for rule in user.permitted if rule[1] != "secrets"}
        for place, event in world.api.objects.items():
            if place[1] == "events" and event["reason"] == "FailedToRetrieveImagePullSecret":
                event |= {"lastTimestamp": stamp(2400), "count": 1}

    told = said(tmp_path, make, after=age)
    assert "does not exist" not in told.flat_text, told.text


HEAD = f'failed to do request: Head "https://{HOST}/v2/team/app/manifests/v1": '
ASIDE = {
    "proxy": resolve(IMAGE, f"{HEAD}proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused"),
    "proxy-name": resolve(
        IMAGE, f"{HEAD}proxyconnect tcp: dial tcp: lookup proxy.corp on 10.0.0.2:53: no such host"
    ),
    "token-server": resolve(
        IMAGE,
        'failed to authorize: failed to fetch oauth token: Post "https://auth.corp/token": '
        "dial tcp: lookup auth.corp on 10.0.0.2:53: no such host",
    ),
    "blobs": f'failed to pull and unpack image "{IMAGE}": failed to copy: httpReadSeeker: failed open: '
    'failed to do request: Get "https://cdn.corp/blobs/x": dial tcp: lookup cdn.corp on 10.0.0.2:53: no such host',
}


@pytest.mark.parametrize("which", ASIDE)
def test_a_host_that_the_pod_does_not_name_is_not_looked_for_there(tmp_path: Path, which: str) -> None:
    def make(world: PodWorld) -> None:
        listed(world)
        world.report(failed(IMAGE, ASIDE[which], ago=12))

    told = said(tmp_path, make)
    assert "in the pod" not in told.cures, told.text


def test_the_token_server_is_not_made_a_mirror_of_the_registry(tmp_path: Path) -> None:
    why = 'failed to authorize: failed to fetch oauth token: Post "https://auth.corp/token": '
    why += "tls: failed to verify certificate: x509: certificate signed by unknown authority"

    def make(world: PodWorld) -> None:
        listed(world)
        world.report(failed(IMAGE, resolve(IMAGE, why), ago=12))

    told = said(tmp_path, make)
    assert '[host."https://auth.corp"]' not in told.cures, told.text


def test_a_store_of_blobs_that_refuses_is_not_the_registry(tmp_path: Path) -> None:
    why = f'failed to pull and unpack image "{IMAGE}": failed to copy: httpReadSeeker: failed open: '
    why += "unexpected status code https://cdn.corp/blobs/x: 403 Forbidden"

    def make(world: PodWorld) -> None:
        listed(world)
        world.report(failed(IMAGE, why, ago=12))

    told = said(tmp_path, make)
    assert "cdn.corp" in told.first_line, told.text


def test_an_expired_token_is_no_want_of_access(tmp_path: Path) -> None:
    where = f"unexpected status from HEAD request to https://{HOST}/v2/team/app/manifests/v1: 403 Forbidden"
    why = f"{where}: denied: Your authorization token has expired. Reauthenticate and try again."

    def make(world: PodWorld) -> None:
        listed(world, "AWS:kf-marked-t")
        world.report(failed(IMAGE, resolve(IMAGE, why), ago=12))

    told = said(tmp_path, make)
    assert "no such image" not in told.flat_text, told.text


def test_containers_of_one_image_have_their_own_verdicts(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        both: Any = web(secrets=("regcred",))
        both["spec"]["containers"].append({"name": "side", "image": IMAGE, "imagePullPolicy": "Always"})
        world.api.add(both, login_secret(login=WRONG))
        side = failed(IMAGE, unauthorized(IMAGE), ago=12, container="side")
        world.report(pulled(IMAGE, ago=200), side)

    told = said(tmp_path, make)
    assert "container app" not in told.text.partition("→")[0], told.text


def test_only_the_user_who_saw_it_is_told_not_found(tmp_path: Path) -> None:
    """Bob was refused (401), alice was told "not found"."""

    def make(world: PodWorld) -> None:
        secrets = (login_secret("one", login="bob:kf-marked-x"), login_secret("two"))
        world.api.add(web(secrets=("one", "two")), *secrets)
        world.report(failed(IMAGE, f"[{unauthorized(IMAGE)}, {not_found(IMAGE)}]", ago=12))

    told = said(tmp_path, make)
    assert "hides it from user 'bob'" not in told.flat_text, told.text


def test_a_failure_of_another_image_is_not_one_of_this(tmp_path: Path) -> None:
    """`kubectl set image`: the status still has the message of the image before."""
    old = IMAGE.replace("v1", "v0")

    def make(world: PodWorld) -> None:
        listed(world)
        message = f'Back-off pulling image "{old}": ErrImagePull: {not_found(old)}'
        world.report(Report(waiting("ImagePullBackOff", message)))

    told = said(tmp_path, make)
    assert "no such image" not in told.first_line, told.text


def test_a_plugin_that_fails_beside_a_refused_secret_is_told(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        listed(world, WRONG)
        add_provider(world, HOST, before="echo 'no identity' >&2; exit 3")
        world.report(failed(IMAGE, unauthorized(IMAGE)))

    told = said(tmp_path, make, node=True)
    assert "no identity" in told.flat_text, told.text


def test_a_sandbox_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """The pause image is pulled without the pod's secrets."""
    why = "Failed to create pod sandbox: rpc error: code = Unknown desc = "
    why += 'failed to get sandbox image "r.example/pause:3.9": '
    why += 'failed to pull image "r.example/pause:3.9": '
    why += "pulling from host r.example failed with status code [manifests 3.9]: 401 Unauthorized"

    def make(world: PodWorld) -> None:
        listed(world)
        event = Reported("FailedCreatePodSandBox", why, 12, type="Warning")
        world.report(creating(), Report({}, (event,), container=""))

    told = said(tmp_path, make)
    assert re.search("sandbox|pause", told.flat_text), told.text


def test_a_static_pod_gets_no_secret_of_a_service_account(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        world.report(failed(IMAGE, unauthorized(IMAGE)))

    def mirror(world: PodWorld) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": "n", "controller": True}
        note = {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.source": "file"}
        the_pod(world)["metadata"] |= {"annotations": note, "ownerReferences": [owner]}

    told = said(tmp_path, make, after=mirror, node=True)
    assert not re.search("serviceaccount|kubectl delete pod", told.cures), told.cures


def test_a_reason_that_may_not_be_read_is_not_gone(tmp_path: Path) -> None:
    """Before 1.32, without permission for events."""

    def make(world: PodWorld) -> None:
        listed(world, WRONG)
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=12, is_old=True))

    def forbid(world: PodWorld) -> None:
        user = world.api.users[TOKEN]
        user.permitted = {rule for rule in user.permitted if rule[1] != "events"}

    told = said(tmp_path, make, after=forbid)
    assert "no longer shown" not in told.flat_text, told.text


def test_an_event_of_the_future_was_not_one_second_ago(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        listed(world, WRONG)
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=-600))

    told = said(tmp_path, make)
    assert "1 s ago" not in told.flat_text, told.text


def test_no_command_is_shown_twice(tmp_path: Path) -> None:
    """A secret with two entries for the registry, both refused."""
    auths = {each: {"username": "alice", "password": "kf-marked-1"} for each in (HOST, f"https://{HOST}/v2/")}
    data = {".dockerconfigjson": base64.b64encode(json.dumps({"auths": auths}).encode()).decode()}

    def make(world: PodWorld) -> None:
        world.api.add(web(secrets=("regcred",)), aged(pull_secret(data=data)))
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=12))

    told = said(tmp_path, make)
    lines = [line for each in told.explanation["cure"] for line in each["lines"]]
    assert len(lines) == len(set(lines)), told.text


def test_can_pull_of_a_pod_tells_what_its_kubelet_saw(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        world.is_node = False
        listed(world)
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=12))

    with situation_world(tmp_path, make) as world:
        done = world.run("keyferry can-pull pod/web -n shop")
    assert done.returncode != 0 or "ago" in done.stdout + done.stderr, done.stdout


def secret_of(auths: dict[str, dict[str, str]]) -> Json:
    data = {".dockerconfigjson": base64.b64encode(json.dumps({"auths": auths}).encode()).decode()}
    return aged(pull_secret(data=data))


@pytest.mark.parametrize("key", ["*.example", f"{HOST}/team"])
def test_the_cure_keeps_the_key_of_the_entry_that_it_corrects(tmp_path: Path, key: str) -> None:
    """The command writes an entry for the image's host only: other hosts of the wildcard lose their login."""

    def make(world: PodWorld) -> None:
        world.api.add(
            web(secrets=("regcred",)), secret_of({key: {"username": "alice", "password": "kf-marked-w"}})
        )
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=12))

    told = said(tmp_path, make)
    assert key in told.cures, told.cures


def test_the_cure_for_an_immutable_secret_can_work(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        world.api.add(web(secrets=("regcred",)), {**login_secret(login=WRONG), "immutable": True})
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=12))

    told = said(tmp_path, make)
    assert "immutable" in told.flat_text, told.text


def test_a_pull_that_began_after_the_last_success_is_under_way(tmp_path: Path) -> None:
    """The sandbox was made again, as after a restart of the node, with imagePullPolicy Always."""

    def make(world: PodWorld) -> None:
        listed(world, policy="Always")
        done = Reported("Pulled", f'Successfully pulled image "{IMAGE}" in 2s.', 2400)
        world.report(
            Report(waiting("ContainerCreating"), (done, Reported("Pulling", f'Pulling image "{IMAGE}"', 5)))
        )

    told = said(tmp_path, make)
    assert told.verdict == ("unknown", "not-tried"), told.text


def test_a_token_that_is_a_user_name_is_masked(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4" * 4

    def make(world: PodWorld) -> None:
        world.api.add(
            web(secrets=("regcred",)), secret_of({HOST: {"username": token, "password": "x-oauth-basic"}})
        )
        world.report(failed(IMAGE, unauthorized(IMAGE), ago=12))

    told = said(tmp_path, make)
    assert token not in told.text + json.dumps(told.document), told.text
