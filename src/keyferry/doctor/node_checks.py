"""Checks of the node itself: the kubelet, the container runtime and its mirrors, the pull records and the disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from keyferry._core.severity import Severity
from keyferry.api.meta import format_time
from keyferry.doctor.facts import DiskFacts, KubeletFacts, NodeFacts, RecordsFacts, RuntimeFacts
from keyferry.doctor.health import HealthLevel, HealthLine, Hints, make_line
from keyferry.images.node.changes import Newer
from keyferry.images.node.kubelet import Kubelet
from keyferry.images.node.settings import RECORDS_GATE
from keyferry.lint.kinds.kubelet_config import describe_panic
from keyferry.lint.report import LintReport
from keyferry.lint.versions import MAX_PARALLEL_PULLS, panics_beyond
from keyferry.pulls.mirrors.endpoints import CredentialOffer, Mirrors

_SECOND = 1_000_000_000
# Below this the kubelet evicts pods (nodefs.available).
_MIN_FREE_PERCENT = 10
_LEVELS = {Severity.ERROR: HealthLevel.PROBLEM, Severity.WARNING: HealthLevel.WARNING}
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def check_kubelet(facts: KubeletFacts, hints: Hints, *, is_root: bool) -> Iterator[HealthLine]:
    """Yield lines about the kubelets; without one, what hides it or that none runs."""
    kubelet, kubelets = facts.kubelet, facts.kubelets
    for other in kubelets.found:
        if not other.is_trusted:
            users = ", ".join(map(str, sorted(other.users)))
            text = (
                f"process {other.pid} is called {other.program} but belongs to user {users}, so it is ignored"
            )
            yield make_line(HealthLevel.WARNING, "kubelet", text, f"ps -fp {other.pid}")
    if kubelet is None:
        yield _no_kubelet_line(kubelets.hidden, hints, is_root=is_root)
        return
    yield make_line(HealthLevel.OK, "kubelet", f"process {kubelet.pid} ({kubelet.program}) runs")
    if len(kubelets.trusted) > 1:
        others = ", ".join(str(each.pid) for each in kubelets.trusted[1:])
        text = f"other kubelets run here too, processes {others}; the settings are those of {kubelet.pid}"
        yield make_line(HealthLevel.WARNING, "kubelet", text)
    flags = " ".join(f"{name}={value}" for name, value in sorted(kubelet.flags.items()))
    yield make_line(HealthLevel.OK, "flags", flags or "none of those that matter for pulls")
    yield from _file_lines(facts, hints, is_root=is_root)
    yield from (_newer_line(each, kubelet) for each in facts.newer)
    yield from _parallel_pull_lines(facts)


def _no_kubelet_line(hidden: str, hints: Hints, *, is_root: bool) -> HealthLine:
    if hidden:
        command = "" if is_root else hints.doctor(is_root=True)
        return make_line(HealthLevel.UNKNOWN, "kubelet", f"no kubelet is visible, and {hidden}", command)
    return make_line(
        HealthLevel.WARNING,
        "kubelet",
        "no kubelet is running",
        "systemctl status kubelet; journalctl -u kubelet -e",
    )


def _file_lines(facts: KubeletFacts, hints: Hints, *, is_root: bool) -> Iterator[HealthLine]:
    settings = facts.settings
    if settings is None:
        return
    for note in settings.notes:
        if is_root:
            yield make_line(HealthLevel.PROBLEM, "config file", note)
        else:
            yield make_line(HealthLevel.UNKNOWN, "config file", note, hints.doctor(is_root=True))
    for text in settings.ignored:
        yield make_line(HealthLevel.WARNING, "config file", text)
    named = [settings.kubelet.flags.get(flag, "") for flag in ("--config", "--config-dir")]
    files = ", ".join(filter(None, named))
    if files and not settings.notes and not settings.ignored:
        yield make_line(HealthLevel.OK, "config file", f"{files} can be read")


def _newer_line(newer: Newer, kubelet: Kubelet) -> HealthLine:
    """Return the line about a file that changed after the kubelet started, which reads it only then."""
    changed, started = (format_time(int(seconds) * _SECOND) for seconds in (newer.changed, newer.started))
    text = (
        f"{newer.path} ({newer.kind}) changed at {changed}, after the kubelet started at {started}: the kubelet may "
        "not have read it as it is now; restart the kubelet"
    )
    command = "systemctl restart kubelet" if kubelet.program == "kubelet" else ""
    return make_line(HealthLevel.WARNING, "restart", text, command)


def _parallel_pull_lines(facts: KubeletFacts) -> Iterator[HealthLine]:
    """Yield a problem if the kubelet panics with so many pulls, a warning if that is so in some versions."""
    settings = facts.settings
    found = None if settings is None else settings.parallel_pulls
    if settings is None or found is None or found <= MAX_PARALLEL_PULLS:
        return
    text = describe_panic(found)
    if not facts.version:
        if settings.gates.get(RECORDS_GATE) is not False:
            text += "; the version of this kubelet is not known (--kubernetes)"
            yield make_line(HealthLevel.WARNING, "maxParallelImagePulls", text)
    elif panics_beyond(facts.version, settings.gates):
        yield make_line(HealthLevel.PROBLEM, "maxParallelImagePulls", text)


def check_runtime(facts: RuntimeFacts | None, hints: Hints, *, is_online: bool) -> Iterator[HealthLine]:
    """Yield lines about the socket, the process and, online, the version."""
    if facts is None:
        return
    yield _socket_line(facts)
    if facts.process is not None:
        yield make_line(
            HealthLevel.OK, "process", f"{facts.process.program}, process {facts.process.pid}, runs"
        )
    if facts.version is not None:
        version = f"{facts.version.name} {facts.version.version}, CRI {facts.version.api_version}"
        yield make_line(HealthLevel.OK, "version", version)
    elif is_online and facts.version_problem:
        yield make_line(HealthLevel.UNKNOWN, "version", facts.version_problem)
    elif facts.is_socket and not is_online:
        text = "not asked for, as that opens the socket"
        yield make_line(HealthLevel.OK, "version", text, hints.doctor("--online"))


def _socket_line(facts: RuntimeFacts) -> HealthLine:
    if not facts.socket:
        text = "the socket is not known, as a file of the kubelet cannot be read"
        return make_line(HealthLevel.UNKNOWN, "socket", text)
    place = f"{facts.socket} ({facts.named_by})"
    if facts.is_socket:
        return make_line(HealthLevel.OK, "socket", place)
    why = "does not exist; is the runtime running?" if facts.is_socket is None else "is not a socket"
    command = f"systemctl status {facts.kind.lower().replace('-', '')}" if facts.kind is not None else ""
    return make_line(HealthLevel.PROBLEM, "socket", f"{place} {why}", command)


def check_mirrors(facts: NodeFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield one line for each registry that has mirrors, and one for each file that cannot be used."""
    for file, folder in facts.stale_sources:
        text = (
            f"{file} is newer than {folder}, which is written from it at the start of the service; restart it"
        )
        yield make_line(HealthLevel.WARNING, "registries.yaml", text)
    reported = set()
    for each in facts.mirrors:
        mirrors = each.mirrors
        if mirrors.problem:
            # One file may have settings for many registries.
            if mirrors.file not in reported:
                reported.add(mirrors.file)
                text = f"{mirrors.file}: {mirrors.problem}"
                yield make_line(HealthLevel.PROBLEM, each.name, text)
            continue
        command = hints.about_image("explain", f"{each.name}/image") if " " not in each.name else ""
        yield _mirror_line(each.name, mirrors, command)


