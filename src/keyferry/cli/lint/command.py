"""Find every problem of provider configs, kubeconfigs, kuberc files, pull records and other configs."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from keyferry._core.bounded import standard_input
from keyferry._core.severity import SEVERITIES, Severity, is_failure
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.lint.arguments import STDIN_PATH, add_lint_arguments
from keyferry.cli.lint.output import (
    annotation_lines,
    junit_text,
    listing,
    report_document,
    sarif_document,
    table_lines,
    text_lines,
)
from keyferry.errors import EnvironmentProblem
from keyferry.images.config.validate import GATE
from keyferry.images.node.discover import Discovery, discover
from keyferry.images.node.settings import RECORDS_GATE, Node
from keyferry.lint.codes.catalogue import CODES
from keyferry.lint.dispatch import find_audiences, find_federations
from keyferry.lint.fixes.rounds import FixedFile, count_fixable, fix_file
from keyferry.lint.report import FileKind, Finding, LintReport
from keyferry.lint.target import lint_target
from keyferry.lint.versions import is_unknown
from keyferry.show.documents import as_json
from keyferry.show.writer import Lines, report
from keyferry.workloads.rbac import node_manifests

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Find every problem of provider configs, kubeconfigs, kuberc files, pull records, configs of keyferry-federate, the
agent's config and what affects pulls in a KubeletConfiguration, with file, line and column.

Errors stop a kubelet, kubectl or keyferry-federate; a file without errors is accepted. Warnings are valid but
almost certainly not intended, such as a pattern that can never match. Infos may need attention.

Each finding has a stable code: KF1 for provider configs, KF2 for kubeconfigs, KF3 for kuberc files, KF4 for a
kubelet's pull records, KF5 for the agent's config, KF6 for a FederationConfig, KF7 for a KubeletConfiguration.
The kind field decides the type of a file; a folder named 'image_manager' has pull records. A provider config and
a FederationConfig that are given together are also compared with each other.

With --fix, problems that have exactly one right correction are corrected in the files; -o diff shows these
corrections. A comment '# keyferry: ignore KF162: reason', on the line or alone above it, suppresses a warning or
an info, never an error."""

EXAMPLES = """\
examples:
  keyferry lint                                        the config of this node, and its plugins
  keyferry lint config.yaml --severity error           only problems that stop a kubelet
  keyferry lint /etc/kubernetes/providers --kubernetes 1.33
  keyferry lint config.yaml --bin-dir /usr/libexec/kubernetes/plugins
  keyferry lint ~/.kube/config ~/.kube/kuberc          the files that kubectl reads
  sudo keyferry lint /var/lib/kubelet/image_manager    the kubelet's pull records
  keyferry lint *.yaml -o sarif > lint.sarif           for code scanners
  keyferry lint *.yaml -o github --elsewhere           in a workflow, without what depends on this machine
  keyferry lint config.yaml -o diff                    what --fix would change
  keyferry lint config.yaml --kubernetes 1.33,1.34     before an upgrade
  helm template . | keyferry lint -                    from standard input
  keyferry lint providers.yaml federation.yaml         both, and what only both together show
  keyferry lint providers.yaml --rbac                  what lets kubelets request the tokens that it needs
  keyferry lint --list KF151                           what a code means, and what to do

exit codes: 0 no errors and no warnings; 1 errors or warnings, or with --strict infos; 2 wrong usage; 3 a file is
missing or cannot be read; what --severity leaves out does not count"""

