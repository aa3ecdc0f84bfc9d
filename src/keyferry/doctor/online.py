"""Ask registries, the container runtime and node agents, without a credential and within a time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from keyferry._core.clock import time_ns
from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._core.host_root import on_host
from keyferry._core.values import replace
from keyferry._net import agent as agent_client
from keyferry._net.agent import Fallback
from keyferry._net.dates import parse_date
from keyferry._net.deadline import Deadline
from keyferry._net.errors import UrlError
from keyferry._net.proxy import find_proxy, make_origin, parse_proxy
from keyferry.doctor.facts import SOCKS, AgentFacts, AgentProblem, ProbeRoute, RegistryProbe
from keyferry.errors import ContainerRuntimeError, EnvironmentProblem, HttpError, RegistryError
from keyferry.pulls.cri import RuntimeInfo, connect_runtime
from keyferry.pulls.registry.transport import RegistryRoute, Transport, admit_user_named, find_origin

__all__ = ["MAX_REGISTRIES", "ask_agent", "ask_registries", "ask_runtime"]

MAX_REGISTRIES = 16
_AT_ONCE = 8
_PING = "/v2/"


def ask_registries(
    registries: Sequence[str],
    ca_file: str,
    timeout_seconds: float,
    clock: Callable[[], int] = time_ns,
    *,
    owner: str = "",
    environ: Mapping[str, str] | None = None,
) -> tuple[RegistryProbe, ...]:
    """Request ``/v2/`` from the first registries; all requests together take at most *timeout_seconds*.

    The proxies are those of *environ*, the environment of *owner*; by default those of this process.
    """
    if not registries:
        return ()
    with (
        closing(Transport(RegistryRoute(ca_file=ca_file), Deadline(timeout_seconds), environ)) as transport,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        asked = registries[:MAX_REGISTRIES]
        probes = pool.map(lambda each: _ask(transport, each, clock), asked)
        return tuple(
            replace(probe, route=_route(each, owner, environ))
            for each, probe in zip(asked, probes, strict=True)
        )


def _route(registry: str, owner: str, environ: Mapping[str, str] | None) -> ProbeRoute:
    name, text = find_proxy(make_origin("https", REGISTRY_HOST if registry == HUB else registry), environ)
    if not text or text.startswith(SOCKS):
        return ProbeRoute(owner=owner, is_socks=bool(text))
    try:
        proxy = parse_proxy(text, name)
    except UrlError:
        return ProbeRoute(owner=owner)  # the probe has the problem
    return ProbeRoute(owner=owner, proxy=str(proxy), has_login=bool(proxy.user_info))


def _ask(transport: Transport, registry: str, clock: Callable[[], int]) -> RegistryProbe:
    try:
        origin = find_origin(transport, registry)
        admit = admit_user_named(registry, origin, is_insecure=False)
        with transport.request(replace(origin, target=_PING), "GET", {}, admit=admit) as answer:
            status, date = answer.head.status, answer.head.value("date")
    except (HttpError, RegistryError) as error:
        return RegistryProbe(registry=registry, problem=str(error))
    sent_at = parse_date(date)
    skew = None if sent_at is None else sent_at - clock() / 1e9
    return RegistryProbe(registry=registry, status=status, skew_seconds=skew)


def ask_runtime(socket: str, timeout_seconds: float) -> tuple[RuntimeInfo | None, str]:
    """Return the version of a container runtime, or why it is not known."""
    try:
        with connect_runtime(socket, timeout_seconds=timeout_seconds) as runtime:
            return runtime.version(), ""
    except (ContainerRuntimeError, EnvironmentProblem) as error:
        return None, str(error)


def ask_agent(facts: AgentFacts, config_hash: str, timeout_seconds: float) -> AgentFacts:
    """Return the facts with what the agent tells about itself."""
    reply = agent_client.ask_agent(
        on_host(facts.socket), "/v1/status", answer_seconds=timeout_seconds, method="GET"
    )
    if isinstance(reply, Fallback):
        return replace(facts, problem=reply.message)
    if reply.status == 403:
        return replace(facts, is_closed=True)
    status = reply.read_object()
    config, health = status.get("config"), status.get("health")
    if reply.status != 200 or not isinstance(config, dict) or not isinstance(health, dict):
        return replace(facts, problem=f"its status is not understood here (HTTP status {reply.status})")
    return replace(
        facts,
        version=str(status.get("version", "")),
        config=str(config.get("providerConfig", "")),
        has_same_config=not config_hash or config.get("hash") == config_hash,
        verdict=str(health.get("verdict", "")),
        problems=tuple(_problems(health.get("problems"))),
    )


def _problems(found: object) -> Iterator[AgentProblem]:
    """Yield what the agent names as not well."""
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict):
            yield AgentProblem(
                is_bad=each.get("level") == "bad",
                text=str(each.get("text", "")),
                reason=str(each.get("reason") or ""),
            )