def _mirror_line(name: str, mirrors: Mirrors, command: str) -> HealthLine:
    if mirrors.is_blocked:
        return make_line(
            HealthLevel.WARNING, name, f"{mirrors.file} blocks it: {mirrors.runtime} pulls none of it"
        )
    if mirrors.is_login_only:
        text = f"{mirrors.runtime} has a login of its own for it, for pulls without a credential ({mirrors.file})"
        return make_line(HealthLevel.OK, name, text, command)
    way = ", then ".join(each.url for each in mirrors.endpoints)
    doubt = f"; {mirrors.doubt}" if mirrors.doubt else ""
    text = f"{mirrors.runtime} asks {way} ({mirrors.file}{doubt}); credentials are looked up for {name}"
    exposed = [
        each.url for each in mirrors.others if each.is_insecure and each.offer is CredentialOffer.OFFERED
    ]
    if exposed:
        return make_line(
            HealthLevel.WARNING, name, f"{text} and offered without TLS to {exposed[0]}", command
        )
    if any(each.offer is CredentialOffer.WITHHELD for each in mirrors.others):
        text += f", and {mirrors.runtime} does not send them to another host"
    return make_line(HealthLevel.OK, name, text, command)


def check_records(facts: RecordsFacts | None, hints: Hints, *, is_root: bool) -> Iterator[HealthLine]:
    """Yield the policy, and the state of the folder of records."""
    if facts is None:
        return
    if facts.is_off:
        text = f"the feature gate {RECORDS_GATE} is off: every pod may use every image that is on the node"
        yield make_line(HealthLevel.OK, "policy", text)
    elif facts.policy_problem:
        yield make_line(HealthLevel.PROBLEM, "policy", f"{facts.policy_from}: {facts.policy_problem}")
    else:
        yield make_line(HealthLevel.OK, "policy", f"{facts.policy} ({facts.policy_from})")
    folder = f"{facts.root}/image_manager"
    if facts.unreadable:
        command = "" if is_root else hints.doctor(is_root=True)
        text = f"{folder} cannot be read: {facts.unreadable}"
        yield make_line(HealthLevel.UNKNOWN, "records", text, command)
    elif facts.report is None:
        text = f"{folder} does not exist: kubelets keep records from 1.35 on, or with the gate {RECORDS_GATE}"
        yield make_line(HealthLevel.OK, "records", text)
    else:
        yield from _record_lines(folder, facts.count, facts.report, hints)


def _record_lines(folder: str, count: int, report: LintReport, hints: Hints) -> Iterator[HealthLine]:
    counts = Counter(finding.severity for finding in report.findings)
    text = f"{folder} has {count} records"
    if not counts[Severity.ERROR] and not counts[Severity.WARNING]:
        yield make_line(HealthLevel.OK, "records", text, "keyferry records list")
    for severity, level in _LEVELS.items():
        number = counts[severity]
        if number:
            found = f"{text}; lint: {number} {severity}{'s' * (number > 1)}"
            yield make_line(level, "records", found, hints.lint(folder), count=number)


def check_disk(facts: DiskFacts | None) -> Iterator[HealthLine]:
    """Yield the free space of the kubelet's root."""
    if facts is None or not facts.total:
        return
    percent = 100 * facts.free // facts.total
    text = f"{facts.path}: {_size(facts.free)} of {_size(facts.total)} are free ({percent} %)"
    if percent >= _MIN_FREE_PERCENT:
        yield make_line(HealthLevel.OK, "disk", text)
    else:
        text = f"{text}; below {_MIN_FREE_PERCENT} % the kubelet evicts pods and removes images by default"
        yield make_line(HealthLevel.WARNING, "disk", text, f"df -h {facts.path}")


def _size(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
