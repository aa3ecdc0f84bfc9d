"""The running kubelet: its process, its flags, and its files."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry.api.meta import format_time
from keyferry.doctor.facts import KubeletFacts
from keyferry.doctor.health import HealthLevel, HealthLine
from keyferry.doctor.hints import Hints
from keyferry.images.node.changes import Newer
from keyferry.images.node.kubelet import Kubelet
from keyferry.images.node.settings import RECORDS_GATE
from keyferry.lint.kinds.kubelet_config import describe_panic
from keyferry.lint.versions import MAX_PARALLEL_PULLS, panics_beyond

__all__ = ["check_kubelet"]

_SECOND = 1_000_000_000


def check_kubelet(facts: KubeletFacts, hints: Hints, *, is_root: bool) -> Iterator[HealthLine]:
    """Yield lines about the kubelets; without one, what hides it or that none runs."""
    kubelet, kubelets = facts.kubelet, facts.kubelets
    for other in kubelets.found:
        if not other.is_trusted:
            yield HealthLine(
                level=HealthLevel.WARNING,
                subject="kubelet",
                text=_foreign(other),
                next_command=f"ps -fp {other.pid}",
            )
    if kubelet is None:
        yield _none(kubelets.hidden, hints, is_root=is_root)
        return
    yield HealthLine(
        level=HealthLevel.OK, subject="kubelet", text=f"process {kubelet.pid} ({kubelet.program}) runs"
    )
    if len(kubelets.trusted) > 1:
        others = ", ".join(str(each.pid) for each in kubelets.trusted[1:])
        text = f"other kubelets run here too, processes {others}; the settings are those of {kubelet.pid}"
        yield HealthLine(level=HealthLevel.WARNING, subject="kubelet", text=text)
    yield HealthLine(level=HealthLevel.OK, subject="flags", text=_flags(kubelet))
    yield from _files(facts, hints, is_root=is_root)
    yield from (_newer(each, kubelet) for each in facts.newer)
    yield from _parallel_pulls(facts)


def _foreign(kubelet: Kubelet) -> str:
    users = ", ".join(map(str, sorted(kubelet.users)))
    return f"process {kubelet.pid} is called {kubelet.program} but belongs to user {users}, so it is ignored"


def _none(hidden: str, hints: Hints, *, is_root: bool) -> HealthLine:
    if hidden:
        command = "" if is_root else hints.doctor(is_root=True)
        return HealthLine(
            level=HealthLevel.UNKNOWN,
            subject="kubelet",
            text=f"no kubelet is visible, and {hidden}",
            next_command=command,
        )
    return HealthLine(
        level=HealthLevel.WARNING,
        subject="kubelet",
        text="no kubelet is running",
        next_command="systemctl status kubelet; journalctl -u kubelet -e",
    )


def _flags(kubelet: Kubelet) -> str:
    shown = [f"{name}={value}" for name, value in sorted(kubelet.flags.items())]
    return " ".join(shown) or "none of those that matter for pulls"


def _files(facts: KubeletFacts, hints: Hints, *, is_root: bool) -> Iterator[HealthLine]:
    settings = facts.settings
    if settings is None:
        return
    for note in settings.notes:
        if is_root:
            yield HealthLine(level=HealthLevel.PROBLEM, subject="config file", text=note)
        else:
            yield HealthLine(
                level=HealthLevel.UNKNOWN,
                subject="config file",
                text=note,
                next_command=hints.doctor(is_root=True),
            )
    for text in settings.ignored:
        yield HealthLine(level=HealthLevel.WARNING, subject="config file", text=text)
    named = [settings.kubelet.flags.get(flag, "") for flag in ("--config", "--config-dir")]
    files = ", ".join(filter(None, named))
    if files and not settings.notes and not settings.ignored:
        yield HealthLine(level=HealthLevel.OK, subject="config file", text=f"{files} can be read")


def _newer(newer: Newer, kubelet: Kubelet) -> HealthLine:
    """Return the line about a file that changed after the kubelet started, which reads it only then."""
    changed, started = (format_time(int(seconds) * _SECOND) for seconds in (newer.changed, newer.started))
    text = (
        f"{newer.path} ({newer.kind}) changed at {changed}, after the kubelet started at {started}: the kubelet may "
        "not have read it as it is now; restart the kubelet"
    )
    command = "systemctl restart kubelet" if kubelet.program == "kubelet" else ""
    return HealthLine(level=HealthLevel.WARNING, subject="restart", text=text, next_command=command)


def _parallel_pulls(facts: KubeletFacts) -> Iterator[HealthLine]:
    """Yield a problem if the kubelet panics with so many pulls, a warning if that is so in some versions."""
    settings = facts.settings
    found = None if settings is None else settings.parallel_pulls
    if settings is None or found is None or found <= MAX_PARALLEL_PULLS:
        return
    text = describe_panic(found)
    if not facts.version:
        if settings.gates.get(RECORDS_GATE) is not False:
            text += "; the version of this kubelet is not known (--kubernetes)"
            yield HealthLine(level=HealthLevel.WARNING, subject="maxParallelImagePulls", text=text)
    elif panics_beyond(facts.version, settings.gates):
        yield HealthLine(level=HealthLevel.PROBLEM, subject="maxParallelImagePulls", text=text)
