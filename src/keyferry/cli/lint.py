"""Find every problem of provider configs, kubeconfigs, kuberc files, pull records and other configs."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from keyferry._core.bounded import standard_input
from keyferry._core.severity import SEVERITIES, Severity, is_failure
from keyferry._core.values import replace
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.options import add_output_argument
from keyferry.errors import EnvironmentProblem
from keyferry.images.config.validate import GATE
from keyferry.images.node.settings import RECORDS_GATE
from keyferry.lint.report import (
    FileKind,
    LintReport,
    annotation_lines,
    junit_text,
    listing,
    report_document,
    sarif_document,
    statistics,
    table_lines,
    text_lines,
)
from keyferry.lint.run import LintRequest, LintResult, find_audiences, lint_files
from keyferry.lint.versions import LATEST, is_unknown, rules_for
from keyferry.show.documents import as_json
from keyferry.show.writer import Lines, report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Find every problem of provider configs, kubeconfigs, kuberc files, pull records, configs of keyferry-federate, the
agent's config, the provider file of ClusterProfiles and what affects pulls in a KubeletConfiguration, with file, line
and column.

Errors stop a kubelet, kubectl or keyferry-federate; a file without errors is accepted. Warnings are valid but
almost certainly not intended, such as a pattern that can never match. Infos may need attention.

Each finding has a stable code: KF1 for provider configs, KF2 for kubeconfigs, KF3 for kuberc files, KF4 for a
kubelet's pull records, KF5 for the agent's config, KF6 for a FederationConfig, KF7 for a KubeletConfiguration, KF8 for
the provider file of ClusterProfiles.
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
  keyferry lint config.yaml --ignore KF163             all codes but this one; --select KF1 for one hundred of them
  keyferry lint *.yaml --statistics                    how often each code was found
  keyferry lint config.yaml -o diff                    what --fix would change
  keyferry lint config.yaml --kubernetes 1.33,1.34     before an upgrade
  helm template . | keyferry lint -                    from standard input
  keyferry lint providers.yaml federation.yaml         both, and what only both together show
  keyferry lint providers.yaml --rbac                  what lets kubelets request the tokens that it needs
  keyferry lint --list KF151                           what a code means, and what to do

exit codes: 0 no errors and no warnings; 1 errors or warnings, or with --strict infos; 2 wrong usage; 3 a file is
missing or cannot be read; what --severity, --select and --ignore leave out does not count"""

