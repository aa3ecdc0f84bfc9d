"""Who may use an image of the node, what another policy changes, and the images of a node."""

from __future__ import annotations

import pytest

from keyferry.api.kubeletconfig.records import ImagePullCredentials
from keyferry.errors import EnvironmentProblem
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.pulls.records.access import (
    Change,
    ImageUse,
    NodeImages,
    PolicyEffect,
    UseOutcome,
    find_access,
    judge_use,
    parse_crictl_images,
)
from keyferry.pulls.records.decide import Decision, PodCredentials, Situation, decide
from keyferry.pulls.records.policy import ALWAYS, NEVER, VerificationPolicy
from keyferry.pulls.records.store import RecordLookup
from support.records import IMAGE, REF, Present, account, record, secret, with_secrets

POD, SECRET = MissingInput(input=LookupInput.POD), MissingInput(input=LookupInput.PULL_SECRET, name="s1")
ACCOUNT, TOKEN = (
    MissingInput(input=LookupInput.SERVICE_ACCOUNT, name="ns/a1"),
    MissingInput(input=LookupInput.SERVICE_ACCOUNT_TOKEN, name="ns/a1"),
)
OTHER = MissingInput(input=LookupInput.SERVICE_ACCOUNT, name="ns/a2")
IMAGES = MissingInput(input=LookupInput.IMAGES, name=IMAGE)
OF_SECRET, OF_ACCOUNT = (
    with_secrets(secret("s1")),
    ImagePullCredentials(kubernetes_secrets=(), kubernetes_service_accounts=(account(),)),
)


def decided(entry: ImagePullCredentials, policy: str = ALWAYS) -> Decision:
    situation = Situation(image=IMAGE, image_ref=REF, lookup=RecordLookup(record=record(entry=entry)))
    return decide(situation, VerificationPolicy(policy), PodCredentials)


@pytest.mark.parametrize(
    ("decision", "missing", "outcome"),
    [
        pytest.param(decided(OF_SECRET), (), UseOutcome.PULL, id="nothing missing"),
        pytest.param(decided(OF_SECRET), (POD,), UseOutcome.UNKNOWN, id="pod"),
        pytest.param(decided(OF_SECRET), (SECRET,), UseOutcome.UNKNOWN, id="secret"),
        pytest.param(decided(OF_ACCOUNT), (SECRET,), UseOutcome.PULL, id="secret, of an account"),
        pytest.param(decided(OF_ACCOUNT), (ACCOUNT,), UseOutcome.UNKNOWN, id="account"),
        pytest.param(decided(OF_ACCOUNT), (TOKEN,), UseOutcome.UNKNOWN, id="token"),
        pytest.param(decided(OF_ACCOUNT), (OTHER,), UseOutcome.PULL, id="another account"),
        pytest.param(decided(OF_SECRET, NEVER), (POD, SECRET), UseOutcome.USE, id="policy"),
        pytest.param(decided(OF_SECRET, NEVER), (IMAGES,), UseOutcome.UNKNOWN, id="perhaps not there"),
        pytest.param(decided(OF_SECRET), (IMAGES,), UseOutcome.PULL, id="pulled either way"),
    ],
)
def test_a_decision_stands_only_if_nothing_that_is_missing_can_turn_it(
    decision: Decision, missing: tuple[MissingInput, ...], outcome: UseOutcome
) -> None:
    assert judge_use(decision, missing) is outcome


def test_access_is_found_by_name_reference_and_spelling() -> None:
    """How it was found is told, since spellings are kept apart."""
    records = [record("r1", "busybox"), record("r2", "reg.example/x")]
    assert [each.match for each in find_access(records, "busybox:2")] == ["name"]
    assert [each.match for each in find_access(records, "docker.io/library/busybox")] == ["another-spelling"]
    assert [each.name for each in find_access(records, "r2")] == ["reg.example/x"]
    assert find_access(records, "Not A Name") == ()


@pytest.mark.parametrize(
    ("before", "after", "missing", "effect"),
    [
        pytest.param(ALWAYS, ALWAYS, (), PolicyEffect.SAME, id="no change"),
        pytest.param(ALWAYS, NEVER, (), PolicyEffect.FREE, id="no longer verified"),
        pytest.param(NEVER, ALWAYS, (), PolicyEffect.VERIFIED, id="verified from now on"),
        pytest.param(NEVER, ALWAYS, (POD,), PolicyEffect.UNKNOWN, id="perhaps verified"),
        pytest.param(ALWAYS, NEVER, (POD,), PolicyEffect.UNKNOWN, id="perhaps no longer"),
        pytest.param(ALWAYS, ALWAYS, (POD,), PolicyEffect.SAME, id="unknown twice by one rule"),
        pytest.param(ALWAYS, NEVER, (POD, IMAGES), PolicyEffect.UNKNOWN, id="unknown by two rules"),
    ],
)
def test_the_effect_of_another_policy(
    before: str, after: str, missing: tuple[MissingInput, ...], effect: PolicyEffect
) -> None:
    """Two decisions that nobody can make are the same only if one input would make both."""
    change = Change(
        use=ImageUse(pod="pod", image=IMAGE),
        image_ref=REF,
        before=decided(OF_SECRET, before),
        after=decided(OF_SECRET, after),
        missing=missing,
    )
    assert change.effect is effect


LIST = (
    b'{"images":[{"id":"sha256:1","repoTags":["docker.io/library/busybox:1"],"repoDigests":[],"size":"5"}]}'
)
DIGEST = "sha256:" + "0" * 64


def test_the_runtimes_names_are_in_full_and_a_pods_need_not_be() -> None:
    """A short name finds the image by what it means, tag included."""
    images = NodeImages([], parse_crictl_images(LIST, "f"))
    assert images.find("busybox:1") == "sha256:1"
    assert images.find("busybox") == ""
    assert images.find("sha256:1") == "sha256:1"


def test_a_digest_decides_whatever_the_tag() -> None:
    """With a digest the tag before it says nothing."""
    images = NodeImages([], [Present(id="id", tags=(), digests=(f"reg.example/x@{DIGEST}",))])
    assert images.find(f"reg.example/x:9@{DIGEST}") == "id"


def test_without_a_list_the_latest_record_counts() -> None:
    """Records know names without tags, so the one changed last is taken."""
    assert NodeImages([record("a"), record("b")]).find("reg.example/team/app:v7") == "b"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"images":{}}', b'{"images":[{}]}', b'{"images":[{"id":"a","repoTags":[1]}]}']
)
def test_another_document_is_refused(data: bytes) -> None:
    """What crictl would not print is an error that says what is expected."""
    with pytest.raises(EnvironmentProblem, match=r"^f: "):
        parse_crictl_images(data, "f")