_STDIN = "-"
_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry lint``."""
    add_lint_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Lint the targets, print the findings, and return the exit code."""
    if args.list:
        return _list(args.targets, args.output)
    if args.rbac:
        return _print_rbac([path for path, _ in _targets(args)])
    gates = {name: value for given in args.feature_gates for name, value in given.items()}
    _note_gates(gates)
    _note_versions(args.kubernetes)
    least = Severity(args.severity)
    targets = list(_targets(args))
    beside = tuple(find_federations(path for path, _ in targets))

    def is_shown(finding: Finding) -> bool:
        return SEVERITIES.index(finding.severity) <= SEVERITIES.index(least)

    def lint_one(path: str, bin_dir: str | None, data: bytes | None = None) -> LintReport:
        return lint_target(
            path,
            data=data,
            bin_dir=bin_dir,
            versions=args.kubernetes,
            gates=gates,
            elsewhere=args.elsewhere,
            beside=beside,
            is_read_by_kubelet=not args.targets,
        )

    _note_pipes(targets)
    reports = [lint_one(path, bin_dir) for path, bin_dir in targets]
    fixed: list[FixedFile] = []
    if args.fix or args.output == "diff":
        fixed = [each for report in reports for each in _fixed(report, lint_one, is_shown) if each.is_changed]
    if args.fix and fixed:
        _write_files(fixed)
        reports = [lint_one(path, bin_dir) for path, bin_dir in targets]
    shown = list(filter(is_shown, (finding for report in reports for finding in report.findings)))
    # What is left after a correction cannot be corrected.
    fixable = [0 if args.fix else _count_fixable(report, is_shown) for report in reports]
    _write(reports, shown, fixable, fixed, args)
    report(_summary(reports, shown, sum(fixable)))
    _note_absent(path for path, _ in targets)
    if any(report.unreadable for report in reports):
        return Exit.ENVIRONMENT
    return Exit.NO if any(is_failure(each.severity, strict=args.strict) for each in shown) else Exit.OK


def _print_rbac(paths: Sequence[str]) -> int:
    """Print the objects for all audiences of the files, for 'kubectl apply -f -'."""
    from keyferry.show.documents import as_yaml

    audiences = find_audiences(paths)
    if not audiences:
        report("no provider of the files receives service account tokens, so kubelets need no permission")
        return Exit.NO
    print(Lines("\n---\n".join(as_yaml(manifest) for manifest in node_manifests(audiences))))
    return Exit.OK


def _targets(args: argparse.Namespace) -> Iterator[tuple[str, str | None]]:
    if not args.targets:
        yield _discovered(args.bin_dir, Node())
        return
    bin_dir = args.bin_dir or os.environ.get("KEYFERRY_BIN_DIR") or None
    yield from ((_standard_input() if path == _STDIN else path, bin_dir) for path in args.targets)


def _standard_input() -> str:
    """Return the path of standard input; raise EnvironmentProblem if it is closed."""
    try:
        standard_input()
    except OSError as error:
        raise EnvironmentProblem(f"standard input cannot be read: {error.strerror}") from None
    return STDIN_PATH


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


def _fixed(
    linted: LintReport,
    lint_one: Callable[[str, str | None, bytes], LintReport],
    is_wanted: Callable[[Finding], bool],
) -> Iterator[FixedFile]:
    """Yield the files of a target, each corrected by itself."""
    for source in linted.sources:
        path = source.path

        def lint_again(data: bytes, path: str = path) -> LintReport:
            return lint_one(path, linted.bin_dir, data)

        yield fix_file(path, source.data, lint_again, is_wanted)


def _write_files(fixed: Sequence[FixedFile]) -> None:
    from keyferry.cli.lint.fix import write_file

    if any(each.path == STDIN_PATH for each in fixed):
        raise WrongUsage("--fix cannot correct standard input; use -o diff")
    for each in fixed:
        write_file(each)
        report(f"corrected {each.path}")


def _count_fixable(linted: LintReport, is_shown: Callable[[Finding], bool]) -> int:
    shown = tuple(filter(is_shown, linted.findings))
    return sum(count_fixable(source.path, source.data, shown) for source in linted.sources) if shown else 0


def _write(
    reports: Sequence[LintReport],
    shown: Sequence[Finding],
    fixable: Sequence[int],
    fixed: Sequence[FixedFile],
    args: argparse.Namespace,
) -> None:
    output = args.output
    if output == "json":
        print(as_json(report_document(reports, shown, fixable)))
    elif output == "sarif":
        print(as_json(sarif_document(shown)))
    elif output == "junit":
        print(Lines(junit_text(reports, shown, strict=args.strict)), end="")
    else:
        for line in _lines(reports, shown, fixed, output):
            print(line)


