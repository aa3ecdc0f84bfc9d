"""Create, test, try, trace and install credential plugins."""

from __future__ import annotations

from keyferry.cli.run import Entry, add_subcommand, run_subcommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
For authors of credential plugins, in any language, for kubelets and for clusters.

  new      create a project for a new plugin, with tests that pass
  test     check in about fifty runs whether a plugin meets the rules of the kubelet or client-go
  try      try the whole chain from a service account to an image, and find the broken link
  trace    record one request and its response without secrets, for a bug report, or replay a recording
  install  install a plugin in the folder where a kubelet or kubectl finds it

'keyferry plugin SUBCOMMAND --help' shows the options of each."""

EXAMPLES = """\
examples:
  keyferry plugin new acme-registry
  keyferry plugin test ./acme-registry --image registry.acme.example/team/app
  keyferry plugin try 1234.dkr.ecr.eu-west-1.amazonaws.com/app:v1 --service-account shop/puller
  keyferry plugin trace ./acme-registry registry.acme.example/team/app --out trace.json
  keyferry plugin install ecr --bin-dir ./bin"""

# One module for each, so that a subcommand imports only its own code.
SUBCOMMANDS = {
    "new": Entry(module="keyferry.cli.plugin.new", summary="create a project for a new plugin"),
    "test": Entry(
        module="keyferry.cli.plugin.test", summary="check whether a plugin meets the rules of Kubernetes"
    ),
    "try": Entry(
        module="keyferry.cli.plugin.try_image",
        summary="try the whole chain from a service account to an image, link by link",
    ),
    "trace": Entry(
        module="keyferry.cli.plugin.trace",
        summary="record one request and its response without secrets, for a bug report",
    ),
    "install": Entry(
        module="keyferry.cli.plugin.install",
        summary="install a plugin in the folder where Kubernetes finds it",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run one subcommand; report its errors without a hint."""
    return run_subcommand(args, SUBCOMMANDS)
