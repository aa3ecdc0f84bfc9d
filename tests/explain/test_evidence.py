"""How ``keyferry explain`` reads what it sees of a pod: times, gaps, several containers, and unknown texts."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.account_world import registry_of
from support.far_node import leave_node
from support.known_situations import change_config, old_config
from support.kubernetes_api import Json, account
from support.plugins import write_executable
from support.pod_world import HOST, PodWorld
from support.pull_reports import (
    Report,
    aged,
    creating,
    failed,
    lacking_secrets,
    not_found,
    pulled,
    stamp,
    unauthorized,
)
from support.schemas import check_document
from support.situations import (
    CASES,
    CREATE,
    IMAGE,
    LOGIN,
    TOKENS,
    Told,
    add_provider,
    check,
    explain,
    login_secret,
    nothing,
    situation_here,
    tell,
    web,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")

SIDE = f"{HOST}/team/side:v1"
AGAIN = r"tries again (by|at|in|within)\b"


def lists_secret(
    world: PodWorld, *reports: Report, login: str = ":".join(LOGIN), changed: float | None = None
) -> None:
    """A pod with a secret, of which the kubelet reports."""
    world.api.add(web(secrets=("regcred",)), aged(login_secret(login=login), changed=changed))
    world.answer = registry_of([LOGIN])
    world.report(*reports)


def wrong_password(world: PodWorld, *reports: Report) -> None:
    lists_secret(world, *reports, login="alice:kf-marked-wrong")


# Changes since the last attempt.


def secret_changed(world: PodWorld) -> None:
    world.is_node = False
    lists_secret(world, failed(IMAGE, unauthorized(IMAGE), ago=60), changed=3)


def secret_created(world: PodWorld) -> None:
    world.is_node = False
    world.api.add(web(secrets=("regcred",)), aged(login_secret(), ago=3))
    world.report(lacking_secrets("regcred"), failed(IMAGE, unauthorized(IMAGE), ago=60))


def account_annotated(world: PodWorld) -> None:
    world.is_node = False
    add_provider(world, HOST, extra=TOKENS)
    world.api.add(aged(account(**{f"{HOST}/role": "puller"}), changed=3))
    world.report(failed(IMAGE, unauthorized(IMAGE), ago=60))


def with_plugin(world: PodWorld) -> None:
    add_provider(world, HOST)
    world.report(failed(IMAGE, unauthorized(IMAGE)))


def replace_plugin(world: PodWorld) -> None:
    plugin = world.node.bin_dir / "acme-registry"
    write_executable(plugin, plugin.read_text())
    world.change_later(plugin)


PROVIDERS = "--config /etc/kubernetes/providers.yaml --bin-dir /usr/libexec/credential-providers"
CHANGES = {
    "secret-changed": (secret_changed, nothing, "", "shop/regcred"),
    "secret-created": (secret_created, nothing, "", "shop/regcred"),
    "account-annotated": (account_annotated, nothing, f"{PROVIDERS} --request-token", "account"),
    "kubelet-restarted": (with_plugin, PodWorld.restart_kubelet_later, "", "kubelet .*started"),
    "plugin-replaced": (with_plugin, replace_plugin, "", "credential-providers/acme-registry"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_after_the_last_attempt_decides_at_the_next(name: str, tmp_path: Path) -> None:
    """The old failure says nothing of it, so the answer is neither yes nor no."""
    make, change, options, what = CHANGES[name]
    with situation_here(tmp_path, make) as world:
        change(world)
        told = tell(world, options)
    assert told.verdict == ("unknown", "changed"), told.text
    assert told.codes == (6, 6)
    assert told.text.startswith("? ")
    assert re.search(what, told.first_line), told.text
    assert re.search(AGAIN, told.flat_text), told.text
    assert not re.search(CREATE, told.text)


@pytest.mark.parametrize("name", ["kubelet-restarted", "plugin-replaced"])
def test_a_debug_pod_tells_what_changed_on_the_node(name: str, tmp_path: Path) -> None:
    make, change, _, what = CHANGES[name]
    with situation_here(tmp_path, make) as world:
        change(world)
        leave_node(world)
        told = tell(world, "--on-node --debug-image registry.example/keyferry:1")
    assert told.verdict == ("unknown", "changed"), told.text
    assert re.search(what, told.first_line), told.text


def test_an_image_alone_is_told_what_the_kubelet_has_not_read(tmp_path: Path) -> None:
    with situation_here(tmp_path, old_config, change_config) as world:
        found = json.loads(explain(world, "-o json", IMAGE).stdout)
        text = explain(world, "", IMAGE).stdout
        given = json.loads(explain(world, f"-o json {PROVIDERS}", IMAGE).stdout)
    check_document(found)
    assert found["evidence"]["kubeletStarted"]
    assert [each["kind"] for each in found["evidence"]["unread"]] == ["provider config"]
    assert "after the kubelet started" in " ".join(text.split())
    # A config that is given is not the kubelet's.
    assert (given["evidence"]["kubeletStarted"], given["evidence"]["unread"]) == (None, [])


def test_a_config_that_is_not_read_yet_does_not_excuse_a_secret(tmp_path: Path) -> None:
    """The kubelet reads secrets for each pull."""

    def make(world: PodWorld) -> None:
        old_config(world)
        wrong_password(world, failed(IMAGE, unauthorized(IMAGE)))

    with situation_here(tmp_path, make, change_config) as world:
        assert tell(world).verdict == ("no", "refused")


def test_a_refusal_is_as_sure_from_a_laptop(tmp_path: Path) -> None:
    """The pod's own secret was tried, and the kubelet has told what came of it."""

    def make(world: PodWorld) -> None:
        world.is_node = False
        wrong_password(world, failed(IMAGE, unauthorized(IMAGE), ago=60))

    with situation_here(tmp_path, make) as world:
        told = tell(world)
    check(told, "refused", ("'alice'", "shop/regcred", r"\b401\b", r"\b1 min\b"), ("kubectl",))


