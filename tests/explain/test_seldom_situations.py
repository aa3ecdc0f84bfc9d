"""Situations that are met seldom, and what ``keyferry explain`` says of them."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
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
    Change,
    Told,
    add_provider,
    login_secret,
    nothing,
    situation_here,
    tell,
    web,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")

WRONG = "alice:kf-marked-wrong"
REF = f"sha256:{'a' * 64}"
DEPLOYMENT = "deploy/web -n shop"


def resolve(image: str, why: str) -> str:
    return f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {why}'


def the_pod(world: PodWorld) -> Any:
    return world.api.objects["", "pods", "shop", "web"]


# Parts of worlds.


def each_of(*changes: Change) -> Change:
    def make(world: PodWorld) -> None:
        for change in changes:
            change(world)

    return make


def reports(*seen: Report) -> Change:
    return lambda world: world.report(*seen)


def refused(ago: float = 60) -> Change:
    return reports(failed(IMAGE, unauthorized(IMAGE), ago=ago))


def listed(login: str = ":".join(LOGIN), policy: str = "IfNotPresent", **fields: object) -> Change:
    """The pod lists a secret with this login, and the registry accepts the right one."""

    def make(world: PodWorld) -> None:
        world.api.add(web(secrets=("regcred",), policy=policy), {**login_secret(login=login), **fields})
        world.answer = registry_of([LOGIN])

    return make


def lists(secret: Json, image: str = IMAGE) -> Change:
    return lambda world: world.api.add(web(image, secrets=("regcred",)), secret)


def secret_of(auths: dict[str, dict[str, str]]) -> Json:
    data = {".dockerconfigjson": base64.b64encode(json.dumps({"auths": auths}).encode()).decode()}
    return aged(pull_secret(data=data))


def old_secret(host: str) -> Json:
    content = json.dumps({host: {"username": "alice", "password": "kf-marked-w"}}).encode()
    data = {".dockercfg": base64.b64encode(content).decode()}
    return aged(pull_secret(type="kubernetes.io/dockercfg", data=data))


def of_image(image: str, why: str) -> Change:
    return each_of(lambda world: world.api.add(web(image)), reports(failed(image, why)))


def refuse_all(world: PodWorld) -> None:
    world.answer = registry_of([])


def on_node(world: PodWorld) -> None:
    world.run_runtime({IMAGE: REF})


def never_policy(world: PodWorld) -> None:
    world.api.add(web(policy="Never"))


def two_containers(world: PodWorld) -> None:
    both: Any = web(secrets=("regcred",))
    both["spec"]["containers"].append({"name": "side", "image": IMAGE, "imagePullPolicy": "Always"})
    world.api.add(both, login_secret(login=WRONG))


def provider(**fields: str) -> Change:
    return lambda world: add_provider(world, HOST, **fields)


def deployment(name: str = "app:v1", **seen: Report) -> Change:
    """A deployment with a pod for each report; *name* is the image of its template."""

    def make(world: PodWorld) -> None:
        world.api.permit(
            TOKEN, "get list", "deployments replicasets pods events secrets serviceaccounts", "shop"
        )
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
        for at, (which, report) in enumerate(seen.items()):
            one: Any = web(secrets=("regcred",))
            own: Json = {"name": f"web-{which}", "uid": f"u-{which}", "labels": labels}
            own["ownerReferences"] = [{"uid": "r1", "controller": True}]
            one["metadata"] |= {**own, "creationTimestamp": stamp(3000 - 2900 * at)}
            world.api.add(one)
            world.reported.append((one, (report,)))

    return make


# What happens after the kubelet has reported.


def forbid(resource: str) -> Change:
    def change(world: PodWorld) -> None:
        user = world.api.users[TOKEN]
        user.permitted = {rule for rule in user.permitted if rule[1] != resource}

    return change


def lose_container(world: PodWorld) -> None:
    status = the_pod(world)["status"]
    status |= {"phase": "Failed", "reason": "Evicted"}
    message = "The container could not be located when the pod was terminated"
    gone = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}
    status["containerStatuses"][0]["state"] = {"terminated": gone}


def evict(world: PodWorld) -> None:
    message = "The node was low on resource"
    the_pod(world)["status"] = {"phase": "Failed", "reason": "Evicted", "message": message}


def evict_old(world: PodWorld) -> None:
    old: Any = world.api.objects["", "pods", "shop", "web-old"]
    old["status"] = {"phase": "Failed", "reason": "Evicted"}
    old["metadata"]["managedFields"] = [{"manager": "kubelet", "operation": "Update", "time": stamp(2)}]


def delete(world: PodWorld) -> None:
    the_pod(world)["metadata"].update(deletionTimestamp=stamp(5))


def age_secret_events(world: PodWorld) -> None:
    for place, event in world.api.objects.items():
        if place[1] == "events" and event["reason"] == "FailedToRetrieveImagePullSecret":
            event |= {"lastTimestamp": stamp(2400), "count": 1}


def make_static(world: PodWorld) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": "n", "controller": True}
    note = {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.source": "file"}
    the_pod(world)["metadata"] |= {"annotations": note, "ownerReferences": [owner]}


@dataclass(frozen=True)
class Seldom:
    """A world, and patterns: of the whole text, its first line and the cures; a verdict, its outcome, or not that."""

    make: Change
    then: Change = nothing
    says: str = ""
    never: tuple[str, ...] = ()
    never_first: str = ""
    never_cures: str = ""
    cures: str = ""
    verdict: str = ""
    options: str = ""
    subject: str = POD
    is_node: bool = False


HIDDEN = "pull access denied, repository does not exist or may require authorization: server message: "
SCOPE = "insufficient_scope: authorization failed"
HEAD = f"unexpected status from HEAD request to https://{HOST}/v2/team/app/manifests/v1: "
EXPIRED = ": denied: Your authorization token has expired. Reauthenticate and try again."
SANDBOX = (
    'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox image "r.example/pause:3.9": '
    'failed to pull image "r.example/pause:3.9": pulling from host r.example failed with status code [manifests 3.9]: '
    "401 Unauthorized"
)
OLD_IMAGE = IMAGE.replace("v1", "v0")
BACK_OFF = f'Back-off pulling image "{OLD_IMAGE}": ErrImagePull: {not_found(OLD_IMAGE)}'
CREATING_FAILS = waiting("CreateContainerError", "context deadline exceeded")
# The sandbox was made again, as after a restart of the node, with imagePullPolicy Always.
PULLING = Report(
    waiting("ContainerCreating"),
    (
        Reported("Pulled", f'Successfully pulled image "{IMAGE}" in 2s.', 2400),
        Reported("Pulling", f'Pulling image "{IMAGE}"', 5),
    ),
)


def restarted(why: str) -> Change:
    """The kubelet keeps the imageID of the container that ran before: a restart with Always, or `kubectl set image`."""
    report = replace(failed(IMAGE, why, ago=60), image_id=f"{HOST}/team/app@{DIGEST}")
    return each_of(listed(WRONG, "Always"), reports(report))


def named_like_a_secret(name: str) -> Seldom:
    """The events of such an image count as well."""
    image = f"{HOST}/team/{name}:v1"
    seen = reports(failed(image, unauthorized(image), ago=60))
    return Seldom(each_of(lists(aged(login_secret(), changed=3), image), seen), verdict="unknown changed")


def without_access(why: str) -> Seldom:
    """A provider that answers, whose user the registry does not let pull: not only an old answer."""
    make = each_of(provider(), reports(failed(IMAGE, resolve(IMAGE, why))))
    return Seldom(make, says="no such image|not let|check the name|access", is_node=True)


def with_key(key: str) -> Seldom:
    """A command that wrote an entry for the image's host only would lose the login of other hosts of a wildcard."""
    secret = secret_of({key: {"username": "alice", "password": "kf-marked-w"}})
    return Seldom(each_of(lists(secret), refused()), cures=re.escape(key))


