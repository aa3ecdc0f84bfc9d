"""``keyferry.dev/v1alpha1``: AgentConfig, the config file of the node agent."""

from __future__ import annotations

from keyferry.api.wire import WireValue, boolean, duration, list_of, number, object_of, text, wire
from keyferry.show.documents import API_VERSION

__all__ = ["API_VERSION", "KIND", "AccessRule", "AgentConfig", "ManageRule"]

KIND = "AgentConfig"


class ManageRule(WireValue):
    """Users, by user id or group id, who may evict, reload, take over and see the status."""

    uids: tuple[int, ...] = wire("uids", list_of(number), default=())
    gids: tuple[int, ...] = wire("gids", list_of(number), default=())


class AccessRule(WireValue):
    """Users, by user id or group id, and the registries that they may ask for, as patterns of matchImages."""

    uids: tuple[int, ...] = wire("uids", list_of(number), default=())
    gids: tuple[int, ...] = wire("gids", list_of(number), default=())
    registries: tuple[str, ...] = wire("registries", list_of(text), default=())
    every_registry: bool = wire("everyRegistry", boolean, default=False)


class AgentConfig(WireValue):
    """The config; what is not set is empty or None."""

    socket: str = wire("socket", text, default="")
    socket_mode: str = wire("socketMode", text, default="")
    provider_config: str = wire("providerConfig", text, default="")
    bin_dir: str = wire("binDir", text, default="")
    page: str = wire("page", text, default="")
    metrics: str = wire("metrics", text, default="")
    log_level: str = wire("logLevel", text, default="")
    log_format: str = wire("logFormat", text, default="")
    plugin_timeout_ns: int | None = wire("pluginTimeout", duration, default=None)
    refresh_idle_ns: int | None = wire("refreshIdle", duration, default=None)
    stop_timeout_ns: int | None = wire("stopTimeout", duration, default=None)
    socket_group: int | None = wire("socketGroup", number, default=None)
    cache_entries: int | None = wire("cacheEntries", number, default=None)
    cache_bytes: int | None = wire("cacheBytes", number, default=None)
    connections: int | None = wire("connections", number, default=None)
    refresh_ahead: bool | None = wire("refreshAhead", boolean, default=None)
    hand_over: bool | None = wire("handOver", boolean, default=None)
    watch: bool | None = wire("watch", boolean, default=None)
    access: tuple[AccessRule, ...] | None = wire("access", list_of(object_of(AccessRule)), default=None)
    manage: tuple[ManageRule, ...] | None = wire("manage", list_of(object_of(ManageRule)), default=None)

    @property
    def settings(self) -> dict[str, str | int | bool]:
        """The plain settings that are given, by their names in the file; durations are in nanoseconds."""
        fields = {each.name: getattr(self, name) for name, each in self.wire_fields.items()}
        del fields["access"], fields["manage"]
        return {name: value for name, value in fields.items() if value not in (None, "")}


def _names_of(shape: object) -> tuple[str, ...]:
    return tuple(each.name for each in AgentConfig.wire_fields.values() if each.shape is shape)


TEXTS, DURATIONS, NUMBERS, SWITCHES = map(_names_of, (text, duration, number, boolean))
