"""The proxies in the environments of the kubelet, whose plugins inherit them, and of the container runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._net.errors import UrlError
from keyferry._net.proxy import Origin, find_proxy, make_origin, parse_proxy
from keyferry._net.url import parse_url
from keyferry.doctor.facts import SOCKS, NodeFacts
from keyferry.doctor.health import HealthLevel, HealthLine
from keyferry.doctor.hints import Hints

__all__ = ["check_proxies"]

# The metadata service that the plugins for these registries ask.
_ADDRESS, _GOOGLE = "169.254.169.254", "metadata.google.internal"
_METADATA = {
    ".amazonaws.com": _ADDRESS,
    ".amazonaws.com.cn": _ADDRESS,
    ".azurecr.io": _ADDRESS,
    "gcr.io": _GOOGLE,
    ".pkg.dev": _GOOGLE,
}
_MOST_NAMES = 4
# A host that NO_PROXY hardly names.
_ANY_HOST = "registry.invalid"


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
        yield HealthLine(
            level=HealthLevel.UNKNOWN,
            subject=who,
            text="the environment cannot be read",
            next_command=command,
        )
        return
    problems = list(_problems(who, environ))
    yield from problems
    if not problems:
        yield HealthLine(level=HealthLevel.OK, subject=who, text=_route(environ, facts.registries))


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
            yield HealthLine(level=HealthLevel.PROBLEM, subject=who, text=str(error))


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
        yield HealthLine(level=HealthLevel.WARNING, subject="NO_PROXY", text=text)


def _origin(registry: str) -> Origin:
    return make_origin("https", REGISTRY_HOST if registry == HUB else registry)


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
