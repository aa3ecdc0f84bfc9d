"""Decide whether an image on the node must be pulled again to verify that a pod may use it. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePullSecret, ImagePullServiceAccount
from keyferry.errors import ImageNameError, KeyferryError
from keyferry.images.keyring import Credential
from keyferry.images.reference import trim
from keyferry.pulls.records.decision import MOST_ADDED, Decision, DecisionRule, PodCredentials, Situation
from keyferry.pulls.records.policy import VerificationPolicy

_Named = ImagePullSecret | ImagePullServiceAccount | None
_Match = tuple[DecisionRule, _Named, _Named, ImagePullCredentials | None]

__all__ = ["credentials_used", "decide", "pod_credentials"]


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
    rule, matched, shown, addition = _compare(entry, pod)
    # Positional arguments, because the construction is the most expensive step here.
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


def _compare(entry: ImagePullCredentials, pod: PodCredentials) -> _Match:
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
    if recorded.coordinates == shown.coordinates and number < MOST_ADDED:
        return DecisionRule.SAME_SECRET
    return None


def _addition(entry: ImagePullCredentials, shown: ImagePullSecret) -> ImagePullCredentials | None:
    # Another recorded secret with the same credential may have matched before the pod's own.
    if shown in entry.kubernetes_secrets or len(entry.kubernetes_secrets) >= MOST_ADDED:
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
