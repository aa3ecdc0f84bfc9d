"""Must an image that is on the node be pulled again, to see whether this pod may use it? A function of values."""

from collections.abc import Callable, Iterable
from functools import cached_property

from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    ImagePullServiceAccount,
)
from keyferry.errors import ImageNameError, KeyferryError
from keyferry.images.keyring import Credential
from keyferry.images.reference import trim
from keyferry.pulls.records.lookups import RecordLookup
from keyferry.pulls.records.policy import PolicyVerdict, VerificationPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._core.reasons import Reason

_Named = ImagePullSecret | ImagePullServiceAccount | None
_Match = tuple[str, _Named, _Named, ImagePullCredentials | None]

__all__ = ["Decision", "PodCredentials", "Situation", "credentials_used", "decide", "pod_credentials"]

# From so many secrets on, the kubelet adds none while it decides.
MOST_ADDED = 100
ALLOWED, FOUND, AUTHENTICATE, ERROR = (
    "credentialPolicyAllowed",
    "credentialRecordFound",
    "mustAuthenticate",
    "error",
)
# Each rule by which a decision can be made, with the kubelet's word for it in its metric; the first is not counted.
RESULTS = {
    "absent": "",
    "unreadable": ERROR,
    "policy": ALLOWED,
    "no-record": AUTHENTICATE,
    "bad-name": ERROR,
    "other-name": AUTHENTICATE,
    "everybody": FOUND,
    "nobody": AUTHENTICATE,
    "no-credentials": ERROR,
    "same-credential": FOUND,
    "same-secret": FOUND,
    "same-account": FOUND,
    "stranger": AUTHENTICATE,
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
    rule: str
    situation: Situation
    policy: VerificationPolicy
    verdict: PolicyVerdict | None = None
    matched: ImagePullSecret | ImagePullServiceAccount | None = None
    shown: ImagePullSecret | ImagePullServiceAccount | None = None
    addition: ImagePullCredentials | None = field(default=None, repr=False)
    error: KeyferryError | None = None
    asked_pod: bool = False
    write_problem: KeyferryError | None = None

    @property
    def record(self) -> ImagePulledRecord | None:
        """The record that was read, if there is one."""
        return self.situation.lookup.record

    @property
    def result(self) -> str:
        """The kubelet's word for it in its metric; empty for an absent image, which is not counted."""
        return RESULTS[self.rule]

    @cached_property
    def reasons(self) -> "tuple[Reason, ...]":
        """Why: which record, which policy, which rule; no hash is in it."""
        from keyferry.pulls.records.reasons import reasons_for

        return reasons_for(self)


def decide(
    situation: Situation, policy: VerificationPolicy, get_credentials: Callable[[], PodCredentials]
) -> Decision:
    """Decide as the kubelet does; the pod's credentials are asked for only where they matter.

    That may run plugins. An error there is part of the decision.
    """
    if not situation.image_ref:
        return Decision(True, "absent", situation, policy)
    if situation.problem is not None or situation.lookup.failure is not None:
        return Decision(True, "unreadable", situation, policy)
    verdict = policy.judge(situation.image, pulled_by_kubelet=situation.pulled_by_kubelet)
    if not verdict.must_verify:
        return Decision(False, "policy", situation, policy, verdict)
    rule, entry = _find_entry(situation)
    if rule:
        return Decision(rule != "everybody", rule, situation, policy, verdict)
    try:
        pod = get_credentials()
    except KeyferryError as error:
        return Decision(True, "no-credentials", situation, policy, verdict, error=error, asked_pod=True)
    rule, matched, shown, addition = _compare(entry, pod)
    # By position: of all that is done here this is the dearest.
    return Decision(matched is None, rule, situation, policy, verdict, matched, shown, addition, None, True)


def _find_entry(situation: Situation) -> tuple[str, ImagePullCredentials]:
    """The rule that decides without asking the pod, or none and the entry to compare with."""
    nothing = ImagePullCredentials()
    record = situation.lookup.record
    if record is None:
        return "no-record", nothing
    try:
        name = trim(situation.image)
    except ImageNameError:
        return "bad-name", nothing
    entry = record.credential_mapping.get(name)
    if entry is None:
        return "other-name", nothing
    if entry.node_pods_accessible:
        return "everybody", entry
    return "nobody" if entry.is_empty else "", entry


def _compare(entry: ImagePullCredentials, pod: PodCredentials) -> _Match:
    """The first thing the pod shows that is recorded: the rule, both sides, and what to add to the record."""
    number = len(entry.kubernetes_secrets)
    for shown in pod.secrets:
        for recorded in entry.kubernetes_secrets:
            rule = _match(recorded, shown, number)
            if rule:
                return rule, recorded, shown, _addition(recorded, shown, number)
    account = pod.service_account
    if account is not None and account in entry.kubernetes_service_accounts:
        return "same-account", account, account, None
    return "stranger", None, None, None


def _match(recorded: ImagePullSecret, shown: ImagePullSecret, number: int) -> str:
    """By which rule one secret stands for another, if at all."""
    if recorded.credential_hash and recorded.credential_hash == shown.credential_hash:
        return "same-credential"
    # A rotated secret is trusted without a pull, but only while its new hash can still be recorded.
    if recorded.coordinates == shown.coordinates and number < MOST_ADDED:
        return "same-secret"
    return ""


def _addition(recorded: ImagePullSecret, shown: ImagePullSecret, number: int) -> ImagePullCredentials | None:
    if recorded == shown or number >= MOST_ADDED:
        return None
    return ImagePullCredentials((shown,))


def pod_credentials(credentials: Iterable[Credential]) -> PodCredentials:
    """What counts of the credentials a pod has for an image: those with a source of its own.

    The node's docker config and ordinary plugins serve everybody, so they show nothing. Of accounts the first counts.
    """
    secrets: list[ImagePullSecret] = []
    account: ImagePullServiceAccount | None = None
    for credential in credentials:
        secret, owner = credential.source.secret, credential.source.service_account
        if secret is not None:
            secrets.append(ImagePullSecret(secret.uid, secret.namespace, secret.name, credential.hash))
        if owner is not None and account is None:
            account = ImagePullServiceAccount(owner.uid, owner.namespace, owner.name)
    return PodCredentials(tuple(secrets), account)


def credentials_used(credential: Credential | None) -> ImagePullCredentials:
    """What is recorded of a pull that worked with *credential*, or without any."""
    if credential is None:
        return ImagePullCredentials(node_pods_accessible=True)
    shown = pod_credentials((credential,))
    if shown.secrets:
        return ImagePullCredentials(shown.secrets)
    if shown.service_account is not None:
        return ImagePullCredentials((), (shown.service_account,))
    return ImagePullCredentials(node_pods_accessible=True)
