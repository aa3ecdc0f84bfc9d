"""Find every problem of provider configs, kubeconfigs, kuberc files and pull records."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from keyferry._core.severity import SEVERITIES, Severity
from keyferry.cli.frame.arguments import add_output_argument
from keyferry.cli.frame.commands import Exit, WrongUsage
from keyferry.cli.lint_output import listing, report_document, sarif_document, table_lines
from keyferry.images.config.validate import GATE
from keyferry.images.node.discover import Discovery, discover
from keyferry.images.node.node import Node
from keyferry.lint.codes.catalogue import CODES
from keyferry.lint.dispatch import lint_any
from keyferry.lint.report import FileKind, Finding, LintReport
from keyferry.lint.versions import LATEST, rules_for
from keyferry.show.documents import as_json
from keyferry.show.report import report

TYPE_CHECKING = False  # a literal: importing typing or argparse would slow down every start
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Find every problem of provider configs, kubeconfigs, kuberc files, pull records and the agent's config, with
file, line and column.

Errors stop a kubelet or kubectl; a file without errors is accepted. Warnings are valid but almost certainly
not intended, such as a pattern that can never match. Infos may need attention. Each finding has a stable code:
KF1 for provider configs, KF2 for kubeconfigs, KF3 for kuberc files, KF4 for a kubelet's pull records,
KF5 for the agent's config. The type of a file follows from its kind field; a folder named 'image_manager' has
pull records."""

EXAMPLES = """\
examples:
  keyferry lint                                        the config of this node, and its plugins
  keyferry lint config.yaml --severity error           only problems that stop a kubelet
  keyferry lint /etc/kubernetes/providers --kubernetes 1.33
  keyferry lint config.yaml --bin-dir /usr/libexec/kubernetes/plugins
  keyferry lint ~/.kube/config ~/.kube/kuberc          the files that kubectl reads
  sudo keyferry lint /var/lib/kubelet/image_manager    the kubelet's pull records
  keyferry lint *.yaml -o sarif > lint.sarif           for code scanners
  keyferry lint --list KF151                           what a code means, and what to do

exit codes: 0 no findings; 1 findings; 2 wrong usage; 3 a file is missing or cannot be read"""

_FORMATS = ("table", "json", "sarif")


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of ``keyferry lint``."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="FILE|DIR",
        help=(
            "a kubeconfig, a kuberc file, a provider config, a directory of provider configs, which are "
            "merged as the kubelet merges them, or a folder of pull records (default: this node's provider config)"
        ),
    )
    parser.add_argument(
        "--bin-dir",
        "--image-credential-provider-bin-dir",
        metavar="DIR",
        help=(
            "also check the plugins in this directory (default: KEYFERRY_BIN_DIR; for this node's "
            "config, the node's own)"
        ),
    )
    parser.add_argument(
        "--kubernetes",
        type=_version,
        default=LATEST,
        metavar="VERSION",
        help=f"version of Kubernetes whose rules apply, such as 1.34 or v1.34.2 (default: {LATEST})",
    )
    parser.add_argument(
        "--feature-gates",
        type=_gates,
        action="append",
        default=[],
        metavar="NAME=BOOL",
        help=f"feature gates of the kubelet that differ from its defaults, such as {GATE}=true",
    )
    parser.add_argument(
        "--severity",
        choices=[str(severity) for severity in SEVERITIES],
        default=str(SEVERITIES[-1]),
        metavar="LEVEL",
        help="lowest severity to report: error, warning or info (default: info)",
    )
    parser.add_argument("--list", action="store_true", help="explain all codes, or the given ones, and exit")
    add_output_argument(parser, _FORMATS)


def run(args: "argparse.Namespace") -> int:
    """Lint the targets, print the findings, and return the exit code."""
    if args.list:
        return _list(args.targets, args.output)
    gates = {name: value for given in args.feature_gates for name, value in given.items()}
    _note_gates(gates)
    reports = [
        lint_any(path, bin_dir=bin_dir, kubernetes=args.kubernetes, gates=gates)
        for path, bin_dir in _targets(args)
    ]
    least = Severity(args.severity)
    shown = [finding for report in reports for finding in report.findings if _is_shown(finding, least)]
    _write(reports, shown, args.output)
    report(_summary(reports, shown))
    if any(report.unreadable for report in reports):
        return Exit.ENVIRONMENT
    return Exit.NO if shown else Exit.OK