def of_the_old_type(host: str) -> Seldom:
    """The type of a secret is immutable, and it has no .dockerconfigjson."""
    never = "dockerconfigjson|create secret docker-registry"
    return Seldom(each_of(lists(old_secret(host)), refused()), never_cures=never)


# Made when they are tried, since their times count from then.
SELDOM: dict[str, Callable[[], Seldom]] = {
    "a-restarted-container-whose-pull-fails-does-not-run": lambda: Seldom(
        restarted(unauthorized(IMAGE)), verdict="no"
    ),
    "a-restarted-container-whose-image-is-gone-does-not-run": lambda: Seldom(
        restarted(not_found(IMAGE)), verdict="no"
    ),
    # What the cure "load the image" leads to, until the kubelet's next sync.
    "an-image-that-was-loaded-after-never-pull-is-not-forbidden": lambda: Seldom(
        each_of(on_node, never_policy, reports(never_pulled(IMAGE))),
        never=("does not let this pod use it",),
        never_cures=CREATE,
        is_node=True,
    ),
    # Preloaded: this pod may use it.
    "an-image-that-came-to-the-node-after-the-failure-is-a-change": lambda: Seldom(
        each_of(on_node, listed(WRONG), reports(failed(IMAGE, unauthorized(IMAGE)))),
        says="on the node",
        is_node=True,
    ),
    # The secret's user bob is refused, the provider's user alice is accepted.
    "the-registry-accepts-the-credential-that-it-accepts": lambda: Seldom(
        each_of(listed("bob:kf-marked-x"), provider(), reports(failed(IMAGE, unauthorized(IMAGE)))),
        never=("accepts user 'bob'",),
        options="--check-registry",
        is_node=True,
    ),
    "an-answer-that-is-refused-now-too-is-no-older-one": lambda: Seldom(
        each_of(provider(), refused(), refuse_all),
        never=("older answer",),
        verdict="no refused",
        options="--check-registry",
        is_node=True,
    ),
    "an-image-called-auth": lambda: named_like_a_secret("auth"),
    "an-image-called-token": lambda: named_like_a_secret("token"),
    "an-image-called-secret": lambda: named_like_a_secret("secret"),
    "an-image-that-may-not-exist-is-not-only-a-missing-credential": lambda: Seldom(
        of_image("ngnix:1.27", resolve("docker.io/library/ngnix:1.27", HIDDEN + SCOPE)),
        says="no such image|not exist|check the name",
        is_node=True,
    ),
    "a-user-of-a-provider-without-scope": lambda: without_access(f"server message: {SCOPE}"),
    "a-user-of-a-provider-without-access": lambda: without_access(f"{HEAD}403 Forbidden"),
    "a-running-pod-and-a-registry-that-refuses": lambda: Seldom(
        each_of(listed(WRONG), reports(running(IMAGE))),
        says="401|refuse|not accept",
        options="--check-registry",
    ),
    "a-pod-that-was-evicted-while-it-could-not-pull-has-no-image": lambda: Seldom(
        each_of(listed(WRONG), refused()), lose_container, verdict="not yes"
    ),
    "an-evicted-pod-is-not-one-that-waits": lambda: Seldom(
        each_of(listed(), reports(creating())), evict, never_first="yet"
    ),
    "the-kubelet-does-not-try-again-for-a-pod-that-is-deleted": lambda: Seldom(
        each_of(lists(aged(login_secret(), changed=3)), refused()), delete, says="delet"
    ),
    "a-pod-that-has-its-image-does-not-wait-for-it": lambda: Seldom(
        each_of(
            listed(),
            deployment(old=replace(pulled(IMAGE, ago=60), state=CREATING_FAILS), new=pulled(IMAGE, ago=60)),
        ),
        never=("has its image.*waits for its image|waits for its image.*has its image",),
        subject=DEPLOYMENT,
    ),
    "a-deployment-whose-pods-have-another-image-than-its-template": lambda: Seldom(
        each_of(listed(), deployment("app:v2", old=pulled(IMAGE, ago=60), new=pulled(IMAGE, ago=60))),
        says="v2",
        subject=DEPLOYMENT,
    ),
    "a-wrong-password-in-a-secret-of-the-old-type": lambda: of_the_old_type(HOST),
    "another-host-in-a-secret-of-the-old-type": lambda: of_the_old_type(f"{HOST}:5000"),
    # The secret was missing 40 minutes ago, and exists since; the user may not read secrets.
    "an-old-event-about-a-secret-is-not-the-cause-of-a-new-failure": lambda: Seldom(
        each_of(
            listed(WRONG), reports(lacking_secrets("regcred"), failed(IMAGE, unauthorized(IMAGE), ago=60))
        ),
        each_of(forbid("secrets"), age_secret_events),
        never=("does not exist",),
    ),
    "an-expired-token-is-no-want-of-access": lambda: Seldom(
        each_of(
            listed("AWS:kf-marked-t"),
            reports(failed(IMAGE, resolve(IMAGE, f"{HEAD}403 Forbidden{EXPIRED}"), ago=60)),
        ),
        never=("no such image",),
    ),
    "containers-of-one-image-have-their-own-verdicts": lambda: Seldom(
        each_of(
            two_containers,
            reports(pulled(IMAGE, ago=200), failed(IMAGE, unauthorized(IMAGE), ago=60, container="side")),
        ),
        never=("^[^→]*container app",),
    ),
    # `kubectl set image`: the status still has the message of the image before.
    "a-failure-of-another-image-is-not-one-of-this": lambda: Seldom(
        each_of(listed(), reports(Report(waiting("ImagePullBackOff", BACK_OFF)))), never_first="no such image"
    ),
    "a-plugin-that-fails-beside-a-refused-secret": lambda: Seldom(
        each_of(
            listed(WRONG),
            provider(before="echo 'no identity' >&2; exit 3"),
            reports(failed(IMAGE, unauthorized(IMAGE))),
        ),
        says="no identity",
        is_node=True,
    ),
    # The pause image is pulled without the pod's secrets.
    "a-sandbox-that-cannot-be-made": lambda: Seldom(
        each_of(
            listed(),
            reports(
                creating(),
                Report({}, (Reported("FailedCreatePodSandBox", SANDBOX, 12, type="Warning"),), container=""),
            ),
        ),
        says="sandbox|pause",
    ),
    "a-static-pod-gets-no-secret-of-a-service-account": lambda: Seldom(
        reports(failed(IMAGE, unauthorized(IMAGE))),
        make_static,
        never_cures="serviceaccount|kubectl delete pod",
        is_node=True,
    ),
    # Before 1.32, without permission for events.
    "a-reason-that-may-not-be-read-is-not-gone": lambda: Seldom(
        each_of(listed(WRONG), reports(failed(IMAGE, unauthorized(IMAGE), ago=60, is_old=True))),
        forbid("events"),
        never=("no longer shown",),
    ),
    "an-event-of-the-future-was-not-one-second-ago": lambda: Seldom(
        each_of(listed(WRONG), refused(ago=-600)), never=("1 s ago",)
    ),
    "the-cure-keeps-a-wildcard-key": lambda: with_key("*.example"),
    "the-cure-keeps-a-key-with-a-path": lambda: with_key(f"{HOST}/team"),
    "the-cure-for-an-immutable-secret-can-work": lambda: Seldom(
        each_of(listed(WRONG, immutable=True), refused()), says="immutable"
    ),
    "a-pull-that-began-after-the-last-success-is-under-way": lambda: Seldom(
        each_of(listed(policy="Always"), reports(PULLING)), verdict="unknown not-tried"
    ),
}


