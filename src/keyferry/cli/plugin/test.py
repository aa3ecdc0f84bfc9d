"""Check whether a plugin, in any language, meets the rules of the kubelet or client-go."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable

from keyferry._core.gotext import go_strerror
from keyferry._core.severity import SEVERITIES, Severity, is_failure
from keyferry._core.values import replace
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.options import add_output_argument
from keyferry.cli.plugin.arguments import add_plugin_arguments, make_plugin_under_test
from keyferry.cli.plugin.output import listing, report_lines
from keyferry.errors import EnvironmentProblem
from keyferry.kit.codes.catalogue import CHECKS
from keyferry.kit.conformance import examine
from keyferry.kit.report import Report, Status, to_document, to_junit
from keyferry.show.documents import as_json
from keyferry.show.writer import Lines, report

DESCRIPTION = """\
Run a plugin about fifty times, with valid, unusual and malformed requests and in different environments, and
check every response by the rules of the kubelet or client-go. The plugin may be written in any language.

Each check has a stable code: KP1 for image plugins, KP2 for cluster plugins, KP3 for both. A failed check is
shown with the found and the expected behaviour, the reason for the rule, and a command that repeats the run.
A check whose premise does not hold, such as a check of a token that the plugin does not return, is listed as
not checked, with the reason. -v also lists the checks that passed.

The output contains no secret of the plugin. The plugin runs with an empty HOME and TMPDIR of its own; if it
requires your home folder, add --env HOME="$HOME"."""

EXAMPLES = """\
examples:
  keyferry plugin test ./my-plugin --image registry.example/team/app
  keyferry plugin test ./my-plugin --image a.example/x --image b.example/y -- --verbose --region eu
  keyferry plugin test ./ecr-credential-provider --config config.yaml --image 1234.dkr.ecr.eu-west-1.amazonaws.com/app
  keyferry plugin test --kubeconfig ~/.kube/config --context prod
  keyferry plugin test ./my-login --kind cluster --strict --junit report.xml
  keyferry plugin test --list KP117                    explain a code

exit codes: 0 no errors and no warnings; 1 errors or warnings, or with --strict infos; 2 wrong usage; 3 the plugin is
missing or cannot be run; what --severity leaves out does not count"""

TAKES_REST = True
# Its -v also lists checks.
HAS_VERBOSE = True
_FORMATS = ("table", "json", "junit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry plugin test``."""
    parser.add_argument(
        "binary", nargs="?", metavar="BINARY", help="the plugin's executable (default: that of --kubeconfig)"
    )
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="IMAGE",
        help="an image that the plugin has credentials for; may be repeated, and some checks require two",
    )
    add_output_argument(parser, _FORMATS)
    parser.add_argument("--junit", metavar="FILE", help="also write a JUnit XML report to this file")
    parser.add_argument(
        "--only", action="append", default=[], metavar="CODE", help="run only this check; may be repeated"
    )
    parser.add_argument(
        "--skip", action="append", default=[], metavar="CODE", help="do not run this check; may be repeated"
    )
    parser.add_argument(
        "--severity",
        choices=[str(severity) for severity in SEVERITIES],
        default=str(SEVERITIES[-1]),
        metavar="LEVEL",
        help="lowest severity to report: error, warning or info (default: info)",
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also list the checks that passed, one line for each, and log what is done",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 after infos, too")
    parser.add_argument(
        "--list",
        action="store_true",
        help="explain all codes, or the one given in place of BINARY, and exit",
    )
    versions = "the version of the requests; if repeated, the plugin must support each one (default: v1)"
    add_plugin_arguments(parser, versions_help=versions)


def run(args: argparse.Namespace) -> int:
    """Test the plugin, print the report, and return the exit code."""
    if args.list:
        return _list(args.binary)
    only, skip = (frozenset(_codes(codes)) for codes in (args.only, args.skip))
    plugin = make_plugin_under_test(args, tuple(args.image), where="with --image")
    found = examine(plugin, only=only, skip=skip, progress=_progress())
    shown = _at_least(found, Severity(args.severity))
    _write(shown, args)
    report(_summary(shown))
    failed = (severity for severity in SEVERITIES if shown.failures(severity))
    return Exit.NO if any(is_failure(each, strict=args.strict) for each in failed) else Exit.OK


def _write(report: Report, args: argparse.Namespace) -> None:
    if args.junit or args.output == "junit":
        text = to_junit(report, strict=args.strict)
        if args.junit:
            _save(args.junit, text)
        if args.output == "junit":
            print(Lines(text), end="")
    if args.output == "json":
        print(as_json(to_document(report)))
    elif args.output == "table":
        for line in report_lines(report, is_verbose=args.verbose):
            print(line)


def _save(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(f"{path} cannot be written: {go_strerror(error)}") from None


def _at_least(report: Report, least: Severity) -> Report:
    """Return the report without failures that are less severe than *least*."""
    kept = SEVERITIES[: SEVERITIES.index(least) + 1]
    results = tuple(
        result
        for result in report.results
        if result.status is not Status.FAILED or result.check.severity in kept
    )
    return replace(report, results=results)


def _summary(report: Report) -> str:
    counts = [
        f"{number} {severity if number == 1 else severity + 's'}"
        for severity in SEVERITIES
        if (number := len(report.failures(severity)))
    ]
    passed = report.count(Status.PASSED)
    unchecked = sum(bool(result.reason) and result.is_asked_for for result in report.results)
    runs = "1 run" if report.runs == 1 else f"{report.runs} runs"
    found = ", ".join(counts) or "no failures"
    return f"{found}; {passed} passed, {unchecked} not checked; {runs} in {report.seconds:.1f} s"


def _codes(given: Iterable[str]) -> Iterable[str]:
    for code in (part.strip().upper() for text in given for part in text.split(",")):
        if code not in CHECKS:
            raise WrongUsage(f"{code!r} is not a code; 'keyferry plugin test --list' shows all")
        yield code


def _list(code: str | None) -> int:
    chosen = tuple(_codes([code])) if code else tuple(CHECKS)
    for line in listing(CHECKS[name] for name in chosen):
        print(line)
    return Exit.OK


def _progress() -> Callable[[int, int], None] | None:
    """Return a callback that shows the progress on a terminal, or None."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\r\033[K" if done >= total else ""
        print(f"\rkeyferry: run {done} of {total}{end}", end="", file=sys.stderr, flush=True)

    return show
