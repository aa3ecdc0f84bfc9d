"""A decision about an image that is on the node, and the same in words: the record, the policy and the rule."""

from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    ImagePullServiceAccount,
)
from keyferry.api.meta import format_instant
from keyferry.errors import KeyferryError, Kind, RecordError
from keyferry.pulls.records.lookups import RecordLookup
from keyferry.pulls.records.policy import PRELOADED, PolicyRule, PolicyVerdict, VerificationPolicy

__all__ = ["MOST_ADDED", "Decision", "DecisionRule", "PodCredentials", "Situation", "describe_entry"]

# From so many secrets on, the kubelet adds none while it decides.
MOST_ADDED = 100
ALLOWED, FOUND, AUTHENTICATE, ERROR = (
    "credentialPolicyAllowed",
    "credentialRecordFound",
    "mustAuthenticate",
    "error",
)


class DecisionRule(StrEnum):
    """By which rule it is decided whether an image is pulled."""

    ABSENT = "absent"
    UNREADABLE = "unreadable"
    POLICY = "policy"
    NO_RECORD = "no-record"
    BAD_NAME = "bad-name"
    OTHER_NAME = "other-name"
    EVERYBODY = "everybody"
    NOBODY = "nobody"
    NO_CREDENTIALS = "no-credentials"
    SAME_CREDENTIAL = "same-credential"
    SAME_SECRET = "same-secret"  # noqa: S105 - a word for a rule
    SAME_ACCOUNT = "same-account"
    STRANGER = "stranger"


# Each rule by which a decision can be made, with the kubelet's word for it in its metric; the first is not counted.
RESULTS = {
    DecisionRule.ABSENT: "",
    DecisionRule.UNREADABLE: ERROR,
    DecisionRule.POLICY: ALLOWED,
    DecisionRule.NO_RECORD: AUTHENTICATE,
    DecisionRule.BAD_NAME: ERROR,
    DecisionRule.OTHER_NAME: AUTHENTICATE,
    DecisionRule.EVERYBODY: FOUND,
    DecisionRule.NOBODY: AUTHENTICATE,
    DecisionRule.NO_CREDENTIALS: ERROR,
    DecisionRule.SAME_CREDENTIAL: FOUND,
    DecisionRule.SAME_SECRET: FOUND,
    DecisionRule.SAME_ACCOUNT: FOUND,
    DecisionRule.STRANGER: AUTHENTICATE,
}
_POLICY = {
    PolicyRule.NEVER: "nothing is verified, whoever pulled the image",
    PolicyRule.ALWAYS: "every use of an image is verified",
    PolicyRule.PULLED_BY_KUBELET: "the image was pulled by the kubelet, so its use is verified",
    PolicyRule.PRELOADED: "the image was not pulled by the kubelet but was there before, so it is free to use",
    PolicyRule.ALLOWLISTED: "a pattern of the allowlist covers the image, so it is free to use",
    PolicyRule.NOT_ALLOWLISTED: "no pattern of the allowlist covers the image, so its use is verified",
}
_RULES = {
    DecisionRule.ABSENT: "the image is not on the node",
    DecisionRule.UNREADABLE: "what is recorded cannot be believed, so the image is verified again, whatever the policy",
    DecisionRule.POLICY: "the policy asks for no verification",
    DecisionRule.NO_RECORD: "there is no record of who may use the image",
    DecisionRule.BAD_NAME: "the image's name cannot be parsed, so nothing can be found under it",
    DecisionRule.OTHER_NAME: "the image was pulled under other names only; what is recorded counts for one name each",
    DecisionRule.EVERYBODY: "it was pulled without a pod's own credentials, so every pod of the node may use it",
    DecisionRule.NOBODY: "the record names neither secrets nor accounts for this name",
    DecisionRule.NO_CREDENTIALS: "the pod's credentials could not be found out, which fails the container's start too",
    DecisionRule.SAME_CREDENTIAL: "the pod shows a credential that the image was pulled with",
    DecisionRule.SAME_SECRET: (
        "the pod shows a secret that the image was pulled with; it was changed since, and is trusted"
    ),
    DecisionRule.SAME_ACCOUNT: "the pod runs as a service account that the image was pulled for",
    DecisionRule.STRANGER: "nothing that the pod shows is recorded for this name",
}


class PodCredentials(Value):
    """What a pod can show for itself: its pull secrets, and the account that a plugin gave credentials for."""

    secrets: tuple[ImagePullSecret, ...] = ()
    service_account: ImagePullServiceAccount | None = None


class Situation(Value):
    """What is known of an image before its pod is asked: its record, and whether a pull of it was begun."""

    image: str
    image_ref: str
    lookup: RecordLookup = RecordLookup()
    has_intent: bool = False
    problem: KeyferryError | None = None

    @property
    def pulled_by_kubelet(self) -> bool:
        """Whether it came here by a pull that was recorded, finished or not."""
        return self.lookup.exists or self.has_intent


