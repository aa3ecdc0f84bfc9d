"""A decision in words: the record, the policy and the rule, in the order the kubelet goes about it."""

from collections.abc import Iterator

from keyferry._core.reasons import Reason
from keyferry.api.kubeletconfig.records import ImagePullCredentials
from keyferry.api.meta import format_instant
from keyferry.pulls.records.decide import MOST_ADDED, Decision
from keyferry.pulls.records.policy import PRELOADED

__all__ = ["describe_entry", "reasons_for"]

_POLICY = {
    "never": "nothing is verified, whoever pulled the image",
    "always": "every use of an image is verified",
    "pulled-by-kubelet": "the image was pulled by the kubelet, so its use is verified",
    "preloaded": "the image was not pulled by the kubelet but was there before, so it is free to use",
    "allowlisted": "a pattern of the allowlist covers the image, so it is free to use",
    "not-allowlisted": "no pattern of the allowlist covers the image, so its use is verified",
}
_RULES = {
    "absent": "the image is not on the node",
    "unreadable": "what is recorded cannot be believed, so the image is verified again, whatever the policy",
    "policy": "the policy asks for no verification",
    "no-record": "there is no record of who may use the image",
    "bad-name": "the image's name cannot be parsed, so nothing can be found under it",
    "other-name": "the image was pulled under other names only; what is recorded counts for one name each",
    "everybody": "it was pulled without a pod's own credentials, so every pod of the node may use it",
    "nobody": "the record names neither secrets nor accounts for this name",
    "no-credentials": "the pod's credentials could not be found out, which fails the container's start too",
    "same-credential": "the pod shows a credential that the image was pulled with",
    "same-secret": "the pod shows a secret that the image was pulled with; it was changed since, and is trusted",
    "same-account": "the pod runs as a service account that the image was pulled for",
    "stranger": "nothing that the pod shows is recorded for this name",
}


def reasons_for(decision: Decision) -> tuple[Reason, ...]:
    """Everything that led to *decision*; the stages are record, policy, credential and decision."""
    return (*_record(decision), *_policy(decision), *_credential(decision), _rule(decision))


def _record(decision: Decision) -> Iterator[Reason]:
    situation = decision.situation
    lookup = situation.lookup
    for problem in (situation.problem, lookup.problem):
        if problem is not None:
            outcome = getattr(problem, "cause", "error")
            yield Reason("record", situation.image_ref, outcome, str(problem), {"cause": outcome})
    if lookup.record is not None:
        yield _found(decision)
    elif situation.has_intent:
        text = "there is no record, but a pull of it was begun and not finished: it counts as the kubelet's"
        yield Reason("record", situation.image_ref, "intent", text, {"image": situation.image})
    elif situation.image_ref and situation.problem is None and lookup.problem is None:
        yield Reason("record", situation.image_ref, "none", "there is neither a record nor a pull under way")


def _found(decision: Decision) -> Reason:
    record = decision.situation.lookup.record
    assert record is not None  # noqa: S101 - asked by the caller
    names = sorted(record.credential_mapping)
    facts: dict[str, object] = {"lastUpdatedTime": format_instant(record.last_updated_ns), "names": names}
    text = f"recorded as pulled under {', '.join(map(repr, names)) or 'no name at all'}"
    return Reason("record", record.image_ref, "found", text, facts)


def _policy(decision: Decision) -> Iterator[Reason]:
    verdict = decision.verdict
    if verdict is None:
        return
    facts: dict[str, object] = {"policy": decision.policy.name, "rule": verdict.rule}
    if verdict.pattern:
        facts["pattern"] = verdict.pattern
    if decision.policy.name == PRELOADED:
        facts["pulledByKubelet"] = decision.situation.pulled_by_kubelet
    outcome = "verify" if verdict.must_verify else "free"
    yield Reason("policy", decision.policy.name, outcome, _POLICY[verdict.rule], facts)


def _credential(decision: Decision) -> Iterator[Reason]:
    if decision.error is not None:
        yield Reason("credential", decision.situation.image, "failed", str(decision.error))
    if decision.matched is None or decision.shown is None:
        return
    shown = "/".join(decision.shown.coordinates[:2])
    facts: dict[str, object] = {
        "recorded": dict(zip(("namespace", "name", "uid"), decision.matched.coordinates, strict=True)),
        "shown": dict(zip(("namespace", "name", "uid"), decision.shown.coordinates, strict=True)),
    }
    recorded = "/".join(decision.matched.coordinates[:2])
    kind = "account" if decision.rule == "same-account" else "secret"
    text = f"the pod's {kind} {shown} stands for the recorded {kind} {recorded}"
    if decision.addition is not None:
        text += f"; it is added to the record, which is done for up to {MOST_ADDED} secrets"
    yield Reason("credential", shown, decision.rule, text, facts)


def _rule(decision: Decision) -> Reason:
    outcome = "pull" if decision.must_pull else "use"
    does = "the image is pulled, to verify" if decision.must_pull else "the image is used as it is"
    facts: dict[str, object] = {"rule": decision.rule, "result": decision.result}
    return Reason("decision", decision.situation.image, outcome, f"{does}: {_RULES[decision.rule]}", facts)


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
