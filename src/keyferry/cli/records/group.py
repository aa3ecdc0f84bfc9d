"""Who may use the images of this node, as the kubelet remembers it."""

from keyferry.cli.frame.commands import Command
from keyferry.cli.frame.groups import add_subcommand, run_subcommand

TYPE_CHECKING = False  # spelled out: a start must not pay for typing, nor for argparse
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Who may use the images of this node. A kubelet remembers whose credentials each image was pulled with
(since Kubernetes 1.35), in <root>/image_manager; an image that is there already is then used only by
pods that can show the same, or may be verified anew.

  list     every image with a record, who may use it, and pulls that were begun and not finished
  show     all that is recorded about one image
  who      who may use an image on this node, and why
  plan     what another verification policy would change, for pods you name
  prune    remove the records of images that are gone; only shows them unless you say --yes
  recover  settle pulls whose process died; only shows them unless you say --yes

Only 'prune --yes' and 'recover --yes' write. A file that somebody else could have made is never
believed; it is reported on standard error. 'keyferry lint <root>/image_manager' lists every
problem with a code."""

EXAMPLES = """\
examples:
  sudo keyferry records list
  sudo keyferry records who registry.example/team/app:v1
  sudo keyferry records plan --policy AlwaysVerify --pod pod.yaml
  crictl images -o json > images.json; sudo keyferry records prune --images images.json"""

# Each is a module of its own, so that a subcommand pays for nothing but itself.
SUBCOMMANDS = {
    "list": Command("keyferry.cli.records.list", "every image with a record, and pulls under way"),
    "show": Command("keyferry.cli.records.show", "all that is recorded about one image"),
    "who": Command("keyferry.cli.records.who", "who may use an image on this node, and why"),
    "plan": Command("keyferry.cli.records.plan", "what another verification policy would change"),
    "prune": Command("keyferry.cli.records.prune", "remove the records of images that are gone"),
    "recover": Command("keyferry.cli.records.recover", "settle pulls whose process died"),
}


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The subcommand; what follows is for its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: "argparse.Namespace") -> int:
    """Run one subcommand; its errors are about records, and are reported as such."""
    return run_subcommand("records", args, SUBCOMMANDS)
