"""Hand-over of cached answers to the process that takes the agent's place, so that an upgrade is no herd.

Only answers that any lookup may get are handed over, between processes of the same version and user. What was got
with a service account's token stays where it is, since its key holds in one process only.
"""

from __future__ import annotations

from hashlib import sha256

from keyferry import __version__
from keyferry.agent.message import AgentReply, reply_document, reply_status
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.lookup import Providers
from keyferry.images.provider.cache import CACHE_KEY_TYPES
from keyferry.images.provider.plugin import ExecPlugin
from keyferry.images.reference import parse_image

__all__ = ["hand_over_reply", "take_over_entries"]

_MILLISECOND = 1_000_000
_MOST_BYTES = 16 * 1024 * 1024


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
    if len(reply.body) > _MOST_BYTES:
        return reply_status(413, "TooLarge", "the cache is too large to be handed over")
    return reply


def take_over_entries(providers: Providers, document: dict[str, object], now_ns: int) -> int:
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
