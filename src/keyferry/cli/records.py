"""Who may use the images of this node, as the kubelet remembers it."""

import argparse
import sys
from importlib import import_module
from types import ModuleType

from keyferry.cli.commands import Command, Exit, exit_code
from keyferry.errors import KeyferryError, PolicyError

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
    "list": Command("keyferry.cli.records_list", "every image with a record, and pulls under way"),
    "show": Command("keyferry.cli.records_show", "all that is recorded about one image"),
    "who": Command("keyferry.cli.records_who", "who may use an image on this node, and why"),
    "plan": Command("keyferry.cli.records_plan", "what another verification policy would change"),
    "prune": Command("keyferry.cli.records_prune", "remove the records of images that are gone"),
    "recover": Command("keyferry.cli.records_recover", "settle pulls whose process died"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand; what follows is for its own parser."""
    parser.add_argument(
        "subcommand", choices=SUBCOMMANDS, metavar="SUBCOMMAND", help=f"one of {', '.join(SUBCOMMANDS)}"
    )
    words = parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="...", help="its arguments and options"
    )
    words.required = False


def run(args: argparse.Namespace) -> int:
    """Run one subcommand; its errors are about records, and are reported as such."""
    module = import_module(SUBCOMMANDS[args.subcommand].module)
    options = _parser(args.subcommand, module).parse_args(args.words)
    try:
        return int(module.run(options))
    except KeyferryError as error:
        for line in str(error).splitlines() or [type(error).__name__]:
            print(f"keyferry: {line}", file=sys.stderr)
        # Here policies and patterns come from the command line alone.
        return Exit.USAGE if isinstance(error, PolicyError) else exit_code(error)


def _parser(name: str, module: ModuleType) -> argparse.ArgumentParser:
    from keyferry.cli.arguments import make_parser

    parser = make_parser(f"keyferry records {name}", module)
    module.add_arguments(parser)
    return parser