class Decision(Value):
    """Whether to pull, by which *rule*, and everything that led there.

    *matched* is the recorded secret or account that let the pod in, *shown* what the pod showed for it.
    *addition* is what was to be added to the record, *write_problem* why it could not be. An *error* also fails
    the start of the container.
    """

    must_pull: bool
    rule: DecisionRule
    situation: Situation
    policy: VerificationPolicy
    verdict: PolicyVerdict | None = None
    matched: ImagePullSecret | ImagePullServiceAccount | None = None
    shown: ImagePullSecret | ImagePullServiceAccount | None = None
    addition: ImagePullCredentials | None = field(default=None, repr=False)
    error: KeyferryError | None = None
    write_problem: KeyferryError | None = None

    @property
    def record(self) -> ImagePulledRecord | None:
        """The record that was read, if there is one."""
        return self.situation.lookup.record

    @property
    def result(self) -> str:
        """The kubelet's word for it in its metric; empty for an absent image, which is not counted."""
        return RESULTS[self.rule]

    @property
    def summary(self) -> str:
        """The rule in words, without what is done about it."""
        return _RULES[self.rule]

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """Why, in the order the kubelet goes about it: record, policy, credential, decision; no hash is in it."""
        return (*_record(self), *_policy(self), *_credential(self), _rule(self))


def _record(decision: Decision) -> Iterator[Reason]:
    situation = decision.situation
    lookup = situation.lookup
    for problem in (situation.problem, lookup.problem):
        if problem is not None:
            outcome = str(problem.kind if isinstance(problem, RecordError) else Kind.ERROR)
            yield _reason(ReasonStage.RECORD, situation.image_ref, outcome, str(problem), {"cause": outcome})
    if lookup.record is not None:
        yield _found(decision)
    elif situation.has_intent:
        text = "there is no record, but a pull of it was begun and not finished: it counts as the kubelet's"
        yield _reason(
            ReasonStage.RECORD, situation.image_ref, ReasonOutcome.INTENT, text, {"image": situation.image}
        )
    elif situation.image_ref and situation.problem is None and lookup.problem is None:
        yield _reason(
            ReasonStage.RECORD,
            situation.image_ref,
            ReasonOutcome.NONE,
            "there is neither a record nor a pull under way",
        )


def _found(decision: Decision) -> Reason:
    record = decision.situation.lookup.record
    assert record is not None  # noqa: S101 - asked by the caller
    names = sorted(record.credential_mapping)
    facts: dict[str, object] = {"lastUpdatedTime": format_instant(record.last_updated_ns), "names": names}
    text = f"recorded as pulled under {', '.join(map(repr, names)) or 'no name at all'}"
    return _reason(ReasonStage.RECORD, record.image_ref, ReasonOutcome.FOUND, text, facts)


def _policy(decision: Decision) -> Iterator[Reason]:
    verdict = decision.verdict
    if verdict is None:
        return
    facts: dict[str, object] = {"policy": decision.policy.name, "rule": str(verdict.rule)}
    if verdict.pattern:
        facts["pattern"] = verdict.pattern
    if decision.policy.name == PRELOADED:
        facts["pulledByKubelet"] = decision.situation.pulled_by_kubelet
    outcome = ReasonOutcome.VERIFY if verdict.must_verify else ReasonOutcome.FREE
    yield _reason(ReasonStage.POLICY, decision.policy.name, outcome, _POLICY[verdict.rule], facts)


def _credential(decision: Decision) -> Iterator[Reason]:
    if decision.error is not None:
        yield _reason(
            ReasonStage.CREDENTIAL, decision.situation.image, ReasonOutcome.FAILED, str(decision.error)
        )
    if decision.matched is None or decision.shown is None:
        return
    shown = "/".join(decision.shown.coordinates[:2])
    facts: dict[str, object] = {
        "recorded": dict(zip(("namespace", "name", "uid"), decision.matched.coordinates, strict=True)),
        "shown": dict(zip(("namespace", "name", "uid"), decision.shown.coordinates, strict=True)),
    }
    recorded = "/".join(decision.matched.coordinates[:2])
    kind = "account" if decision.rule is DecisionRule.SAME_ACCOUNT else "secret"
    text = f"the pod's {kind} {shown} stands for the recorded {kind} {recorded}"
    if decision.addition is not None:
        text += f"; it is added to the record, which is done for up to {MOST_ADDED} secrets"
    yield _reason(ReasonStage.CREDENTIAL, shown, decision.rule, text, facts)


def _rule(decision: Decision) -> Reason:
    outcome = ReasonOutcome.PULL if decision.must_pull else ReasonOutcome.USE
    does = "the image is pulled, to verify" if decision.must_pull else "the image is used as it is"
    facts: dict[str, object] = {"rule": str(decision.rule), "result": decision.result}
    text = f"{does}: {decision.summary}"
    return _reason(ReasonStage.DECISION, decision.situation.image, outcome, text, facts)


def describe_entry(entry: ImagePullCredentials) -> str:
    """Who may use an image under one name, in a few words."""
    if entry.node_pods_accessible:
        return "every pod of the node"
    parts = [
        _count(len(entry.kubernetes_secrets), "secret"),
        _count(len(entry.kubernetes_service_accounts), "service account"),
    ]
    return " and ".join(part for part in parts if part) or "nobody"


def _count(number: int, noun: str) -> str:
    return "" if not number else f"{number} {noun}" + ("s" if number > 1 else "")


def _reason(
    stage: ReasonStage, subject: str, outcome: str, text: str, facts: dict[str, object] | None = None
) -> Reason:
    return Reason(stage, subject, outcome, text, facts or {})
