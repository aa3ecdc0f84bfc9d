"""Every decision has a rule, and reasons that name the record and the policy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePullSecret
from keyferry.errors import EnvironmentProblem, Kind, RecordError
from keyferry.images.keyring import Credential, SecretRef, ServiceAccountRef, Source, SourceKind
from keyferry.pulls.records.decide import (
    RESULTS,
    Decision,
    PodCredentials,
    Situation,
    credentials_used,
    decide,
    pod_credentials,
)
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.store import RecordLookup
from support.records import EVERYBODY, HASH, IMAGE, REF, account, record, secret, with_secrets

ALWAYS = VerificationPolicy("AlwaysVerify")
NOTHING = PodCredentials()
BROKEN = RecordLookup(problem=RecordError("/f", "damaged", kind=Kind.SYNTAX))
FOREIGN = RecordLookup(problem=RecordError("/f", "of another", kind=Kind.FOREIGN))


def never() -> PodCredentials:
    raise AssertionError("nobody asks the pod")


def ask(
    entry: ImagePullCredentials | None = None,
    shown: PodCredentials | Callable[[], PodCredentials] = NOTHING,
    lookup: RecordLookup | None = None,
    image: str = IMAGE,
    policy: VerificationPolicy = ALWAYS,
) -> Decision:
    found = RecordLookup(record=record(entry=entry)) if entry is not None else lookup or RecordLookup()
    get = shown if callable(shown) else lambda: shown
    return decide(Situation(image=image, image_ref=REF, lookup=found), policy, get)


@pytest.mark.parametrize(
    ("decision", "rule", "must_pull"),
    [
        (decide(Situation(image=IMAGE, image_ref=""), ALWAYS, never), "absent", True),
        (ask(lookup=BROKEN, shown=never), "unreadable", True),
        (ask(lookup=BROKEN, shown=never, policy=VerificationPolicy("NeverVerify")), "unreadable", True),
        (ask(EVERYBODY, never, policy=VerificationPolicy("NeverVerify")), "policy", False),
        (ask(lookup=FOREIGN, shown=never), "no-record", True),
        (ask(shown=never), "no-record", True),
        (ask(EVERYBODY, never, image="Not A Name"), "bad-name", True),
        (ask(EVERYBODY, never, image="busybox"), "other-name", True),
        (ask(EVERYBODY, never), "everybody", False),
        (ask(ImagePullCredentials(), never), "nobody", True),
        (ask(with_secrets(secret()), PodCredentials(secrets=(secret("other"),))), "same-credential", False),
        (ask(with_secrets(secret()), PodCredentials(secrets=(secret("s1", "new"),))), "same-secret", False),
        (
            ask(
                ImagePullCredentials(kubernetes_secrets=(), kubernetes_service_accounts=(account(),)),
                PodCredentials(secrets=(), service_account=account()),
            ),
            "same-account",
            False,
        ),
        (
            ask(
                with_secrets(secret()), PodCredentials(secrets=(secret("x", "y"),), service_account=account())
            ),
            "stranger",
            True,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_decision_follows_its_rule(decision: Decision, rule: str, must_pull: bool) -> None:
    """Each rule decides as the kubelet does, and says so in words."""
    assert (decision.rule, decision.must_pull) == (rule, must_pull)
    last = decision.reasons[-1]
    assert last.outcome == ("pull" if must_pull else "use")
    assert last.facts["rule"] == rule
    assert HASH not in repr(decision.reasons) + repr(decision)


def test_every_rule_is_tried_above() -> None:
    """The table has no hole but the one tested next."""
    marks = test_a_decision_follows_its_rule.pytestmark  # type: ignore[attr-defined]  # pytest's own mark
    tried = {case[1] for case in marks[0].args[1]}
    assert tried | {"no-credentials"} == set(RESULTS)


def test_an_error_of_the_pod_is_part_of_the_decision() -> None:
    """Credentials that cannot be found out make it a pull, and the error goes along."""
    error = EnvironmentProblem("no keyring")

    def fail() -> PodCredentials:
        raise error

    decision = ask(with_secrets(secret()), fail)
    assert (decision.must_pull, decision.rule, decision.error) == (True, "no-credentials", error)


def test_an_empty_hash_is_no_credential() -> None:
    """Two secrets whose hashes are unknown are not the same."""
    assert ask(with_secrets(secret("a", "")), PodCredentials(secrets=(secret("b", ""),))).must_pull


def test_the_hundredth_secret_ends_trust_in_changed_ones() -> None:
    """From a hundred on only the credential itself counts, and nothing is added."""
    many = with_secrets(*(secret(f"s{at}", f"h{at}") for at in range(100)))
    assert ask(many, PodCredentials(secrets=(secret("s5", "changed"),))).must_pull
    known = ask(many, PodCredentials(secrets=(secret("new", "h5"),)))
    assert (known.must_pull, known.addition) == (False, None)


@pytest.mark.parametrize(
    ("shown", "is_added"),
    [
        pytest.param(secret(), False, id="the recorded one"),
        pytest.param(secret("copy"), True, id="a copy with another name"),
        pytest.param(secret("s1", "new"), True, id="the same with a new password"),
        pytest.param(secret("s2"), False, id="recorded, after one with the same credential"),
    ],
)
def test_a_secret_is_added_to_the_record_if_it_is_new(shown: ImagePullSecret, is_added: bool) -> None:
    """So that the next pod with it is not compared with what has been replaced; nothing is written twice."""
    decision = ask(with_secrets(secret(), secret("s2")), PodCredentials(secrets=(shown,)))
    assert not decision.must_pull
    assert decision.addition == (with_secrets(shown) if is_added else None)


@pytest.mark.parametrize(
    ("shown", "is_told"),
    [
        pytest.param(secret("copy"), True, id="a copy with another name"),
        pytest.param(secret("s1", uid="another"), True, id="a new secret of the same name"),
        pytest.param(secret("s2"), False, id="recorded, after one with the same credential"),
        pytest.param(
            ImagePullSecret(uid="", namespace="ns", name="s2", credential_hash=HASH),
            False,
            id="from a file without a uid",
        ),
        pytest.param(secret("s1", "new"), False, id="the same with a new password"),
    ],
)
def test_only_a_secret_that_is_not_recorded_is_told_to_be_added(
    shown: ImagePullSecret, is_told: bool
) -> None:
    decision = ask(with_secrets(secret("s1"), secret("s2")), PodCredentials(secrets=(shown,)))
    (text,) = (reason.text for reason in decision.reasons if reason.stage == "credential")
    assert ("is added to the record" in text) is is_told


def test_a_record_of_another_image_is_told() -> None:
    """A file that names another image counts as absent, and the reasons say that it is there."""
    assert ask(lookup=FOREIGN).reasons[0].outcome == "foreign"


def credential(*, secret_ref: SecretRef | None = None, owner: ServiceAccountRef | None = None) -> Credential:
    return Credential(
        username="u",
        password="p",
        source=Source(kind=SourceKind.PROVIDER, name="", secret=secret_ref, service_account=owner),
        key="reg.example",
    )


def test_what_is_recorded_depends_on_the_source() -> None:
    """A secret and an account are named; anonymous and node-wide credentials let everybody in."""
    ref, owner = (
        SecretRef(namespace="ns", name="s", uid="uid"),
        ServiceAccountRef(namespace="ns", name="a", uid="uid"),
    )
    used = credentials_used(credential(secret_ref=ref))
    assert used.kubernetes_secrets[0].credential_hash == credential().hash
    assert credentials_used(credential(owner=owner)).kubernetes_service_accounts[0].name == "a"
    assert credentials_used(credential()) == credentials_used(None) == EVERYBODY


def test_of_several_accounts_the_first_counts() -> None:
    """As in the kubelet, only the first credential of an account is looked at."""
    owners = [credential(owner=ServiceAccountRef(namespace="ns", name=name, uid="uid")) for name in "ab"]
    shown = pod_credentials(owners)
    assert shown.service_account is not None
    assert shown.service_account.name == "a"


def test_the_name_in_the_record_is_not_normalised() -> None:
    """What was pulled as 'busybox' says nothing about 'docker.io/library/busybox'."""
    lookup = RecordLookup(record=record(name="busybox"))
    assert ask(lookup=lookup, image="busybox:1").rule == "everybody"
    assert ask(lookup=lookup, image="docker.io/library/busybox:1").rule == "other-name"
