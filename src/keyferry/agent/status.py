"""The agent's status: a document for programs and people, without secrets."""

from __future__ import annotations

import os
import time

from keyferry import __version__
from keyferry._core.clock import monotonic_ns
from keyferry._core.secrets import mask_arguments
from keyferry._core.user_info import hide_user_info
from keyferry.agent.lookups import wall_time
from keyferry.agent.refresher import Refresher
from keyferry.agent.reload import Reloader
from keyferry.agent.state import AgentState
from keyferry.agent.usage import Usage
from keyferry.api.meta import format_time
from keyferry.images.provider.plugin import ExecPlugin
from keyferry.images.provider.provider import Provider

__all__ = ["status_fields"]

_SECOND = 1_000_000_000
_MOST_REFRESHES = 100
Json = dict[str, object]


def status_fields(reloader: Reloader, refresher: Refresher, usage: Usage, *, process: Json) -> Json:
    """Return the fields of the status document; *process* has those of the process."""
    state = reloader.state
    return {
        "version": __version__,
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
    shared, relayed = provider.cache_uses()
    soonest = provider.soonest_expiry_seconds()
    return {
        "name": provider.name,
        "matchImages": list(map(hide_user_info, provider.config.match_images or ())),
        "plugin": _plugin(provider),
        "cache": {
            "entries": shared.entries,
            "tenantEntries": relayed.entries,
            "bytes": shared.bytes + relayed.bytes,
            "expiresAt": None if soonest is None else format_time(time.time_ns() + int(soonest * _SECOND)),
        },
        "hits": counts.hits,
        "shared": counts.shared,
        "runs": counts.runs,
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
            for at_ns, each, failures in upcoming[:_MOST_REFRESHES]
        ],
    }