# Nothing was tried yet, or nobody knows what happened.


@pytest.mark.parametrize("has_secret", [False, True])
def test_a_pod_that_has_just_come_was_not_tried(tmp_path: Path, *, has_secret: bool) -> None:
    """Whether a credential would be found is said beside it."""

    def make(world: PodWorld) -> None:
        if has_secret:
            lists_secret(world)
        world.report(creating())

    with situation_here(tmp_path, make) as world:
        told = tell(world)
    assert told.verdict == ("unknown", "not-tried"), told.text
    assert told.codes == (6, 6)
    assert told.text.startswith("? ")
    assert ("'alice'" in told.first_line) is has_secret


@pytest.mark.parametrize("options", ["", "--check-registry"])
@pytest.mark.parametrize(
    ("login", "cases"),
    [(":".join(LOGIN), ("found", "found")), ("alice:kf-marked-wrong", ("found", "refused"))],
    ids=["right", "wrong"],
)
def test_without_a_status_the_files_of_now_decide_or_the_registry(
    login: str, cases: tuple[str, str], options: str, tmp_path: Path
) -> None:
    """Nothing was seen of the pod: not even that it was not tried."""
    with situation_here(tmp_path, lambda world: lists_secret(world, login=login)) as world:
        world.api.objects["", "pods", "shop", "web"].pop("status")
        told = tell(world, options)
    case = cases[bool(options)]
    outcome, mark, code = CASES[case]
    assert told.verdict == (outcome, case), told.text
    assert told.codes == (code, code)
    assert told.text.startswith(f"{mark} ")
    assert "alice" in told.first_line


def test_the_events_tell_the_reason_where_the_status_does_not(tmp_path: Path) -> None:
    """Before Kubernetes 1.32."""
    report = failed(IMAGE, unauthorized(IMAGE), is_old=True)
    with situation_here(tmp_path, lambda world: wrong_password(world, report)) as world:
        told = tell(world)
    check(told, "refused", ("'alice'", r"\b401\b", " ago"), ("kubectl",))


