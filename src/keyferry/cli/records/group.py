"""Show and maintain the kubelet's records of who may use the node's images."""

from __future__ import annotations

from keyferry.cli.hints import absent_files_hint
from keyferry.cli.run import Entry, add_subcommand, run_subcommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Show and maintain the records of who may use the images of this node. Since Kubernetes 1.35, a kubelet records
in <root>/image_manager which credentials each image was pulled with. An image that is already present is then
used only by pods with the same credentials; for other pods the kubelet pulls it again to verify their access.

  list     list the recorded images, who may use them, and unfinished pulls
  show     show all records of one image
  who      show who may use an image on this node, and why
  plan     show what another verification policy would change, for given pods
  prune    remove the records of images that are no longer present; without --yes, only list them
  recover  complete the records of pulls whose process died; without --yes, only list them

Only 'prune --yes' and 'recover --yes' write. A file that another user could have written is never used; it
is reported on standard error. 'keyferry lint <root>/image_manager' lists every problem with a code."""

EXAMPLES = """\
examples:
  sudo keyferry records list
  sudo keyferry records who registry.example/team/app:v1
  sudo keyferry records plan --policy AlwaysVerify --pod pod.yaml
  crictl images -o json > images.json; sudo keyferry records prune --images images.json"""

# One module for each, so that a subcommand imports only its own code.
SUBCOMMANDS = {
    "list": Entry(
        module="keyferry.cli.records.list", summary="list the recorded images and unfinished pulls"
    ),
    "show": Entry(module="keyferry.cli.records.show", summary="show all records of one image"),
    "who": Entry(
        module="keyferry.cli.records.who", summary="show who may use an image on this node, and why"
    ),
    "plan": Entry(
        module="keyferry.cli.records.plan", summary="show what another verification policy would change"
    ),
    "prune": Entry(
        module="keyferry.cli.records.prune", summary="remove the records of images that are no longer present"
    ),
    "recover": Entry(
        module="keyferry.cli.records.recover", summary="complete the records of pulls whose process died"
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run one subcommand."""
    return run_subcommand("records", args, SUBCOMMANDS, lambda _, given: absent_files_hint(given))
