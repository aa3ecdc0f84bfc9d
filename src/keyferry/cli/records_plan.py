"""Show what another verification policy would change: ``keyferry records plan``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from keyferry.api.kubeletconfig.records import ImagePullServiceAccount
from keyferry.cli.exits import Exit, most_severe
from keyferry.cli.node_options import node_policy, node_root, parse_policy
from keyferry.cli.records import add_image_arguments, add_record_arguments, present_images
from keyferry.errors import EnvironmentProblem, PullSecretError
from keyferry.explain.document import decision_document
from keyferry.images.answer import LookupInput, MissingInput, distinct, missing_documents
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.keyring import lookup_all
from keyferry.images.lookup import pull_secrets_keyring
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import normalise
from keyferry.pulls.node_settings import settings_of_root
from keyferry.pulls.records.access import (
    Change,
    ImageUse,
    NodeImages,
    PolicyEffect,
    UseOutcome,
    plan_policy,
    uses_without_credentials,
)
from keyferry.pulls.records.decide import PodCredentials, pod_credentials
from keyferry.pulls.records.policy import DEFAULT, POLICIES
from keyferry.pulls.records.records import inspect_records
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report
from keyferry.workloads.inputs import Sources
from keyferry.workloads.objects import KubernetesObject, ObjectKind, read_objects
from keyferry.workloads.pods import WorkloadPod, read_pod
from keyferry.workloads.request import Request, missing_lines
from keyferry.workloads.sources import sources_of

DESCRIPTION = """\
Show what another verification policy would change on this node. For each given pod and each of its images,
the plan shows under both policies whether the image is used at once or must be pulled again to verify the
pod's credentials. Without pods, it covers every recorded image and a pod without credentials.

A pod's secrets and service account may follow it in its file, or be in files of their own (--secret). The
plan assumes that plugins return credentials for the service account. Image names are looked up in --images or,
without it, in the records; then it is unknown whether an image without a record is present. Nothing is written
and no plugin is run.

Exit code 1 means that the policy changes something, 6 that the result is unknown: a secret or account of a
pod, or the list of the node's images, is missing."""

EXAMPLES = """\
examples:
  sudo keyferry records plan --policy AlwaysVerify
  kubectl get pod web -o yaml > web.yaml; kubectl get secret regcred -o yaml > secret.yaml
  sudo keyferry records plan --policy AlwaysVerify -f web.yaml --secret secret.yaml
  kubectl get pods,secrets,serviceaccounts -n shop -o yaml | sudo keyferry records plan --policy AlwaysVerify -f -
  sudo keyferry records plan --policy NeverVerifyAllowlistedImages --allow 'registry.k8s.io/*'"""

_HEADER = ("POD", "IMAGE", "NOW", "THEN", "CHANGE", "WHY")
_EFFECTS = {
    PolicyEffect.SAME: "",
    PolicyEffect.VERIFIED: "must pull",
    PolicyEffect.FREE: "need not pull",
    PolicyEffect.UNKNOWN: "unknown",
}
_CODES = {PolicyEffect.SAME: Exit.OK, PolicyEffect.UNKNOWN: Exit.UNKNOWN}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry records plan``."""
    group = parser.add_argument_group("policies, with the kubelet's names")
    _add_policy(group, "--policy", "--allow", "the policy to try", required=True)
    _add_policy(
        group, "--from-policy", "--from-allow", f"the current policy (default: the kubelet's, else {DEFAULT})"
    )
    group = parser.add_argument_group("pods")
    group.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        action="append",
        default=[],
        help="one or more pods, as printed by 'kubectl get pods -o yaml'; may be repeated",
    )
    group.add_argument(
        "--secret",
        metavar="FILE",
        action="append",
        default=[],
        help="a pull secret of these pods, as printed by 'kubectl get secret -o yaml'; may be repeated",
    )
    add_image_arguments(parser)
    add_record_arguments(parser)


def _add_policy(
    group: argparse._ArgumentGroup, policy: str, allow: str, what: str, *, required: bool = False
) -> None:
    group.add_argument(
        policy,
        choices=POLICIES,
        required=required,
        metavar="POLICY",
        help=f"{what}, one of {', '.join(POLICIES)}",
    )
    group.add_argument(
        allow,
        action="append",
        default=[],
        metavar="PATTERN",
        help="a pattern of its allowlist; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Print the plan, and return the exit code."""
    after = parse_policy(args.policy, args.allow)
    root = node_root(args.root, args.node)
    before = node_policy(args.from_policy, args.from_allow, root, args.node)
    images = present_images(args)
    records = inspect_records(root)
    listing = records.list()
    report(*listing.problems)
    uses = (
        read_uses(args.filename, args.secret) if args.filename else uses_without_credentials(listing.believed)
    )
    changes = plan_policy(records, uses, NodeImages(listing.believed, images), before, after)
    _report(args, root, changes)
    if args.output == "table":
        _print_table(changes)
    else:
        document = make_document(
            "PolicyPlan",
            **{"from": before.name},
            to=after.name,
            uses=[_use_document(change) for change in changes],
        )
        print(render_document(document, args.output))
    return most_severe(_CODES.get(change.effect, Exit.NO) for change in changes)


