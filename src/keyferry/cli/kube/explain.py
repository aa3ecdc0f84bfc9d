"""Explain why a context works or does not work, and what to do."""

from __future__ import annotations

from keyferry.cli.exits import Exit, exit_code
from keyferry.cli.options import add_output_argument, add_session_arguments
from keyferry.clusters.kubeconfig.choose import Overrides
from keyferry.clusters.kubeconfig.files import load_kubeconfig
from keyferry.clusters.kubeconfig.resolve import resolve
from keyferry.clusters.why.diagnosis import Diagnosis, diagnose
from keyferry.clusters.why.reasons import reasons_for
from keyferry.clusters.why.text import document, render
from keyferry.show.documents import render_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Explain why a context works or does not work. The first line says whether it does, and the cause if it does
not: the reason that the plugin gave, or how the server responded. What to do follows, then the steps that
matter, and all common mistakes that apply.

With -o wide it has every step: the files that are read, the chosen context, cluster and user, the plugin, its
path and whether the policy allows it, the plugin's response and standard error without secrets, and each of
the server's responses.

The plugin is run, without the terminal unless its interactiveMode is Always, and the server is asked for
your identity, unless --no-run is given. The exit code is 0 if the server accepts the credential, else that of
the step that failed."""

EXAMPLES = """\
examples:
  keyferry kube explain
  keyferry kube explain --context prod -o wide
  keyferry kube explain --context prod --no-run
  keyferry kube explain -o json | jq '.traps[].text'"""

FORMATS = ("table", "wide", "json", "yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry kube explain``."""
    add_output_argument(parser, FORMATS)
    parser.add_argument(
        "--no-run", action="store_true", help="do not run the plugin and do not contact the server"
    )
    parser.add_argument("--namespace", metavar="NAME", help="use this namespace instead of the context's")
    add_session_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Check every step, then print the explanation."""
    diagnosis = _diagnose(args)
    reasons = reasons_for(diagnosis)
    if args.output in ("table", "wide"):
        print(render(diagnosis, reasons, is_wide=args.output == "wide"))
    else:
        told = document(diagnosis, reasons)
        print(render_document(told, args.output))
    return _code(diagnosis)


def _diagnose(args: argparse.Namespace) -> Diagnosis:
    loaded = load_kubeconfig(args.kubeconfig)
    overrides = Overrides(
        context=args.context or "",
        cluster=args.cluster or "",
        user=args.user or "",
        namespace=args.namespace or "",
        proxy_url=args.proxy_url or "",
    )
    config = resolve(loaded, overrides)
    return diagnose(loaded, config, trust=args.trust, run=not args.no_run, timeout_seconds=args.timeout)


def _code(diagnosis: Diagnosis) -> Exit:
    if diagnosis.error is not None:
        return exit_code(diagnosis.error)
    return Exit.OK if diagnosis.review is None or diagnosis.is_accepted else Exit.REFUSED
