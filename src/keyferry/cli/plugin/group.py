"""For authors of plugins: begin one, put it to the test, record what it says, install it."""

from keyferry.cli.frame.commands import Command
from keyferry.cli.frame.groups import add_subcommand, run_subcommand

TYPE_CHECKING = False  # spelled out: a start must not pay for typing, nor for argparse
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
For authors of credential plugins, in any language, for kubelets and for clusters.

  new      a project for a new plugin, whose tests pass at once
  test     is a plugin what the kubelet or client-go expects? some fifty runs, each judged as they would
  trace    one exchange without its secrets, for a bug report; and a stand-in that repeats it
  install  a reference plugin where a kubelet or kubectl looks for it

'keyferry plugin SUBCOMMAND --help' tells more."""

EXAMPLES = """\
examples:
  keyferry plugin new acme-registry
  keyferry plugin test ./acme-registry --image registry.acme.example/team/app
  keyferry plugin trace ./acme-registry registry.acme.example/team/app --out trace.json
  keyferry plugin install ecr --bin-dir ./bin"""

# Each is a module of its own, so that a subcommand pays for nothing but itself.
SUBCOMMANDS = {
    "new": Command("keyferry.cli.plugin.new", "a project for a new plugin"),
    "test": Command("keyferry.cli.plugin.test", "whether a plugin is what Kubernetes expects"),
    "trace": Command("keyferry.cli.plugin.trace", "one exchange without its secrets, for a bug report"),
    "install": Command("keyferry.cli.plugin.install", "a reference plugin where Kubernetes looks for it"),
}


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The subcommand; what follows is for its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: "argparse.Namespace") -> int:
    """Run one subcommand; its errors are about plugins, and are reported without more."""
    return run_subcommand("plugin", args, SUBCOMMANDS)