def _lines(
    reports: Sequence[LintReport], shown: Sequence[Finding], fixed: Sequence[FixedFile], output: str
) -> Iterator[str]:
    if output == "github":
        return annotation_lines(shown)
    if output == "table":
        return table_lines(shown)
    if output == "diff":
        from keyferry.cli.lint.fix import diff_lines

        return diff_lines(fixed)
    is_terminal = sys.stdout.isatty()
    return text_lines(shown, reports, _columns() if is_terminal else _WIDTH, wraps=is_terminal)


def _columns() -> int:
    from shutil import get_terminal_size

    return get_terminal_size((_WIDTH, 24)).columns


def _list(codes: Sequence[str], output: str) -> int:
    unknown = [code for code in codes if code.upper() not in CODES]
    if unknown:
        raise WrongUsage(f"{unknown[0]!r} is not a code; 'keyferry lint --list' shows all")
    chosen = [CODES[code.upper()] for code in codes] or list(CODES.values())
    for line in listing(chosen, output):
        print(line)
    return Exit.OK


def _summary(reports: Sequence[LintReport], shown: Sequence[Finding], fixable: int) -> str:
    total = Counter(finding.severity for report in reports for finding in report.findings)
    seen = Counter(finding.severity for finding in shown)
    hidden = _counts(total - seen)
    suppressed = sum(len(report.suppressed) for report in reports)
    versioned = (FileKind.PROVIDERS, FileKind.KUBELET_CONFIG)
    versions = dict.fromkeys(report.kubernetes for report in reports if report.kind in versioned)
    notes = [f"Kubernetes {version.replace(',', ', ')}" for version in versions]
    notes += [f"{hidden} not shown"] if hidden else []
    notes += [f"{suppressed} suppressed"] if suppressed else []
    note = f" ({'; '.join(notes)})" if notes else ""
    if shown:
        files = sum(len(report.files) or 1 for report in reports)
        more = f"; {fixable} can be fixed with --fix" if fixable else ""
        return f"{_counts(seen)} in {_count(files, 'file')}{note}{more}"
    return f"no {'such ' if hidden else ''}problems found in {_subjects(reports)}{note}"


def _subjects(reports: Sequence[LintReport]) -> str:
    kinds = Counter(report.kind for report in reports if report.kind is not FileKind.PROVIDERS)
    texts = [_count(number, kind) for kind, number in kinds.items()]
    if len(reports) > kinds.total():
        texts.insert(0, _count(sum(report.providers for report in reports), "provider"))
    return ", ".join(texts)


def _counts(counter: Counter[Severity]) -> str:
    return ", ".join(_count(counter[severity], severity) for severity in SEVERITIES if counter[severity])


def _count(number: int, noun: str) -> str:
    head, of, rest = noun.partition(" of ")
    return f"{number} {noun}" if number == 1 else f"{number} {head}s{of}{rest}"


def _note_pipes(targets: Sequence[tuple[str, str | None]]) -> None:
    """Say which pipes are read, as that waits for another program; not for those of the shell, in /dev."""
    for path, _ in targets:
        if not path.startswith("/dev/") and os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode):
            report(f"reading {path}, a pipe, until its writer closes it")


def _note_absent(paths: Iterable[str]) -> None:
    absent = ", ".join(os.path.abspath(path) for path in paths if not os.path.lexists(path))
    if absent:
        report(f"looked for {absent}; to see what the kubelet of this machine uses, try: keyferry doctor")


def _note_gates(gates: dict[str, bool]) -> None:
    for name in gates:
        if name not in (GATE, RECORDS_GATE):
            report(f"feature gate {name!r} does not affect lint and is ignored; {GATE} and {RECORDS_GATE} do")


def _note_versions(versions: Sequence[str]) -> None:
    for version in versions:
        if is_unknown(version):
            report(
                f"warning: Kubernetes {version} is newer than this version of keyferry knows; the newest rules are used"
            )
