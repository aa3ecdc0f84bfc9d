"""Record one request to a plugin and its response without secrets, or replay such a recording."""

from __future__ import annotations

import argparse
import os
import sys

from keyferry._core.gotext import go_strerror
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.plugin.arguments import add_plugin_arguments, make_plugin_under_test
from keyferry.cli.waiting import Waiting
from keyferry.errors import EnvironmentProblem
from keyferry.kit.trace import load_trace, record, replay, trace_text
from keyferry.show.documents import as_json
from keyferry.show.writer import Lines, report, write_exact

DESCRIPTION = """\
Run a plugin once and record the run for a bug report: the request, the command, the names of its variables,
its exit status, time, response and the end of its standard error, and how the kubelet or client-go would
handle and log the response. Secrets are replaced by placeholders that describe their form, such as "JWT, up to
1024 characters, ends in 3600 s". Read the file before you pass it on.

With --replay, the command replaces the plugin of such a file: it reads a request and responds as the plugin
did, with the same exit status and messages. To use it as the program of a provider, write two lines of shell:

  #!/bin/sh
  exec keyferry plugin trace --replay /path/to/trace.json"""

EXAMPLES = """\
examples:
  keyferry plugin trace ./my-plugin registry.example/team/app --out trace.json
  keyferry plugin trace ./my-plugin registry.example/team/app -o text -- --region eu
  keyferry plugin trace --kubeconfig ~/.kube/config --context prod
  keyferry plugin trace --replay trace.json < request.json

exit codes: 0 valid response; 1 no valid response; 2 wrong usage; 3 the plugin is missing or cannot be run;
with --replay, the recorded exit status"""

TAKES_REST = True
_FORMATS = ("json", "text")
_MODE = 0o600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry plugin trace``."""
    parser.add_argument("binary", nargs="?", metavar="BINARY", help="the plugin's executable")
    parser.add_argument(
        "image", nargs="?", metavar="IMAGE", help="the image of the request; only for image plugins"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=_FORMATS,
        default=_FORMATS[0],
        metavar="FORMAT",
        help="one of json, text (default: json)",
    )
    parser.add_argument("--out", metavar="FILE", help="write the trace to this file, which must not exist")
    parser.add_argument("--replay", metavar="FILE", help="respond as the plugin of this trace did")
    versions = "the version of the request, such as v1beta1 (default: that of the config, else v1)"
    add_plugin_arguments(parser, versions_help=versions)


def run(args: argparse.Namespace) -> int:
    """Record a trace, or replay one."""
    if args.replay:
        return _replay(args)
    if len(args.api_version) > 1:
        raise WrongUsage("--api-version is given more than once, but a trace has one request")
    plugin = make_plugin_under_test(args, (args.image,) if args.image else (), where="as IMAGE after BINARY")
    with Waiting(f"running {plugin.name}", plugin.timeout_seconds):
        trace = record(plugin)
    _write(trace_text(trace) if args.output == "text" else as_json(trace), args.out)
    verdict = trace["verdict"]
    return Exit.OK if isinstance(verdict, dict) and verdict["accepted"] else Exit.NO


def _replay(args: argparse.Namespace) -> int:
    if args.binary:
        raise WrongUsage("--replay replaces the plugin and cannot be combined with BINARY")
    repeated = replay(load_trace(args.replay))
    if sys.stdin is not None and not sys.stdin.isatty():
        sys.stdin.buffer.read()  # a plugin reads its request; the content does not matter here
    write_exact(repeated.stdout.encode("utf-8", "surrogateescape"))
    for line in repeated.stderr.splitlines(keepends=True):
        sys.stderr.write(line)
    return repeated.status


def _write(text: str, path: str | None) -> None:
    if path is None:
        print(Lines(text))
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(f"{path} cannot be written: {go_strerror(error)}") from None
    with open(fd, "w", encoding="utf-8") as stream:
        stream.write(text + "\n")
    report(f"wrote {path}; read it before you pass it on")
