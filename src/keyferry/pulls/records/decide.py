"""Decide whether an image on the node must be pulled again to verify that a pod may use it, and explain why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from keyferry.errors import ImageNameError, KeyferryError, Kind, RecordError
from keyferry.images.keyring import Credential
from keyferry.images.reference import trim
from keyferry.pulls.records.policy import PRELOADED, PolicyRule, PolicyVerdict, VerificationPolicy
from keyferry.pulls.records.store import RecordLookup

_Named = ImagePullSecret | ImagePullServiceAccount | None

# If an entry has this many secrets, the kubelet adds none during a decision.
MAX_ADDED = 100
ALLOWED, FOUND, AUTHENTICATE, ERROR = (
    "credentialPolicyAllowed",
    "credentialRecordFound",
    "mustAuthenticate",
    "error",
)
_POLICY = {
    PolicyRule.NEVER: "no use of an image is verified",
    PolicyRule.ALWAYS: "every use of an image is verified",
    PolicyRule.PULLED_BY_KUBELET: "the image was pulled by the kubelet, so its use is verified",
    PolicyRule.PRELOADED: "the image was not pulled by the kubelet but preloaded, so its use is not verified",
    PolicyRule.ALLOWLISTED: "a pattern of the allowlist matches the image, so its use is not verified",
    PolicyRule.NOT_ALLOWLISTED: "no pattern of the allowlist matches the image, so its use is verified",
}


class DecisionRule(StrEnum):
    """The rule that decides whether an image is pulled."""

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


# The label of each rule in the kubelet's metric; an absent image is not counted.
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
_RULES = {
    DecisionRule.ABSENT: "the image is not on the node",
    DecisionRule.UNREADABLE: "the record cannot be trusted, so the image is verified again under every policy",
    DecisionRule.POLICY: "the policy requires no verification",
    DecisionRule.NO_RECORD: "there is no record of who may use the image",
    DecisionRule.BAD_NAME: "the image's name cannot be parsed, so there is no record for it",
    DecisionRule.OTHER_NAME: "the image was pulled under other names only, and each entry of a record is for one name",
    DecisionRule.EVERYBODY: "it was pulled without a pod's own credentials, so every pod of the node may use it",
    DecisionRule.NOBODY: "the record names neither secrets nor accounts for this name",
    DecisionRule.NO_CREDENTIALS: "the pod's credentials could not be determined, so the container's start fails too",
    DecisionRule.SAME_CREDENTIAL: "the pod has a credential that the image was pulled with",
    DecisionRule.SAME_SECRET: (
        "the pod has a secret that the image was pulled with; it has changed since then, and is trusted"
    ),
    DecisionRule.SAME_ACCOUNT: "the pod runs as a service account that the image was pulled for",
    DecisionRule.STRANGER: "none of the pod's credentials is recorded for this name",
}


class PodCredentials(Value):
    """The credentials of a pod: its pull secrets, and the service account that a plugin gave credentials for."""

    secrets: tuple[ImagePullSecret, ...] = ()
    service_account: ImagePullServiceAccount | None = None


class Situation(Value):
    """The state of an image, without the pod's credentials: its record, and whether a pull of it was begun."""

    image: str
    image_ref: str
    lookup: RecordLookup = RecordLookup()
    has_intent: bool = False
    problem: KeyferryError | None = None

    @property
    def pulled_by_kubelet(self) -> bool:
        """Whether a pull of the image was recorded, finished or not."""
        return self.lookup.exists or self.has_intent


class Decision(Value):
    """The decision whether to pull an image, the *rule* that made it, and the values it is based on.

    *matched* is the recorded secret or account that allows the use, *shown* the pod's one that matches it. *addition*
    are the credentials to add to the record, *write_problem* is the error that prevented that. An *error* also fails
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
        """The record of the image, or None."""
        return self.situation.lookup.record

    @property
    def result(self) -> str:
        """The label in the kubelet's metric; empty for an absent image, which is not counted."""
        return RESULTS[self.rule]

    @property
    def summary(self) -> str:
        """The rule as a sentence, without its consequence."""
        return _RULES[self.rule]

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons in the kubelet's order: record, policy, credential, decision; they contain no hashes."""
        return (*_record(self), *_policy(self), *_credential(self), _rule(self))


