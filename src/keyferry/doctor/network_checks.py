"""Checks of the proxies of kubelet and runtime, of the registries as they answer, and of the clock, by their dates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._net.errors import UrlError
from keyferry._net.proxy import Origin, find_proxy, make_origin, parse_proxy
from keyferry._net.url import parse_url
from keyferry.doctor.facts import SOCKS, NodeFacts, ProbeRoute, RegistryProbe
from keyferry.doctor.health import HealthLevel, HealthLine, Hints, make_line

# The metadata service that the plugins for these registries ask.
_ADDRESS, _GOOGLE = "169.254.169.254", "metadata.google.internal"
_METADATA = {
    ".amazonaws.com": _ADDRESS,
    ".amazonaws.com.cn": _ADDRESS,
    ".azurecr.io": _ADDRESS,
    "gcr.io": _GOOGLE,
    ".pkg.dev": _GOOGLE,
}
_MAX_NAMES = 4
# A host that NO_PROXY hardly names.
_ANY_HOST = "registry.invalid"
_ANSWERS = {200: "answers, and asks for no credential", 401: "answers, and asks for a credential"}
# A signature of AWS is refused after five minutes; tokens are often refused earlier.
_WARN_SECONDS, _WRONG_SECONDS = 60, 300


def check_proxies(facts: NodeFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield who uses a proxy for which registry, and what goes to a proxy that should not."""
    kubelet, runtime = facts.kubelet, facts.runtime
    if kubelet.kubelet is not None:
        yield from _environment("kubelet and its plugins", kubelet.environment, facts, hints)
        yield from _metadata(kubelet.environment or {}, facts)
    if runtime is not None and runtime.process is not None:
        who = f"{runtime.process.program} (pulls the images)"
        yield from _environment(who, runtime.environment, facts, hints)


def _environment(
    who: str, environ: Mapping[str, str] | None, facts: NodeFacts, hints: Hints
) -> Iterator[HealthLine]:
    if environ is None:
        command = "" if facts.is_root else hints.doctor(is_root=True)
        yield make_line(HealthLevel.UNKNOWN, who, "the environment cannot be read", command)
        return
    problems = list(_problems(who, environ))
    yield from problems
    if not problems:
        yield make_line(HealthLevel.OK, who, _route(environ, facts.registries))


def _route(environ: Mapping[str, str], registries: Sequence[str]) -> str:
    """Return which registries are asked through the proxy for HTTPS, and which are not."""
    proxy = find_proxy(_origin(_ANY_HOST), environ)[1]
    through = [registry for registry in registries if find_proxy(_origin(registry), environ)[1]]
    direct = [registry for registry in registries if registry not in through]
    if not proxy and not through:
        return "no proxy for HTTPS"
    # Without the user info, which may have a password.
    url = parse_url(proxy or find_proxy(_origin(through[0]), environ)[1])
    text = f"proxy {'' if url is None else url.host} for {_names(through) or 'other hosts'}"
    return f"{text}, none for {_names(direct)}" if direct else text


def _problems(who: str, environ: Mapping[str, str]) -> Iterator[HealthLine]:
    """Yield the proxies that cannot be used; the message does not quote them, as they may have a password."""
    for scheme in ("https", "http"):
        name, text = find_proxy(Origin(scheme=scheme, host=_ANY_HOST, port=1), environ)
        if not text or text.startswith(SOCKS):
            continue
        try:
            parse_proxy(text, name)
        except UrlError as error:
            yield make_line(HealthLevel.PROBLEM, who, str(error))


def _metadata(environ: Mapping[str, str], facts: NodeFacts) -> Iterator[HealthLine]:
    """Yield a warning if a cloud's plugin may ask its metadata service through a proxy."""
    providers = facts.config.providers if facts.config is not None else ()
    hosts = [pattern.partition("/")[0] for provider in providers for pattern in provider.patterns]
    services = dict.fromkeys(
        service for end, service in _METADATA.items() if any(host.endswith(end) for host in hosts)
    )
    asked = [service for service in services if find_proxy(make_origin("http", service), environ)[1]]
    if asked:
        text = (
            f"HTTP_PROXY covers {_names(asked)}, where the plugins of cloud registries learn who the node is: a plugin "
            f"that honours it asks the proxy instead; add {','.join(asked)} to the kubelet's NO_PROXY"
        )
        yield make_line(HealthLevel.WARNING, "NO_PROXY", text)


def _origin(registry: str) -> Origin:
    return make_origin("https", REGISTRY_HOST if registry == HUB else registry)


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def check_registries(facts: NodeFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield the answer of each registry that was asked, and how many were not."""
    if not facts.is_online:
        return
    for probe in facts.probes:
        yield _answer(probe, hints)
    left = len(facts.registries) - len(facts.probes)
    if left > 0:
        yield make_line(HealthLevel.UNKNOWN, "registries", f"{left} more registries were not asked")
    if not facts.registries:
        text = "no pattern names a registry without a wildcard, so none was asked"
        yield make_line(HealthLevel.OK, "registries", text, hints.about_image("can-pull"))


def _answer(probe: RegistryProbe, hints: Hints) -> HealthLine:
    if probe.route.is_socks:
        text = f"was not asked: {probe.route.owner or 'keyferry'} has a SOCKS proxy for it, which keyferry cannot use"
        return make_line(HealthLevel.UNKNOWN, probe.registry, text)
    how = _how(probe.route)
    if probe.problem:
        return make_line(HealthLevel.PROBLEM, probe.registry, probe.problem + how, _curl(probe))
    meaning = _ANSWERS.get(probe.status)
    if meaning is not None:
        return make_line(HealthLevel.OK, probe.registry, meaning + how)
    text = f"answers with status {probe.status} where a registry answers with 200 or 401{how}"
    command = hints.about_image("can-pull", f"{probe.registry}/image")
    return make_line(HealthLevel.WARNING, probe.registry, text, command)


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
        yield make_line(HealthLevel.OK, "clock", f"within {_WARN_SECONDS} s of {registry}")
        return
    how = "behind" if skew > 0 else "ahead of"
    text = (
        f"this machine's clock is {seconds} s {how} that of {registry}: signatures and tokens may be refused"
    )
    level = HealthLevel.WARNING if seconds <= _WRONG_SECONDS else HealthLevel.PROBLEM
    yield make_line(level, "clock", text, "timedatectl status")
