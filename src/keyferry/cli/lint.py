"""Every problem of provider configs, kubeconfigs, kuberc and pull records: refused, or legal and hardly meant."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from keyferry.cli.frame.arguments import add_output_argument
from keyferry.cli.frame.commands import Exit, WrongUsage
from keyferry.cli.lint_output import listing, report_document, sarif_document, table_lines
from keyferry.images.config.validate import GATE
from keyferry.images.node.discover import Discovery, discover
from keyferry.images.node.node import Node
from keyferry.lint.codes.catalogue import CODES, SEVERITIES, Severity
from keyferry.lint.dispatch import lint_any
from keyferry.lint.report import FileKind, Finding, LintReport
from keyferry.lint.versions import LATEST, rules_for
from keyferry.show.documents import as_json
from keyferry.show.report import report

TYPE_CHECKING = False  # spelled out: a start must not pay for typing, nor for argparse
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Find every problem of provider configs, kubeconfigs, kuberc files and pull records, with file, line and column.

Errors are what would stop a kubelet or kubectl; a file without them is accepted. Warnings are legal and
surely wrong, such as a pattern that can never match; infos are worth a look. Each has a stable code: KF1 for
provider configs, KF2 for kubeconfigs, KF3 for kuberc, KF4 for a kubelet's pull records. What a file is, is
seen from its kind; a folder 'image_manager' holds pull records."""

EXAMPLES = """\
examples:
  keyferry lint                                        the config this node uses, and its plugins
  keyferry lint config.yaml --severity error           only what would stop a kubelet
  keyferry lint /etc/kubernetes/providers --kubernetes 1.33
  keyferry lint config.yaml --bin-dir /usr/libexec/kubernetes/plugins
  keyferry lint ~/.kube/config ~/.kube/kuberc          what kubectl reads
  sudo keyferry lint /var/lib/kubelet/image_manager    the kubelet's pull records
  keyferry lint *.yaml -o sarif > lint.sarif           for code scanners
  keyferry lint --list KF151                           what a code means, and what to do

exit codes: 0 nothing found; 1 something was found; 2 wrong usage; 3 a config is missing or may not be read"""

_FORMATS = ("table", "json", "sarif")


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The arguments of ``keyferry lint``."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="FILE|DIR",
        help=(
            "a kubeconfig, a kuberc, a provider config, or a directory of those that is merged as the "
            "kubelet does, or its pull records (default: this node's provider config)"
        ),
    )
    parser.add_argument(
        "--bin-dir",
        "--image-credential-provider-bin-dir",
        metavar="DIR",
        help=(
            "look at the plugins in this directory too (default: KEYFERRY_BIN_DIR; for this "
            "node's config, its own)"
        ),
    )
    parser.add_argument(
        "--kubernetes",
        type=_version,
        default=LATEST,
        metavar="VERSION",
        help=f"whose rules to apply, such as 1.34 or v1.34.2 (default: {LATEST})",
    )
    parser.add_argument(
        "--feature-gates",
        type=_gates,
        action="append",
        default=[],
        metavar="NAME=BOOL",
        help=f"feature gates of the kubelet that differ from the default, such as {GATE}=true",
    )
    parser.add_argument(
        "--severity",
        choices=SEVERITIES,
        default=SEVERITIES[-1],
        metavar="LEVEL",
        help="the least severe findings to report: error, warning or info (default: info)",
    )
    parser.add_argument("--list", action="store_true", help="explain all codes, or those given, and leave")
    add_output_argument(parser, _FORMATS)


def run(args: "argparse.Namespace") -> int:
    """Lint what was asked for."""
    if args.list:
        return _list(args.targets, args.output)
    gates = {name: value for given in args.feature_gates for name, value in given.items()}
    _note_gates(gates)
    reports = [
        lint_any(path, bin_dir=bin_dir, kubernetes=args.kubernetes, gates=gates)
        for path, bin_dir in _targets(args)
    ]
    shown = [
        finding for report in reports for finding in report.findings if _is_shown(finding, args.severity)
    ]
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
            f"linting config {found.config} ({found.config_from}), without its plugins: no bin dir is known"
        )
        return found.config, None
    report(f"linting {found}")
    return found.config, found.bin_dir


def _discover(bin_dir: str | None, node: Node) -> Discovery:
    """The node's config: it can be looked at without its plugins."""
    advice = "name a file or directory, or set KEYFERRY_CONFIG"
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
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _note_gates(gates: dict[str, bool]) -> None:
    for name in gates:
        if name != GATE:
            report(f"feature gate {name!r} has no bearing on provider configs and is ignored; {GATE} has")


def _version(text: str) -> str:
    try:
        return rules_for(text, {}).version
    except ValueError as error:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(str(error)) from None


def _gates(text: str) -> dict[str, bool]:
    """Gates as the kubelet takes them: a list of NAME=BOOL, joined by commas."""
    gates = {}
    for item in text.split(","):
        name, _, value = item.strip().partition("=")
        if not name or value.lower() not in ("true", "false"):
            from argparse import ArgumentTypeError

            raise ArgumentTypeError(f"{item!r} is not a feature gate, expected NAME=true or NAME=false")
        gates[name] = value.lower() == "true"
    return gates
