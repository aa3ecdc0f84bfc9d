"""The registries as they answer, and the clock, by the date in their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keyferry.doctor.facts import NodeFacts, ProbeRoute, RegistryProbe
from keyferry.doctor.health import HealthLevel, HealthLine
from keyferry.doctor.hints import Hints

__all__ = ["check_clock", "check_registries"]

_ANSWERS = {200: "answers, and asks for no credential", 401: "answers, and asks for a credential"}
# A signature of AWS is refused after five minutes; tokens are often refused earlier.
_WARN_SECONDS, _WRONG_SECONDS = 60, 300


def check_registries(facts: NodeFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield the answer of each registry that was asked, and how many were not."""
    if not facts.is_online:
        return
    for probe in facts.probes:
        yield _answer(probe, hints)
    left = len(facts.registries) - len(facts.probes)
    if left > 0:
        yield HealthLine(
            level=HealthLevel.UNKNOWN, subject="registries", text=f"{left} more registries were not asked"
        )
    if not facts.registries:
        text = "no pattern names a registry without a wildcard, so none was asked"
        yield HealthLine(
            level=HealthLevel.OK, subject="registries", text=text, next_command=hints.about_image("can-pull")
        )


def _answer(probe: RegistryProbe, hints: Hints) -> HealthLine:
    if probe.route.is_socks:
        text = f"was not asked: {probe.route.owner or 'keyferry'} has a SOCKS proxy for it, which keyferry cannot use"
        return HealthLine(level=HealthLevel.UNKNOWN, subject=probe.registry, text=text)
    how = _how(probe.route)
    if probe.problem:
        return HealthLine(
            level=HealthLevel.PROBLEM,
            subject=probe.registry,
            text=probe.problem + how,
            next_command=_curl(probe),
        )
    meaning = _ANSWERS.get(probe.status)
    if meaning is not None:
        return HealthLine(level=HealthLevel.OK, subject=probe.registry, text=meaning + how)
    text = f"answers with status {probe.status} where a registry answers with 200 or 401{how}"
    command = hints.about_image("can-pull", f"{probe.registry}/image")
    return HealthLine(level=HealthLevel.WARNING, subject=probe.registry, text=text, next_command=command)


def _how(route: ProbeRoute) -> str:
    """Return which proxy was used, and whose environment names it."""
    if not route.proxy and not route.owner:
        return ""
    way = f"through the proxy {route.proxy}" if route.proxy else "without a proxy"
    return f" ({way}, by the environment of {route.owner or 'keyferry'})"


def _curl(probe: RegistryProbe) -> str:
    """Return the same request with curl; none if the proxy wants a password, which is not shown."""
    route, url = probe.route, f"https://{probe.registry}/v2/"
    if not route.owner:
        return f"curl -v {url}"
    if not route.proxy:
        return f"curl -v --noproxy '*' {url}"
    return "" if route.has_login else f"curl -v --proxy {route.proxy} {url}"


def check_clock(probes: Sequence[RegistryProbe]) -> Iterator[HealthLine]:
    """Yield how far this machine's clock is from that of the registries; the nearest of them counts."""
    dated = [(probe.skew_seconds, probe.registry) for probe in probes if probe.skew_seconds is not None]
    if not dated:
        return
    # A single registry may be wrong; this machine is wrong if it agrees with none.
    skew, registry = min(dated, key=lambda each: abs(each[0]))
    seconds = round(abs(skew))
    if seconds <= _WARN_SECONDS:
        yield HealthLine(
            level=HealthLevel.OK, subject="clock", text=f"within {_WARN_SECONDS} s of {registry}"
        )
        return
    how = "behind" if skew > 0 else "ahead of"
    text = (
        f"this machine's clock is {seconds} s {how} that of {registry}: signatures and tokens may be refused"
    )
    level = HealthLevel.WARNING if seconds <= _WRONG_SECONDS else HealthLevel.PROBLEM
    yield HealthLine(level=level, subject="clock", text=text, next_command="timedatectl status")