_STDIN = "-"
# The path of standard input, which is given as "-".
_STDIN_PATH = "/dev/stdin"
_FORMATS = ("text", "table", "json", "sarif", "junit", "github", "diff")
_STATISTICS_FORMATS = ("text", "table", "json")
_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the files, the rules that apply to them, and what to do with the findings."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="FILE|DIR",
        help=(
            "a kubeconfig, a kuberc file, a FederationConfig, a provider config, a directory of provider configs, "
            "which are merged as the kubelet merges them, a folder of pull records, or - for standard input (default: "
            "this node's provider config)"
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
    _add_rules(parser)
    parser.add_argument("--fix", action="store_true", help="correct what has one right answer, in the files")
    parser.add_argument(
        "--elsewhere",
        action="store_true",
        help="the files are for another machine: leave out findings about files, plugins and permissions of this one",
    )
    parser.add_argument(
        "--rbac",
        action="store_true",
        help="print the objects that permit kubelets to request the audiences of the files, and exit",
    )
    parser.add_argument(
        "--statistics", action="store_true", help="print how often each code was found, not the findings"
    )
    parser.add_argument("--list", action="store_true", help="explain all codes, or the given ones, and exit")
    add_output_argument(parser, _FORMATS)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubernetes",
        type=_versions,
        default=(LATEST,),
        metavar="VERSION",
        help=(
            "version of Kubernetes whose rules apply, such as 1.34 or v1.34.2, or several with commas "
            f"(default: {LATEST})"
        ),
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
    parser.add_argument(
        "--select",
        type=_codes,
        action="extend",
        default=[],
        metavar="CODE",
        help="report only these codes, or all that begin so, such as KF1; several with commas",
    )
    parser.add_argument(
        "--ignore",
        type=_codes,
        action="extend",
        default=[],
        metavar="CODE",
        help="leave out these codes, or all that begin so; several with commas",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 after infos, too")


def _codes(text: str) -> list[str]:
    """Parse codes and beginnings of codes, joined by commas; raise ArgumentTypeError for one that no code has."""
    from keyferry.lint.catalogue import CODES

    names = [part.strip().upper() for part in text.split(",")]
    for name in names:
        if not name or not any(code.startswith(name) for code in CODES):
            from argparse import ArgumentTypeError

            raise ArgumentTypeError(f"no code begins with {name!r}{_hint(name)}")
    return names


def _hint(name: str) -> str:
    """Return the end of a message about a code that does not exist: a close one, or where all are."""
    from difflib import get_close_matches

    from keyferry.lint.catalogue import CODES

    # Other codes of the same length always have much in common with it.
    close = get_close_matches(name.upper(), CODES, 1, 0.85)
    return f"; did you mean {close[0]!r}?" if close else "; 'keyferry lint --list' shows all"


def _versions(text: str) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(rules_for(part.strip(), {}).version for part in text.split(",")))
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


def run(args: argparse.Namespace) -> int:
    """Lint the targets, print the findings, and return the exit code."""
    if args.list:
        return _list(args.targets, args.output)
    if args.statistics and args.output not in _STATISTICS_FORMATS:
        raise WrongUsage(f"--statistics has the formats {', '.join(_STATISTICS_FORMATS)}, not {args.output}")
    targets = tuple(_targets(args))
    if args.rbac:
        return _print_rbac([path for path, _ in targets])
    gates = {name: value for given in args.feature_gates for name, value in given.items()}
    _note_gates(gates)
    _note_versions(args.kubernetes)
    _note_pipes(targets)
    request = LintRequest(
        targets=targets,
        versions=args.kubernetes,
        gates=gates,
        elsewhere=args.elsewhere,
        is_read_by_kubelet=not args.targets,
        least=Severity(args.severity),
        select=tuple(args.select),
        ignore=tuple(args.ignore),
        corrects=args.fix or args.output == "diff",
    )
    result = lint_files(request)
    if args.fix:
        result = _fix(request, result)
    _print(result, args)
    report(_summary(result))
    _note_absent(path for path, _ in targets)
    if any(each.unreadable for each in result.reports):
        return Exit.ENVIRONMENT
    failed = any(is_failure(each.severity, strict=args.strict) for each in result.shown)
    return Exit.NO if failed else Exit.OK


def _targets(args: argparse.Namespace) -> Iterator[tuple[str, str | None]]:
    if not args.targets:
        yield _discover(args.bin_dir)
        return
    bin_dir = args.bin_dir or os.environ.get("KEYFERRY_BIN_DIR") or None
    yield from ((_standard_input() if path == _STDIN else path, bin_dir) for path in args.targets)


def _standard_input() -> str:
    """Return the path of standard input; raise EnvironmentProblem if it is closed."""
    try:
        standard_input()
    except OSError as error:
        raise EnvironmentProblem(f"standard input cannot be read: {error.strerror}") from None
    return _STDIN_PATH


def _discover(bin_dir: str | None) -> tuple[str, str | None]:
    """Return the node's config, and the directory of its plugins, if that is known."""
    from keyferry.images.node.discover import discover

    advice = "give a file or directory, or set KEYFERRY_CONFIG"
    found = discover(None, bin_dir, needs_bin_dir=False, advice=advice)
    if found.bin_dir:
        report(f"linting {found}")
        return found.config, found.bin_dir
    report(
        f"linting config {found.config} ({found.config_from}), without its plugins: the bin dir is unknown"
    )
    return found.config, None


def _fix(request: LintRequest, result: LintResult) -> LintResult:
    """Write the corrections, and return them with what is left, which cannot be corrected."""
    if result.fixed:
        from keyferry.lint.fixes import write_file

        if any(each.path == _STDIN_PATH for each in result.fixed):
            raise WrongUsage("--fix cannot correct standard input; use -o diff")
        for each in result.fixed:
            write_file(each)
            report(f"corrected {each.path}")
        result = replace(lint_files(replace(request, corrects=False)), fixed=result.fixed)
    return replace(result, fixable=(0,) * len(result.reports))


def _list(names: Sequence[str], output: str) -> int:
    from keyferry.lint.catalogue import CODES

    unknown = [name for name in names if name.upper() not in CODES]
    if unknown:
        raise WrongUsage(f"{unknown[0]!r} is not a code{_hint(unknown[0])}")
    chosen = [CODES[name.upper()] for name in names] or list(CODES.values())
    for line in listing(chosen, output):
        print(line)
    return Exit.OK


def _print_rbac(paths: Sequence[str]) -> int:
    """Print the objects for all audiences of the files, for 'kubectl apply -f -'."""
    from keyferry.show.documents import as_yaml
    from keyferry.workloads.rbac import node_manifests

    audiences = find_audiences(paths)
    if not audiences:
        report("no provider of the files receives service account tokens, so kubelets need no permission")
        return Exit.NO
    print(Lines("\n---\n".join(as_yaml(manifest) for manifest in node_manifests(audiences))))
    return Exit.OK


def _print(result: LintResult, args: argparse.Namespace) -> None:
    reports, shown = result.reports, result.shown
    if args.statistics:
        for line in statistics(shown, args.output):
            print(line)
    elif args.output == "json":
        print(as_json(report_document(reports, shown, result.fixable)))
    elif args.output == "sarif":
        print(as_json(sarif_document(shown, reports)))
    elif args.output == "junit":
        print(Lines(junit_text(reports, shown, strict=args.strict)), end="")
    else:
        for line in _lines(result, args.output):
            print(line)


def _lines(result: LintResult, output: str) -> Iterator[str]:
    if output == "github":
        return annotation_lines(result.shown)
    if output == "table":
        return table_lines(result.shown)
    if output == "diff":
        return _diff_lines(result)
    is_terminal = sys.stdout.isatty()
    return text_lines(result.shown, result.reports, _columns() if is_terminal else _WIDTH, wraps=is_terminal)


def _diff_lines(result: LintResult) -> Iterator[str]:
    if not result.fixed:
        return
    from keyferry.lint.fixes import masked_diff

    for fixed in result.fixed:
        name = _STDIN if fixed.path == _STDIN_PATH else fixed.path
        yield from masked_diff(fixed, name, ", --fix makes the corrections")


def _columns() -> int:
    from shutil import get_terminal_size

    return get_terminal_size((_WIDTH, 24)).columns


def _summary(result: LintResult) -> str:
    reports, shown, fixable = result.reports, result.shown, sum(result.fixable)
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


def _note_gates(gates: Mapping[str, bool]) -> None:
    for name in gates:
        if name not in (GATE, RECORDS_GATE):
            report(f"feature gate {name!r} does not affect lint and is ignored; {GATE} and {RECORDS_GATE} do")


def _note_versions(versions: Sequence[str]) -> None:
    for version in versions:
        if is_unknown(version):
            report(
                f"warning: Kubernetes {version} is newer than this version of keyferry knows; the newest rules are used"
            )