def told_of(tmp_path: Path, found: Seldom) -> Told:
    def whole(world: PodWorld) -> None:
        world.is_node = found.is_node
        found.make(world)

    with situation_here(tmp_path, whole) as world:
        found.then(world)
        return tell(world, found.options, found.subject)


@pytest.mark.parametrize("name", SELDOM)
def test_what_is_said_of_it(name: str, tmp_path: Path) -> None:
    found = SELDOM[name]()
    told = told_of(tmp_path, found)
    assert re.search(found.says, told.flat_text), told.text
    assert re.search(found.cures, told.cures), told.cures
    assert not [each for each in found.never if re.search(each, told.flat_text)], told.text
    assert not (found.never_first and re.search(found.never_first, told.first_line)), told.text
    assert not (found.never_cures and re.search(found.never_cures, told.cures)), told.cures
    outcome, case = told.verdict
    if found.verdict.startswith("not "):
        assert outcome != found.verdict.removeprefix("not "), told.text
    else:
        assert found.verdict in ("", outcome, f"{outcome} {case}"), told.text


def test_a_workload_is_explained_by_a_pod_that_lives(tmp_path: Path) -> None:
    seen = deployment(old=failed(IMAGE, unauthorized(IMAGE), ago=60), new=pulled(IMAGE, ago=60))
    told = told_of(tmp_path, Seldom(each_of(listed(WRONG), seen), evict_old, subject=DEPLOYMENT))
    assert told.document["pods"][0]["pod"] == "web-new", told.text


def test_no_command_is_shown_twice(tmp_path: Path) -> None:
    """A secret with two entries for the registry, both refused."""
    auths = {each: {"username": "alice", "password": "kf-marked-1"} for each in (HOST, f"https://{HOST}/v2/")}
    told = told_of(tmp_path, Seldom(each_of(lists(secret_of(auths)), refused())))
    lines = [line for each in told.explanation["cure"] for line in each["lines"]]
    assert len(lines) == len(set(lines)), told.text


def test_a_token_that_is_a_user_name_is_masked(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4" * 4
    secret = secret_of({HOST: {"username": token, "password": "x-oauth-basic"}})
    told = told_of(tmp_path, Seldom(each_of(lists(secret), refused())))
    assert token not in told.text + json.dumps(told.document), told.text


def test_can_pull_of_a_pod_tells_what_its_kubelet_saw(tmp_path: Path) -> None:
    def make(world: PodWorld) -> None:
        world.is_node = False
        each_of(listed(), refused())(world)

    with situation_here(tmp_path, make) as world:
        done = world.run("keyferry can-pull pod/web -n shop")
    assert done.returncode != 0 or "ago" in done.stdout + done.stderr, done.stdout