def _report(args: argparse.Namespace, root: str, changes: tuple[Change, ...]) -> None:
    """Report the missing inputs on standard error, with the options that give them."""
    if args.from_policy is None and settings_of_root(root, args.node) is None:
        message = f"the current policy is unknown, so the kubelet's default {DEFAULT} is used"
        report(f"{message}; set it with --from-policy")
    turned = (change.missing for change in changes if UseOutcome.UNKNOWN in (change.now, change.then))
    report(*missing_lines(distinct(*turned), Request()))


def _use_document(change: Change) -> dict[str, object]:
    return {
        "pod": change.use.pod,
        "image": change.use.image,
        "imageRef": change.image_ref,
        "effect": str(change.effect),
        "now": decision_document(change.before, change.missing),
        "then": decision_document(change.after, change.missing),
        "missing": missing_documents(change.missing),
    }


def _print_table(changes: tuple[Change, ...]) -> None:
    rows = [
        (
            change.use.pod,
            change.use.image,
            str(change.now),
            str(change.then),
            _EFFECTS[change.effect],
            _why(change),
        )
        for change in changes
    ]
    if rows:
        print(fitting_table(_HEADER, rows))


def _why(change: Change) -> str:
    if UseOutcome.UNKNOWN in (change.now, change.then):
        return "; ".join(map(str, change.missing))
    return change.after.summary


def read_uses(pods: Sequence[str], secrets: Sequence[str]) -> tuple[ImageUse, ...]:
    """Return every image of every pod in the files, with the pod's own secrets and account."""
    return tuple(use for path in pods for use in _read_file(path, secrets))


def _read_file(path: str, secrets: Sequence[str]) -> Iterator[ImageUse]:
    own = list(read_objects(path))
    objects = [*own, *(each for file in secrets for each in read_objects(file))]
    pods = [each for each in own if each.kind is ObjectKind.POD]
    if not pods:
        raise EnvironmentProblem(f"{path}: found no pod, expected at least one in each file")
    for pod in pods:
        yield from _uses_of(read_pod(pod), objects)


def _uses_of(workload: WorkloadPod, objects: Sequence[KubernetesObject]) -> Iterator[ImageUse]:
    """Yield every image of a pod, with its secrets and its account out of *objects*."""
    sources = sources_of(Request(), objects, workload)
    pod = workload.pod
    account = _account(sources, pod)
    unknown = MissingInput(
        input=LookupInput.SERVICE_ACCOUNT, name=f"{pod.namespace}/{pod.service_account_name}"
    )
    missing = (*sources.missing_secrets, *(() if account else (unknown,)))
    for image in workload.by_image:
        yield ImageUse(
            pod=f"{pod.namespace}/{pod.name}",
            image=image,
            credentials=_credentials(sources.pull_secrets, account, image),
            missing=missing,
        )


def _account(sources: Sources, pod: Pod) -> ImagePullServiceAccount | None:
    if sources.accounts is None:
        return None
    account = sources.accounts.get(pod.namespace, pod.service_account_name)
    if account.annotations is None:
        return None
    return ImagePullServiceAccount(uid=account.uid, namespace=pod.namespace, name=pod.service_account_name)


def _credentials(
    secrets: Sequence[PullSecret], account: ImagePullServiceAccount | None, image: str
) -> PodCredentials:
    try:
        keyrings = pull_secrets_keyring(secrets)
    except PullSecretError as error:
        raise EnvironmentProblem(str(error)) from None
    shown = pod_credentials(lookup_all(keyrings, normalise(image)))
    return PodCredentials(secrets=shown.secrets, service_account=account)