def decide(
    situation: Situation, policy: VerificationPolicy, get_credentials: Callable[[], PodCredentials]
) -> Decision:
    """Decide as the kubelet does; *get_credentials*, which may run plugins, is called only if they matter.

    A KeyferryError of *get_credentials* becomes part of the decision.
    """
    if not situation.image_ref:
        return Decision(must_pull=True, rule=DecisionRule.ABSENT, situation=situation, policy=policy)
    if situation.problem is not None or situation.lookup.failure is not None:
        return Decision(must_pull=True, rule=DecisionRule.UNREADABLE, situation=situation, policy=policy)
    verdict = policy.judge(situation.image, pulled_by_kubelet=situation.pulled_by_kubelet)
    if not verdict.must_verify:
        return Decision(
            must_pull=False, rule=DecisionRule.POLICY, situation=situation, policy=policy, verdict=verdict
        )
    rule, entry = _find_entry(situation)
    if rule is not None:
        return Decision(
            must_pull=rule is not DecisionRule.EVERYBODY,
            rule=rule,
            situation=situation,
            policy=policy,
            verdict=verdict,
        )
    try:
        pod = get_credentials()
    except KeyferryError as error:
        return Decision(
            must_pull=True,
            rule=DecisionRule.NO_CREDENTIALS,
            situation=situation,
            policy=policy,
            verdict=verdict,
            error=error,
        )
    rule, matched, shown, addition = compare_credentials(entry, pod)
    return Decision(
        must_pull=matched is None,
        rule=rule,
        situation=situation,
        policy=policy,
        verdict=verdict,
        matched=matched,
        shown=shown,
        addition=addition,
    )


def _find_entry(situation: Situation) -> tuple[DecisionRule | None, ImagePullCredentials]:
    """Return the rule that decides without the pod's credentials, or None, and the entry to compare them with."""
    nothing = ImagePullCredentials()
    record = situation.lookup.record
    if record is None:
        return DecisionRule.NO_RECORD, nothing
    try:
        name = trim(situation.image)
    except ImageNameError:
        return DecisionRule.BAD_NAME, nothing
    entry = record.credential_mapping.get(name)
    if entry is None:
        return DecisionRule.OTHER_NAME, nothing
    if entry.node_pods_accessible:
        return DecisionRule.EVERYBODY, entry
    return DecisionRule.NOBODY if entry.is_empty else None, entry


def compare_credentials(
    entry: ImagePullCredentials, pod: PodCredentials
) -> tuple[DecisionRule, _Named, _Named, ImagePullCredentials | None]:
    """Return the first match of the pod's credentials with the entry.

    It consists of the rule, the recorded and the pod's credential, and the credentials to add to the record.
    """
    number = len(entry.kubernetes_secrets)
    for shown in pod.secrets:
        for recorded in entry.kubernetes_secrets:
            rule = _match(recorded, shown, number)
            if rule is not None:
                return rule, recorded, shown, _addition(entry, shown)
    account = pod.service_account
    if account is not None and account in entry.kubernetes_service_accounts:
        return DecisionRule.SAME_ACCOUNT, account, account, None
    return DecisionRule.STRANGER, None, None, None


def _match(recorded: ImagePullSecret, shown: ImagePullSecret, number: int) -> DecisionRule | None:
    """Return the rule by which a pod's secret matches a recorded one, or None."""
    if recorded.credential_hash and recorded.credential_hash == shown.credential_hash:
        return DecisionRule.SAME_CREDENTIAL
    # A rotated secret is trusted without a pull, but only if its new hash can still be recorded.
    if recorded.coordinates == shown.coordinates and number < MAX_ADDED:
        return DecisionRule.SAME_SECRET
    return None


def _addition(entry: ImagePullCredentials, shown: ImagePullSecret) -> ImagePullCredentials | None:
    # Another recorded secret with the same credential may have matched before the pod's own.
    if shown in entry.kubernetes_secrets or len(entry.kubernetes_secrets) >= MAX_ADDED:
        return None
    return ImagePullCredentials(kubernetes_secrets=(shown,))


