"""What those who manage the agent ask it for: its status, and its cache for a successor; and the client that asks.

Cached answers are handed over to the process that takes the agent's place, so that an upgrade does not run all plugins
at once: only those that any lookup may get, between processes of the same version and user. What was got with a service
account's token stays where it is, since its key holds in one process only.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from hashlib import sha256

from keyferry import __version__
from keyferry._core.clock import monotonic_ns
from keyferry._core.secrets import mask_arguments
from keyferry._core.user_info import hide_user_info
from keyferry._net.agent import ROOT, Fallback, ask_agent
from keyferry._net.listen_address import ListenAddress, parse_listen_address
from keyferry.agent.health import health_fields
from keyferry.agent.journal import Usage
from keyferry.agent.lookups import wall_time
from keyferry.agent.message import AgentReply, reply_document, reply_status
from keyferry.agent.providers import AgentProviders
from keyferry.agent.refresh import Refresher
from keyferry.agent.settings import socket_options
from keyferry.agent.state import AgentState, Reloader
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.api.meta import format_time
from keyferry.errors import EnvironmentProblem
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.lookup import Providers
from keyferry.images.provider.cache import CACHE_KEY_TYPES
from keyferry.images.provider.plugin import ExecPlugin
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.state import JUDGED_RUNS, judged_failures, standing_of
from keyferry.images.reference import parse_image
from keyferry.page.model import Health

_SECOND, _MILLISECOND = 1_000_000_000, 1_000_000
_MAX_REFRESHES = 100
_MAX_HANDED_BYTES = 16 * 1024 * 1024
# People wait for an agent that is busy, or that loads its config anew.
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 70.0
# A successor does not wait for an agent that is stuck.
_STATUS_SECONDS = 5.0
# The whole cache, for a successor.
_MAX_BYTES = 32 * 1024 * 1024
# A refused config is an answer: the document has its problems.
_ANSWERS = (200, 422)
Json = dict[str, object]


class AgentUnavailableError(EnvironmentProblem):
    """There is no agent at the socket, or it did not give the answer."""


class AgentAbsentError(AgentUnavailableError):
    """Nobody listens at the socket; the socket of an agent that was killed may be there."""


def ask_for_document(
    path: str,
    method: str,
    target: str,
    *,
    owner: int | None = None,
    only_uid: int | None = None,
    answer_seconds: float = _ANSWER_SECONDS,
) -> dict[str, object]:
    """Send one request without a body and return the document of the answer; raise AgentUnavailableError.

    With *only_uid*, nothing is sent unless this user listens. Who owns the socket does not matter unless *owner* is
    given, as in ``ask_agent``: the agent may have a user of its own, and nothing secret is sent.
    """
    reply = ask_agent(
        os.path.abspath(path),
        target,
        owner=owner,
        only_uid=only_uid,
        connect_seconds=_CONNECT_SECONDS,
        answer_seconds=answer_seconds,
        max_bytes=_MAX_BYTES,
        method=method,
    )
    if isinstance(reply, Fallback):
        if reply.is_unattended:
            command = shlex.join(("keyferry", "agent", "run", *socket_options(path, os.environ)))
            raise AgentAbsentError(f"{path}: no agent listens here; start one with '{command}'")
        raise AgentUnavailableError(f"{path}: {reply.message}")
    document = reply.read_object()
    if not document:
        raise AgentUnavailableError(f"{path}: the answer is no document of an agent")
    if reply.status not in _ANSWERS:
        raise AgentUnavailableError(f"{path}: the agent refuses: {document.get('message', reply.status)}")
    return document


def ask_for_page_link(path: str, *, is_opened: bool = False) -> tuple[str, str]:
    """Return a link to the agent's page, and until when it works; raise AgentUnavailableError.

    A link that *is_opened* in a browser is taken from a socket of root or of this user alone.
    """
    document = ask_for_document(path, "POST", "/v1/page", owner=ROOT if is_opened else None)
    url = str(document.get("url"))
    found = re.fullmatch(r"http://([\w.:[\]]+)/[\w/?=&-]*", url, re.ASCII)
    address = parse_listen_address(found[1]) if found is not None else None
    if address is None or not address.is_loopback or not address.port:
        raise AgentUnavailableError(f"{path}: the answer is no link to a page on this machine")
    return url, str(document.get("expiresAt"))


class PredecessorPorts:
    """The TCP ports of the agent whose place this process takes; only these may be shared for a while."""

    def __init__(self) -> None:
        self._ports: frozenset[int] | None = frozenset()

    def find(self, path: str) -> None:
        """Ask the agent that listens at *path*, if there is one."""
        uid = os.geteuid()
        try:
            document = ask_for_document(
                path, "GET", "/v1/status", only_uid=uid, answer_seconds=_STATUS_SECONDS
            )
        except AgentAbsentError:
            return
        except AgentUnavailableError:
            self._ports = None  # it does not tell: its place is taken all the same
            return
        # An address, and the URL of the page.
        texts = (str(document.get(name) or "").rstrip("/") for name in ("metrics", "page"))
        ports = (text.rpartition(":")[2] for text in texts)
        self._ports = frozenset(int(port) for port in ports if port.isdecimal())

    def __contains__(self, address: object) -> bool:
        return isinstance(address, ListenAddress) and (self._ports is None or address.port in self._ports)


def status_fields(
    reloader: Reloader, refresher: Refresher, usage: Usage, *, health: Health, process: Json
) -> Json:
    """Return the fields of the status document; *process* has those of the process."""
    state = reloader.state
    return {
        "version": __version__,
        "health": health_fields(health),
        **process,
        "config": _loaded_config(state),
        "reload": _reload(reloader),
        "providers": [_provider(each) for each in state.providers.providers],
        "refresh": _refreshes(refresher),
        "callers": [
            {
                "uid": uid,
                "requests": used.requests,
                "refused": used.refused,
                "lastAt": format_time(int(used.last_at * _SECOND)),
            }
            for uid, used in sorted(usage.users().items())
        ],
    }


def _loaded_config(state: AgentState) -> Json:
    settings = state.settings
    return {
        "agentConfig": settings.config_file or None,
        "providerConfig": settings.text("providerConfig"),
        "binDir": settings.text("binDir"),
        "hash": state.providers.config_hash,
        "loadedAt": format_time(int(state.loaded_at * _SECOND)),
        "notes": list(settings.notes),
    }


def _reload(reloader: Reloader) -> Json:
    last = reloader.last
    return {
        "at": format_time(int(last.at * _SECOND)),
        "applied": last.is_applied,
        "problems": list(last.problems),
        "notes": list(last.notes),
        "succeeded": reloader.succeeded,
        "failed": reloader.failed,
    }


def _provider(provider: Provider) -> Json:
    counts = provider.counters.read()
    judged = counts.recent[-JUDGED_RUNS:]
    shared, relayed = provider.cache_uses()
    soonest = provider.soonest_expiry_seconds()
    return {
        "name": provider.name,
        "state": str(standing_of(provider, counts).state),
        "matchImages": list(map(hide_user_info, provider.config.match_images or ())),
        "plugin": _plugin(provider),
        "cache": {
            "entries": shared.valid,
            "tenantEntries": relayed.valid,
            "bytes": shared.bytes + relayed.bytes,
            "expiresAt": None if soonest is None else format_time(time.time_ns() + int(soonest * _SECOND)),
        },
        "hits": counts.hits,
        "shared": counts.shared,
        "runs": counts.runs,
        "recent": {"runs": len(judged), "failed": judged_failures(judged)},
        "failures": {str(kind): number for kind, number in sorted(counts.failures.items())},
        "lastFailure": _last_failure(provider),
    }


def _plugin(provider: Provider) -> Json | None:
    """Return what the plugin is given: path, arguments, the names of its variables, and its user."""
    plugin = provider.plugin
    if not isinstance(plugin, ExecPlugin):
        return None
    return {
        "path": plugin.path,
        "args": list(mask_arguments(plugin.args)),
        "env": [name for name, _ in plugin.env],
        "environment": "the agent's own",
        "uid": os.geteuid(),
        "gid": os.getegid(),
    }


def _last_failure(provider: Provider) -> Json | None:
    last = provider.last_failure
    if last is None:
        return None
    return {
        "at": wall_time(last.at_ns, monotonic_ns()),
        "image": last.image,
        "cause": str(last.error.kind),
        "message": str(last.error),
    }


def _refreshes(refresher: Refresher) -> Json:
    upcoming, now_ns = refresher.plan.upcoming(), monotonic_ns()
    return {
        "on": refresher.is_on,
        "planned": len(upcoming),
        "succeeded": refresher.succeeded,
        "failed": refresher.failed,
        "next": [
            {
                "at": wall_time(at_ns, now_ns),
                "provider": each.provider,
                "for": each.base,
                "failures": failures,
            }
            for at_ns, each, failures in upcoming[:_MAX_REFRESHES]
        ],
    }


def hand_over_reply(providers: Providers, now_ns: int) -> AgentReply:
    """Return the cached answers, with the time that each has left."""
    entries = [
        {
            "provider": provider.name,
            "config": _config_of(providers, provider.name),
            "image": entry.image,
            "cacheKeyType": entry.provision.cache_key_type,
            "millisecondsLeft": (entry.expires_ns - now_ns) // _MILLISECOND,
            "millisecondsOld": (now_ns - (entry.provision.got_ns or now_ns)) // _MILLISECOND,
            "auth": {key: [each.username, each.password] for key, each in entry.provision.auth.items()},
        }
        for provider in providers.providers
        for entry in provider.answers()
        if entry.is_shared
    ]
    reply = reply_document("HandOver", version=__version__, entries=entries)
    if len(reply.body) > _MAX_HANDED_BYTES:
        return reply_status(413, "TooLarge", "the cache is too large to be handed over")
    return reply


def take_over_entries(providers: AgentProviders, document: dict[str, object], now_ns: int) -> int:
    """Cache the answers of another process for the providers that are configured alike; return their number.

    Nothing is taken from another version, whose documents may mean something else.
    """
    entries = document.get("entries")
    if document.get("version") != __version__ or not isinstance(entries, list):
        return 0
    taken = 0
    for entry in entries:
        provision = _read_entry(entry, now_ns) if isinstance(entry, dict) else None
        if provision is None or provision.provider not in providers:
            continue
        if entry.get("config") != _config_of(providers, provision.provider):
            continue
        provider = next(each for each in providers.providers if each.name == provision.provider)
        provider.restore(parse_image(str(entry["image"])).repository, provision)
        taken += 1
    return taken


def _config_of(providers: Providers, name: str) -> str:
    """Return a text that is equal for providers that are configured alike; it has no values of variables."""
    provider = next(each for each in providers.providers if each.name == name)
    config = provider.config
    plugin = provider.plugin
    # The same name in another bin dir is another program.
    program = plugin.path if isinstance(plugin, ExecPlugin) else type(plugin).__name__
    fields = (config, [(each.name, each.value) for each in config.env or ()], program)
    return sha256(repr(fields).encode()).hexdigest()


def _read_entry(entry: dict[str, object], now_ns: int) -> Provision | None:
    """Return an answer as it is cached, or None for what is not one."""
    provider, image, kind = (entry.get(name) for name in ("provider", "image", "cacheKeyType"))
    left, old, auth = (entry.get(name) for name in ("millisecondsLeft", "millisecondsOld", "auth"))
    if not isinstance(provider, str) or not isinstance(image, str) or kind not in CACHE_KEY_TYPES:
        return None
    if not isinstance(left, int) or left <= 0 or not isinstance(old, int) or not isinstance(auth, dict):
        return None
    logins = {}
    for key, pair in auth.items():
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(each, str) for each in pair):
            return None
        logins[key] = AuthConfig(username=pair[0], password=pair[1])
    expires_ns, got_ns = now_ns + left * _MILLISECOND, now_ns - max(old, 0) * _MILLISECOND
    return Provision(
        provider=provider,
        outcome=ProvisionOutcome.CACHED,
        auth=logins,
        cache_key_type=str(kind),
        expires_ns=expires_ns,
        got_ns=got_ns,
    )
