"""Show what another verification policy would change."""

from __future__ import annotations

import argparse

from keyferry.cli.exits import Exit, most_severe
from keyferry.cli.frame.node_settings import node_policy, parse_policy
from keyferry.cli.records.arguments import (
    add_image_arguments,
    add_record_arguments,
    open_to_read,
    present_images,
    resolve_root,
)
from keyferry.cli.records.pods import read_uses
from keyferry.explain.document import decision_document
from keyferry.images.answer import distinct, missing_documents
from keyferry.pulls.node_settings import settings_of_root
from keyferry.pulls.records.access import (
    Change,
    NodeImages,
    PolicyEffect,
    UseOutcome,
    plan_policy,
    uses_without_credentials,
)
from keyferry.pulls.records.policy import DEFAULT, POLICIES
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report
from keyferry.workloads.request import Request, missing_lines

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
        "--pod",
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
    root = resolve_root(args)
    before = node_policy(args.from_policy, args.from_allow, root, args.node)
    images = present_images(args)
    records = open_to_read(args)
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
