"""What another verification policy would change."""

import argparse

from keyferry.cli.commands import Exit
from keyferry.cli.records_arguments import (
    add_image_arguments,
    add_record_arguments,
    open_to_read,
    present_images,
    print_document,
    report_problems,
)
from keyferry.cli.records_output import API_VERSION, decision_document
from keyferry.cli.records_pods import read_uses
from keyferry.pulls.access import Change, plan_policy, uses_of_strangers
from keyferry.pulls.policy import DEFAULT, POLICIES, make_policy
from keyferry.pulls.present import NodeImages

DESCRIPTION = """\
What another verification policy would change on this node: for each pod you name and each of its images,
whether the image is used as it is or must be pulled anew to verify the pod's credentials, now and then.
Without pods: for every recorded image, and a pod that can show nothing.

A pod's secrets and service account may follow it in its file, or stand in files of their own (--secret). An
account is taken to get credentials from its plugin. Which image a name means is looked up in --images; without
it, in the records, and an image without a record is taken to be there. Nothing is written and no plugin run.

Exit code 1 says that something would change."""

EXAMPLES = """\
examples:
  sudo keyferry records plan --policy AlwaysVerify
  kubectl get pod web -o yaml > web.yaml; kubectl get secret regcred -o yaml > secret.yaml
  sudo keyferry records plan --policy AlwaysVerify --pod web.yaml --secret secret.yaml
  sudo keyferry records plan --policy NeverVerifyAllowlistedImages --allow 'registry.k8s.io/*'"""

_HEADER = ("POD", "IMAGE", "NOW", "THEN", "CHANGE", "WHY")
_EFFECTS = {"same": "", "verified": "must pull", "free": "need not pull"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``keyferry records plan``."""
    group = parser.add_argument_group("policies, in the kubelet's words")
    _add_policy(group, "--policy", "--allow", "the policy to try", required=True)
    _add_policy(group, "--from-policy", "--from-allow", f"the policy of now (default: {DEFAULT})")
    group = parser.add_argument_group("which pods")
    group.add_argument(
        "--pod",
        metavar="FILE",
        action="append",
        default=[],
        help="a pod, as 'kubectl get pod -o yaml' prints it; may be repeated",
    )
    group.add_argument(
        "--secret",
        metavar="FILE",
        action="append",
        default=[],
        help="a pull secret of these pods, as 'kubectl get secret -o yaml' prints it; may be repeated",
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
        default=None if required else DEFAULT,
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
    """Plan it."""
    after = make_policy(args.policy, args.allow)
    before = make_policy(args.from_policy, args.from_allow)
    images = present_images(args)
    records = open_to_read(args)
    listing = records.list()
    report_problems(listing.problems)
    uses = read_uses(args.pod, args.secret) if args.pod else uses_of_strangers(listing.believed)
    changes = plan_policy(records, uses, NodeImages(listing.believed, images), before, after)
    if args.output == "table":
        _print_table(changes)
    else:
        document = {
            "apiVersion": API_VERSION,
            "kind": "PolicyPlan",
            "from": before.name,
            "to": after.name,
            "uses": [_use_document(change) for change in changes],
        }
        print_document(args, document)
    return Exit.NO if any(change.effect != "same" for change in changes) else Exit.OK


def _use_document(change: Change) -> dict[str, object]:
    return {
        "pod": change.use.pod,
        "image": change.use.image,
        "imageRef": change.image_ref,
        "effect": change.effect,
        "now": decision_document(change.before),
        "then": decision_document(change.after),
    }


def _print_table(changes: tuple[Change, ...]) -> None:
    from keyferry.cli.terminal import table

    rows = [
        (
            change.use.pod,
            change.use.image,
            "pull" if change.before.must_pull else "use",
            "pull" if change.after.must_pull else "use",
            _EFFECTS[change.effect],
            change.after.reasons[-1].text.partition(": ")[2],
        )
        for change in changes
    ]
    if rows:
        print(table(_HEADER, rows))
