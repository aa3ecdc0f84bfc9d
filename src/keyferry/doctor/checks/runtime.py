"""The container runtime: its socket, its process, and where it goes for images."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry.doctor.facts import NodeFacts, RuntimeFacts
from keyferry.doctor.health import HealthLevel, HealthLine
from keyferry.doctor.hints import Hints
from keyferry.pulls.mirrors.endpoints import CredentialOffer, Mirrors

__all__ = ["check_mirrors", "check_runtime"]


def check_runtime(facts: RuntimeFacts | None, hints: Hints, *, is_online: bool) -> Iterator[HealthLine]:
    """Yield lines about the socket, the process and, online, the version."""
    if facts is None:
        return
    yield _socket(facts)
    if facts.process is not None:
        yield HealthLine(
            level=HealthLevel.OK,
            subject="process",
            text=f"{facts.process.program}, process {facts.process.pid}, runs",
        )
    if facts.version is not None:
        version = f"{facts.version.name} {facts.version.version}, CRI {facts.version.api_version}"
        yield HealthLine(level=HealthLevel.OK, subject="version", text=version)
    elif is_online and facts.version_problem:
        yield HealthLine(level=HealthLevel.UNKNOWN, subject="version", text=facts.version_problem)
    elif facts.is_socket and not is_online:
        text = "not asked for, as that opens the socket"
        yield HealthLine(
            level=HealthLevel.OK, subject="version", text=text, next_command=hints.doctor("--online")
        )


def _socket(facts: RuntimeFacts) -> HealthLine:
    if not facts.socket:
        text = "the socket is not known, as a file of the kubelet cannot be read"
        return HealthLine(level=HealthLevel.UNKNOWN, subject="socket", text=text)
    place = f"{facts.socket} ({facts.named_by})"
    if facts.is_socket:
        return HealthLine(level=HealthLevel.OK, subject="socket", text=place)
    why = "does not exist; is the runtime running?" if facts.is_socket is None else "is not a socket"
    command = f"systemctl status {facts.kind.lower().replace('-', '')}" if facts.kind is not None else ""
    return HealthLine(
        level=HealthLevel.PROBLEM, subject="socket", text=f"{place} {why}", next_command=command
    )


def check_mirrors(facts: NodeFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield one line for each registry that has mirrors, and one for each file that cannot be used."""
    for file, folder in facts.stale_sources:
        text = (
            f"{file} is newer than {folder}, which is written from it at the start of the service; restart it"
        )
        yield HealthLine(level=HealthLevel.WARNING, subject="registries.yaml", text=text)
    told = set()
    for each in facts.mirrors:
        mirrors = each.mirrors
        if mirrors.problem:
            # One file may have settings for many registries.
            if mirrors.file not in told:
                told.add(mirrors.file)
                text = f"{mirrors.file}: {mirrors.problem}"
                yield HealthLine(level=HealthLevel.PROBLEM, subject=each.name, text=text)
            continue
        command = hints.about_image("explain", f"{each.name}/image") if " " not in each.name else ""
        yield _mirrors(each.name, mirrors, command)


def _mirrors(name: str, mirrors: Mirrors, command: str) -> HealthLine:
    if mirrors.is_blocked:
        return HealthLine(
            level=HealthLevel.WARNING,
            subject=name,
            text=f"{mirrors.file} blocks it: {mirrors.runtime} pulls none of it",
        )
    if mirrors.is_login_only:
        text = f"{mirrors.runtime} has a login of its own for it, for pulls without a credential ({mirrors.file})"
        return HealthLine(level=HealthLevel.OK, subject=name, text=text, next_command=command)
    way = ", then ".join(each.url for each in mirrors.endpoints)
    doubt = f"; {mirrors.doubt}" if mirrors.doubt else ""
    text = f"{mirrors.runtime} asks {way} ({mirrors.file}{doubt}); credentials are looked up for {name}"
    exposed = [
        each.url for each in mirrors.others if each.is_insecure and each.offer is CredentialOffer.OFFERED
    ]
    if exposed:
        return HealthLine(
            level=HealthLevel.WARNING,
            subject=name,
            text=f"{text} and offered without TLS to {exposed[0]}",
            next_command=command,
        )
    if any(each.offer is CredentialOffer.WITHHELD for each in mirrors.others):
        text += f", and {mirrors.runtime} does not send them to another host"
    return HealthLine(level=HealthLevel.OK, subject=name, text=text, next_command=command)