def test_the_end_of_a_long_message_counts(tmp_path: Path) -> None:
    """The reason of the registry is the last word of the kubelet's."""
    image = f"{HOST}/{'a-team-of-many/' * 10}app:v1"

    def make(world: PodWorld) -> None:
        world.api.add(web(image, secrets=("regcred",)), login_secret(login="alice:kf-marked-wrong"))
        world.report(replace(failed(image, unauthorized(image), is_old=True)))

    assert len(unauthorized(image)) > 400
    with situation_here(tmp_path, make) as world:
        told = tell(world)
    assert told.verdict == ("no", "refused"), told.text
    assert re.search(r"\b401\b", told.first_line), told.text


# Several containers.


def two_containers(world: PodWorld, *reports: Report, secrets: tuple[str, ...] = ()) -> None:
    made = web(secrets=secrets)
    side = {"name": "side", "image": SIDE, "imagePullPolicy": "IfNotPresent"}
    made["spec"]["containers"].append(side)  # type: ignore[index] # a map
    world.api.add(made)
    world.report(*reports)


def cases(told: Told) -> list[str]:
    """The case of each image."""
    return [each["explanation"]["verdict"]["case"] for each in told.document["pods"][0]["images"]]


def test_containers_with_one_cause_are_one_block(tmp_path: Path) -> None:
    """Also if they were not tried at the same time."""

    def make(world: PodWorld) -> None:
        world.is_node = False
        reports = (
            lacking_secrets("regcred"),
            failed(IMAGE, unauthorized(IMAGE), ago=60),
            failed(SIDE, unauthorized(SIDE), ago=17, container="side"),
        )
        two_containers(world, *reports, secrets=("regcred",))

    with situation_here(tmp_path, make) as world:
        told = tell(world)
    assert cases(told) == ["no-credential", "no-credential"]
    assert told.codes == (1, 1)
    assert len(re.findall("kubectl create secret", told.text)) == 1, told.text
    for container in ("app", "side"):
        assert re.search(rf"\bcontainers? .*\b{container}\b", told.flat_text), told.text


def test_events_are_those_of_their_container(tmp_path: Path) -> None:
    """One runs, and the image of the other does not exist."""

    def make(world: PodWorld) -> None:
        two_containers(world, pulled(IMAGE), failed(SIDE, not_found(SIDE), container="side"))

    with situation_here(tmp_path, make) as world:
        told = tell(world)
    assert cases(told) == ["runs", "other-reason"]
    assert told.codes == (1, 1)


def test_events_of_an_earlier_pod_of_the_name_do_not_count(tmp_path: Path) -> None:
    """As of a StatefulSet, whose pods keep their names."""

    def make(world: PodWorld) -> None:
        world.report(failed(IMAGE, not_found(IMAGE)))
        lists_secret(world, pulled(IMAGE))

    with situation_here(tmp_path, make) as world:
        told = tell(world)
    assert told.verdict == ("yes", "runs"), told.text


# Objects from files.


def test_status_and_events_come_from_files_too(tmp_path: Path) -> None:
    """As kubectl writes them: the pod, the secret, and a list of events."""

    def make(world: PodWorld) -> None:
        wrong_password(world, failed(IMAGE, unauthorized(IMAGE)))

    def of(world: PodWorld, resource: str) -> list[Json]:
        return [each for (_, kind, *_), each in world.api.objects.items() if kind == resource]

    with situation_here(tmp_path, make) as world:
        events = {"apiVersion": "v1", "kind": "List", "items": of(world, "events")}
        documents = [*of(world, "pods"), *of(world, "secrets"), *of(world, "serviceaccounts"), events]
        (tmp_path / "web.yaml").write_text("---\n".join(json.dumps(each) + "\n" for each in documents))
        told = tell(world, "-f web.yaml", subject="")
    said = ("refuse", "'alice'", "shop/regcred", r"\b401\b", " ago")
    check(told, "refused", said, ("kubectl",))
    assert stamp(0)[:4] in json.dumps(told.document["pods"][0]["events"])