def pod_credentials(credentials: Iterable[Credential]) -> PodCredentials:
    """Return the secrets and the service account among the credentials that a pod has for an image.

    Credentials of the node's docker config and of ordinary plugins are available to every pod, and are left out. If
    there are several service accounts, the first counts.
    """
    secrets: list[ImagePullSecret] = []
    account: ImagePullServiceAccount | None = None
    for credential in credentials:
        secret, owner = credential.source.secret, credential.source.service_account
        if secret is not None:
            secrets.append(
                ImagePullSecret(
                    uid=secret.uid,
                    namespace=secret.namespace,
                    name=secret.name,
                    credential_hash=credential.hash,
                )
            )
        if owner is not None and account is None:
            account = ImagePullServiceAccount(uid=owner.uid, namespace=owner.namespace, name=owner.name)
    return PodCredentials(secrets=tuple(secrets), service_account=account)


def credentials_used(credential: Credential | None) -> ImagePullCredentials:
    """Return the entry to record for a pull that succeeded with *credential*, None for an anonymous one."""
    if credential is None:
        return ImagePullCredentials(node_pods_accessible=True)
    shown = pod_credentials((credential,))
    if shown.secrets:
        return ImagePullCredentials(kubernetes_secrets=shown.secrets)
    if shown.service_account is not None:
        return ImagePullCredentials(
            kubernetes_secrets=(), kubernetes_service_accounts=(shown.service_account,)
        )
    return ImagePullCredentials(node_pods_accessible=True)


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
        text = (
            "there is no record, but a pull was begun and not finished, so it counts as pulled by the kubelet"
        )
        yield _reason(
            ReasonStage.RECORD, situation.image_ref, ReasonOutcome.INTENT, text, {"image": situation.image}
        )
    elif situation.image_ref and situation.problem is None and lookup.problem is None:
        yield _reason(
            ReasonStage.RECORD,
            situation.image_ref,
            ReasonOutcome.NONE,
            "there is neither a record nor an unfinished pull",
        )


def _found(decision: Decision) -> Reason:
    record = decision.situation.lookup.record
    assert record is not None  # noqa: S101 - checked by the caller
    names = sorted(record.credential_mapping)
    facts: dict[str, object] = {"lastUpdatedTime": format_instant(record.last_updated_ns), "names": names}
    text = f"recorded as pulled under {', '.join(map(repr, names)) or 'no name'}"
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
    text = f"the pod's {kind} {shown} matches the recorded {kind} {recorded}"
    if decision.addition is not None:
        text += "".join(_describe_addition(decision, each) for each in decision.addition.kubernetes_secrets)
    yield _reason(ReasonStage.CREDENTIAL, shown, decision.rule, text, facts)


def _describe_addition(decision: Decision, shown: ImagePullSecret) -> str:
    """Return what the kubelet writes into the record; nothing for a secret that is there already."""
    record = decision.record
    entry = None if record is None else record.credential_mapping.get(trim(decision.situation.image))
    # A secret from a file that was written by hand has no UID.
    known = [
        each
        for each in (entry.kubernetes_secrets if entry is not None else ())
        if each.coordinates[:2] == shown.coordinates[:2] and shown.uid in ("", each.uid)
    ]
    if not known:
        return f"; it is added to the record, which takes up to {MAX_ADDED} secrets this way"
    if any(each.credential_hash == shown.credential_hash for each in known):
        return ""
    return "; the record takes the secret's present hash"


def _rule(decision: Decision) -> Reason:
    outcome = ReasonOutcome.PULL if decision.must_pull else ReasonOutcome.USE
    does = "the image must be pulled" if decision.must_pull else "the image is used without a pull"
    facts: dict[str, object] = {"rule": str(decision.rule), "result": decision.result}
    text = f"{does}: {decision.summary}"
    return _reason(ReasonStage.DECISION, decision.situation.image, outcome, text, facts)


def describe_entry(entry: ImagePullCredentials) -> str:
    """Return a short text that names which pods may use an image under one name."""
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
    return Reason(stage=stage, subject=subject, outcome=outcome, text=text, facts=facts or {})