def _targets(args: "argparse.Namespace") -> Iterator[tuple[str, str | None]]:
    if not args.targets:
        yield _discovered(args.bin_dir, Node())
        return
    bin_dir = args.bin_dir or os.environ.get("KEYFERRY_BIN_DIR") or None
    yield from ((path, bin_dir) for path in args.targets)


def _discovered(bin_dir: str | None, node: Node) -> tuple[str, str | None]:
    found = _discover(bin_dir, node)
    if not found.bin_dir:
        report(
            f"linting config {found.config} ({found.config_from}), without its plugins: the bin dir is unknown"
        )
        return found.config, None
    report(f"linting {found}")
    return found.config, found.bin_dir


def _discover(bin_dir: str | None, node: Node) -> Discovery:
    """Find the node's config, with or without its plugins."""
    advice = "give a file or directory, or set KEYFERRY_CONFIG"
    return discover(None, bin_dir, node=node, needs_bin_dir=False, advice=advice)


def _is_shown(finding: Finding, least: Severity) -> bool:
    return SEVERITIES.index(finding.severity) <= SEVERITIES.index(least)


def _write(reports: Sequence[LintReport], shown: Sequence[Finding], output: str) -> None:
    if output == "json":
        print(as_json(report_document(reports, shown)))
    elif output == "sarif":
        print(as_json(sarif_document(shown)))
    else:
        for line in table_lines(shown):
            print(line)


def _list(codes: Sequence[str], output: str) -> int:
    unknown = [code for code in codes if code.upper() not in CODES]
    if unknown:
        raise WrongUsage(f"{unknown[0]!r} is not a code; 'keyferry lint --list' shows all")
    chosen = [CODES[code.upper()] for code in codes] or list(CODES.values())
    for line in listing(chosen, output):
        print(line)
    return Exit.OK


def _summary(reports: Sequence[LintReport], shown: Sequence[Finding]) -> str:
    total = Counter(finding.severity for report in reports for finding in report.findings)
    seen = Counter(finding.severity for finding in shown)
    hidden = _counts(total - seen)
    note = f" ({hidden} not shown)" if hidden else ""
    if shown:
        files = sum(len(report.files) or 1 for report in reports)
        return f"{_counts(seen)} in {_count(files, 'file')}{note}"
    return f"no {'such ' if hidden else ''}problems found in {_subjects(reports)}{note}"


def _subjects(reports: Sequence[LintReport]) -> str:
    kinds = Counter(report.kind for report in reports if report.kind is not FileKind.PROVIDERS)
    texts = [_count(number, kind) for kind, number in kinds.items()]
    if len(reports) > kinds.total():
        texts.insert(0, _count(sum(report.providers for report in reports), "provider"))
    return ", ".join(texts)


def _counts(counter: "Counter[Severity]") -> str:
    return ", ".join(_count(counter[severity], severity) for severity in SEVERITIES if counter[severity])


def _count(number: int, noun: str) -> str:
    head, of, rest = noun.partition(" of ")
    return f"{number} {noun}" if number == 1 else f"{number} {head}s{of}{rest}"


def _note_gates(gates: dict[str, bool]) -> None:
    for name in gates:
        if name != GATE:
            report(f"feature gate {name!r} does not affect provider configs and is ignored; {GATE} does")


def _version(text: str) -> str:
    try:
        return rules_for(text, {}).version
    except ValueError as error:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(str(error)) from None


def _gates(text: str) -> dict[str, bool]:
    """Parse feature gates in the kubelet's form, NAME=BOOL joined by commas; raise ArgumentTypeError."""
    gates = {}
    for item in text.split(","):
        name, _, value = item.strip().partition("=")
        if not name or value.lower() not in ("true", "false"):
            from argparse import ArgumentTypeError

            raise ArgumentTypeError(f"{item!r} is not a feature gate, expected NAME=true or NAME=false")
        gates[name] = value.lower() == "true"
    return gates
