"""Registries and pods that would harm whoever asks whether all images of a cluster can be pulled.

What a single registry may try is in ``test_registry_client.py``, an API server in ``test_hostile_clusters.py``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fake_cloud import Received, Reply
from support.kubernetes_api import pod
from support.pulls_again_world import ECR, HOST, LOGIN, OTHER, PASSWORD, PullsWorld, image, pulls_world

FORMATS = ["table", "wide", "json", "yaml", "junit"]
PLANTED = "keyferry: planted"
EVIL = f"a\x1b[31m\x1b]0;t\x07\n{PLANTED}\r{PLANTED}\x9b2J\u202e\u2066{PLANTED}"
HARMFUL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
PAIR = base64.b64encode(LOGIN.encode()).decode()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PullsWorld]:
    """A cluster with two pods, of which one has a login."""
    with pulls_world(tmp_path) as made:
        made.add_secret()
        made.add_pods(1, image(), secrets=("regcred",))
        made.add_pods(1, image("team/db:v2", OTHER))
        yield made


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
def test_no_login_that_a_registry_repeats_is_shown(world: PullsWorld, status: int, output: str) -> None:
    """Neither the password nor the header that has it."""

    def repeat(request: Received) -> Reply | None:
        proof = request.headers.get("authorization", "")
        if not proof:
            return None
        message = f"bad {proof} {PASSWORD} {PAIR} {LOGIN}"
        errors = [{"code": "DENIED", "message": message, "detail": message}]
        return Reply(status, {"errors": errors}, headers={"Retry-After": "100000", "X-Said": message})

    world.instead = repeat
    done = world.run("-A", "-o", output, "-v")
    assert done.returncode in (1, 5, 6)
    assert HOST in done.stdout
    assert PASSWORD not in done.stdout + done.stderr
    assert PAIR not in done.stdout + done.stderr


@pytest.mark.parametrize("output", FORMATS)
def test_no_escape_of_a_registry_reaches_the_terminal(world: PullsWorld, output: str) -> None:
    world.instead = lambda _: Reply(403, {"errors": [{"code": EVIL, "message": EVIL}]})
    done = world.run("-A", "-o", output)
    both = done.stdout + done.stderr
    assert HARMFUL.search(both) is None, ascii(both)
    assert not [line for line in both.split("\n") if line.startswith(PLANTED)], both


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("words", [[], ["--max-requests", "1"]], ids=["all", "budget"])
def test_no_escape_of_a_pod_reaches_the_terminal(world: PullsWorld, output: str, words: list[str]) -> None:
    """In names of images, namespaces, accounts, secrets and nodes."""
    made = pod(
        f"web{EVIL}",
        f"shop{EVIL}",
        (f"{ECR}/{EVIL}", f"{OTHER}/app:v1"),
        nodeName=EVIL,
        serviceAccountName=EVIL,
        imagePullSecrets=[{"name": EVIL}],
    )
    world.api.add(made)
    done = world.run("-A", "-o", output, *words)
    both = done.stdout + done.stderr
    assert HARMFUL.search(both) is None, ascii(both)
    assert not [line for line in both.split("\n") if line.startswith(PLANTED)], both


def test_the_login_of_one_namespace_answers_for_no_other(world: PullsWorld) -> None:
    """Whoever can make a pod learns nothing of images that others may pull."""
    world.images[image()] = {LOGIN}
    world.add_secret("regcred", "evil", "alice:kf-marked-guess")
    world.add_pods(1, image(), namespace="evil", secrets=("regcred",))
    world.add_pods(1, image(), namespace="none")
    found = json.loads(world.run("-A", "-o", "json").stdout)
    outcomes = {
        each["namespaces"][0]: each["outcome"] for each in found["images"] if each["registry"] == HOST
    }
    assert outcomes == {"shop": "yes", "evil": "no", "none": "unknown"}


def test_a_login_goes_to_its_own_registry_only(world: PullsWorld) -> None:
    """Also where that one redirects, or names another as its token server over plain HTTP."""

    def lead_away(request: Received) -> Reply | None:
        if request.headers["host"] != HOST:
            return None
        if "authorization" not in request.headers:
            challenge = f'Bearer realm="http://{OTHER}/token",service="s"'
            return Reply(401, headers={"WWW-Authenticate": challenge})
        return Reply(307, headers={"Location": f"https://{OTHER}/v2/team/app/manifests/v1"})

    world.instead = lead_away
    done = world.run("-A")
    assert done.returncode == 6
    assert "requires plain HTTP for its token server" in " ".join(done.stdout.split())
    assert not [each for each in world.server.received if "authorization" in each.headers]


@pytest.mark.parametrize(
    "reply",
    [
        Reply(is_endless=True, headers={"Content-Type": "text/plain"}),
        Reply(raw=b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000),
        Reply(302, headers={"Location": f"https://{OTHER}/again"}),
        Reply(200, body=b"\xff" * 1000, headers={"Content-Type": "application/json"}),
        Reply(429, headers={"Retry-After": "9" * 5000}),
        Reply(401, headers={"WWW-Authenticate": "Bearer " * 3000}),
        Reply(is_closed=True),
    ],
    ids=["endless", "head", "redirects", "bytes", "pause", "challenge", "closed"],
)
def test_an_answer_that_is_none_leaves_the_others(world: PullsWorld, reply: Reply) -> None:
    """The image of that registry is unknown, or refused, and the command comes to its end."""
    world.images[image("team/db:v2", OTHER)] = None
    world.instead = lambda request: (
        None if request.headers["host"] == OTHER and request.path != "/again" else reply
    )
    found = json.loads(world.run("-A", "-o", "json").stdout)
    outcomes = {each["registry"]: each["outcome"] for each in found["images"]}
    assert outcomes[OTHER] == "yes"
    assert outcomes[HOST] in ("unknown", "no")
    assert len(world.server.received) < 50


@pytest.mark.parametrize("length", [300, 1_000_000])
def test_names_of_any_length_have_an_end(world: PullsWorld, length: int) -> None:
    world.add_pods(1, f"{OTHER}/{'x' * length}:v1")
    world.add_pods(1, f"{OTHER}/UPPER{'x' * length}:v1")
    done = world.run("-A", "-o", "wide")
    assert done.returncode in (1, 6)
    assert len(done.stdout) < 20_000


WRONG: list[object] = [None, 7, "text", [7], {"a": 7}, [{"a": [7]}], [[]], {}]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
@pytest.mark.parametrize("path", ["metadata", "spec", "status", "metadata.ownerReferences", "spec.template"])
def test_a_field_of_the_wrong_type_costs_one_object(world: PullsWorld, path: str, wrong: object) -> None:
    """Of a pod or of a workload; the others are checked, and there is no traceback."""
    world.images = {image(): {LOGIN}, image("team/db:v2", OTHER): None}
    for kind in ("Pod", "Deployment", "Job", "CronJob"):
        bad = {**pod("zz", images=()), "kind": kind}
        world.api.add(bad)
        *above, last = path.split(".")
        place = bad
        for each in above:
            found = place.setdefault(each, {})
            assert isinstance(found, dict)
            place = found
        place[last] = wrong
    found = json.loads(world.run("-A", "-o", "json").stdout)
    assert {each["image"]: each["outcome"] for each in found["images"] if "team" in each["image"]} == {
        image(): "yes",
        image("team/db:v2", OTHER): "yes",
    }
