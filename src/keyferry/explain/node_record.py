"""The image on a node and its pull record, as a debug pod saw them; whether the pod may use the image is decided here.

The node tells the rule that holds for a pod without credentials, and the record. Only a rule that depends on the pod's
credentials is decided again, with the caller's own secrets, which the node does not get.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.values import Value, replace
from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    ImagePullServiceAccount,
)
from keyferry.images.answer import Answer
from keyferry.images.reference import trim
from keyferry.pulls.records.decide import (
    Decision,
    DecisionRule,
    PodCredentials,
    Situation,
    compare_credentials,
    pod_credentials,
)
from keyferry.pulls.records.format import shorten
from keyferry.pulls.records.policy import POLICIES, VerificationPolicy
from keyferry.pulls.records.store import RecordLookup
from keyferry.workloads.node_reply import NodeReply, ReplyPart

__all__ = ["NodeImage", "decide_use", "read_node_image"]

_MAX_NAMES, _MAX_CREDENTIALS = 1000, 1000
# The rules by which the pod's credentials do not matter, and whether the image is pulled.
_SURE = {
    DecisionRule.ABSENT: True,
    DecisionRule.UNREADABLE: True,
    DecisionRule.POLICY: False,
    DecisionRule.NO_RECORD: True,
    DecisionRule.OTHER_NAME: True,
    DecisionRule.EVERYBODY: False,
    DecisionRule.NOBODY: True,
}


class NodeImage(Value):
    """The runtime's reference of the image on a node, empty if it is not there; its record, the rule and the policy."""

    image_ref: str
    rule: DecisionRule
    policy: str
    record: ImagePulledRecord | None = None


def read_node_image(access: NodeReply, records: NodeReply) -> NodeImage | None:
    """Return what two replies tell; None if the node's runtime or its records could not be asked."""
    if access.problem:
        return None
    document = ReplyPart(access.document, f"the answer of {access.through.noun} {access.pod}")
    if not document.has("access"):
        return None
    found = document.part("access")
    rule, policy = found.text("rule"), found.text("policy")
    found.check(rule in tuple(DecisionRule), "rule", "expected the rule of a decision")
    found.check(policy in POLICIES, "policy", "expected the name of a policy")
    ref = found.text("imageRef")
    record = None if records.problem else _record(records, ref)
    return NodeImage(image_ref=ref, rule=DecisionRule(rule), policy=policy, record=record)


def decide_use(image: NodeImage, answer: Answer) -> Decision | None:
    """Return whether the pod may use the image without a pull; None if that is not known."""
    situation = Situation(
        image=answer.image, image_ref=image.image_ref, lookup=RecordLookup(record=image.record)
    )
    policy = VerificationPolicy(name=image.policy)
    must_pull = _SURE.get(image.rule)
    if must_pull is not None:
        return Decision(must_pull=must_pull, rule=image.rule, situation=situation, policy=policy)
    entry = None if image.record is None else image.record.credential_mapping.get(trim(answer.image))
    if entry is None:
        return None
    rule, matched, shown, _ = compare_credentials(entry, _shortened(pod_credentials(answer.credentials)))
    return Decision(
        must_pull=matched is None, rule=rule, situation=situation, policy=policy, matched=matched, shown=shown
    )


def _shortened(pod: PodCredentials) -> PodCredentials:
    """Return the pod's credentials with hashes as short as those that a node tells."""
    secrets = (replace(each, credential_hash=shorten(each.credential_hash)) for each in pod.secrets)
    return replace(pod, secrets=tuple(secrets))


def _record(reply: NodeReply, image_ref: str) -> ImagePulledRecord | None:
    document = ReplyPart(reply.document, f"the answer of {reply.through.noun} {reply.pod}")
    for part in document.parts("records", _MAX_NAMES):
        if part.text("imageRef") == image_ref:
            names = {each.text("name"): _entry(each) for each in part.parts("names", _MAX_NAMES)}
            return ImagePulledRecord(image_ref=image_ref, credential_mapping=names)
    return None


def _entry(part: ReplyPart) -> ImagePullCredentials:
    return ImagePullCredentials(
        kubernetes_secrets=tuple(_secrets(part)),
        kubernetes_service_accounts=tuple(_accounts(part)),
        node_pods_accessible=part.is_true("everyPodOfTheNode"),
    )


def _secrets(part: ReplyPart) -> Iterator[ImagePullSecret]:
    for each in part.parts("secrets", _MAX_CREDENTIALS):
        yield ImagePullSecret(
            uid=each.text("uid"),
            namespace=each.text("namespace"),
            name=each.text("name"),
            credential_hash=each.text("credentialHash"),
        )


def _accounts(part: ReplyPart) -> Iterator[ImagePullServiceAccount]:
    for each in part.parts("serviceAccounts", _MAX_CREDENTIALS):
        yield ImagePullServiceAccount(
            uid=each.text("uid"), namespace=each.text("namespace"), name=each.text("name")
        )
