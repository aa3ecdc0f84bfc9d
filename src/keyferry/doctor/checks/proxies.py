"""The proxies in the environments of the kubelet, whose plugins inherit them, and of the container runtime."""

from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._net.errors import UrlError
from keyferry._net.proxy import Origin, find_proxy, make_origin, parse_proxy
from keyferry.doctor.facts import NodeFacts
from keyferry.doctor.health import HealthLevel, HealthLine
from keyferry.doctor.hints import Hints

__all__ = ["check_proxies"]

# The metadata services of the clouds, and the registries whose plugins ask them.
_METADATA = ("169.254.169.254", "metadata.google.internal")
_CLOUD_REGISTRIES = (".amazonaws.com", ".azurecr.io", ".gcr.io", ".pkg.dev", "gcr.io", ".amazonaws.com.cn")
_MOST_NAMES = 4


def check_proxies(facts: NodeFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield who uses a proxy for which registry, and what goes to a proxy that should not."""
    kubelet, runtime = facts.kubelet, facts.runtime
    if kubelet.kubelet is not None:
        yield from _environment("the kubelet and its plugins", kubelet.environment, facts, hints)
        yield from _metadata(kubelet.environment or {}, facts)
    if runtime is not None and runtime.process is not None:
        who = f"{runtime.process.program}, which pulls the images,"
        yield from _environment(who, runtime.environment, facts, hints)


def _environment(
    who: str, environ: Mapping[str, str] | None, facts: NodeFacts, hints: Hints
) -> Iterator[HealthLine]:
    if environ is None:
        command = "" if facts.is_root else hints.doctor(is_root=True)
        text = f"the environment of {who.rstrip(',')} cannot be read"
        yield HealthLine(HealthLevel.UNKNOWN, "proxy", text, command)
        return
    problems = list(_problems(who, environ))
    yield from problems
    if problems:
        return
    routes = [(registry, find_proxy(_origin(registry), environ)[1]) for registry in facts.registries]
    through = [registry for registry, proxy in routes if proxy]
    proxy = (
        next((text for _, text in routes if text), "") or find_proxy(_origin("registry.invalid"), environ)[1]
    )
    if not proxy:
        yield HealthLine(HealthLevel.OK, "proxy", f"{who} use no proxy for HTTPS")
        return
    direct = [registry for registry, way in routes if not way]
    name = parse_proxy(proxy, "HTTPS_PROXY").authority
    text = f"{who} use the proxy {name} for {_names(through) or 'other hosts'}"
    yield HealthLine(HealthLevel.OK, "proxy", f"{text}, and none for {_names(direct)}" if direct else text)


def _problems(who: str, environ: Mapping[str, str]) -> Iterator[HealthLine]:
    """Yield the proxies that cannot be used; the message does not quote them, as they may have a password."""
    for scheme in ("https", "http"):
        name, text = find_proxy(Origin(scheme, "registry.invalid", 1), environ)
        try:
            if text:
                parse_proxy(text, name)
        except UrlError as error:
            yield HealthLine(HealthLevel.PROBLEM, name, f"in the environment of {who.rstrip(',')}: {error}")


def _metadata(environ: Mapping[str, str], facts: NodeFacts) -> Iterator[HealthLine]:
    """Yield a warning if a cloud's plugin would ask its metadata service through a proxy."""
    patterns = [
        pattern.partition("/")[0]
        for provider in (facts.config.providers if facts.config is not None else ())
        for pattern in provider.patterns
    ]
    if not any(pattern.endswith(_CLOUD_REGISTRIES) for pattern in patterns):
        return
    asked = [host for host in _METADATA if find_proxy(make_origin("http", host), environ)[1]]
    if asked:
        text = (
            f"the plugins of cloud registries ask {_names(asked)} for the node's identity, and HTTP_PROXY sends that "
            f"to a proxy; add {','.join(asked)} to NO_PROXY of the kubelet"
        )
        yield HealthLine(HealthLevel.WARNING, "NO_PROXY", text)


def _origin(registry: str) -> Origin:
    return make_origin("https", REGISTRY_HOST if registry == HUB else registry)


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
