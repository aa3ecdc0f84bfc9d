"""``keyferry.dev/v1alpha1``: AgentConfig, the config file of the node agent."""

from __future__ import annotations

from keyferry._core.values import Value, field
from keyferry.api.codec import Reader, article, json_type
from keyferry.errors import Kind
from keyferry.show.documents import API_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from keyferry._core.paths import Path

__all__ = ["API_VERSION", "KIND", "AccessRule", "AgentConfig", "ManageRule", "read_agent_config"]

KIND = "AgentConfig"


class AccessRule(Value):
    """Users, by user id or group id, and the registries that they may ask for, as patterns of matchImages."""

    uids: tuple[int, ...] = ()
    gids: tuple[int, ...] = ()
    registries: tuple[str, ...] = ()
    every_registry: bool = False


class ManageRule(Value):
    """Users, by user id or group id, who may evict, reload, take over and see the status."""

    uids: tuple[int, ...] = ()
    gids: tuple[int, ...] = ()


class AgentConfig(Value):
    """The config; *settings* has the plain settings that are given, by the names of their fields."""

    settings: dict[str, str | int | bool] = field(default_factory=dict)
    access: tuple[AccessRule, ...] | None = None
    manage: tuple[ManageRule, ...] | None = None


TEXTS = ("socket", "socketMode", "providerConfig", "binDir", "page", "metrics", "logLevel", "logFormat")
DURATIONS = ("pluginTimeout", "refreshIdle", "stopTimeout")
NUMBERS = ("socketGroup", "cacheEntries", "cacheBytes", "connections")
SWITCHES = ("refreshAhead", "handOver", "watch")


def read_agent_config(document: object, reader: Reader) -> AgentConfig:
    """Return the AgentConfig in *document*; *reader* collects the problems. Durations are in nanoseconds."""

    def number(value: object, path: Path) -> int | None:
        return _read_number(reader, value, path)

    fields: dict[str, Callable[[object, Path], object]] = {
        "apiVersion": reader.text,
        "kind": reader.text,
        **dict.fromkeys(TEXTS, reader.text),
        **dict.fromkeys(DURATIONS, reader.duration),
        **dict.fromkeys(NUMBERS, number),
        **dict.fromkeys(SWITCHES, reader.boolean),
        "access": reader.list_of(lambda value, path: _read_access(reader, value, path)),
        "manage": reader.list_of(lambda value, path: _read_manage(reader, value, path)),
    }
    found = reader.struct(document, (), fields)
    names = (*TEXTS, *DURATIONS, *NUMBERS, *SWITCHES)
    settings = {name: found[name] for name in names if found.get(name) not in (None, "")}
    access, manage = found.get("access"), found.get("manage")
    return AgentConfig(
        settings, None if access is None else tuple(access), None if manage is None else tuple(manage)
    )


def _read_access(reader: Reader, value: object, path: Path) -> AccessRule:
    fields: dict[str, Callable[[object, Path], object]] = {
        **_principals(reader),
        "registries": reader.list_of(reader.text),
        "everyRegistry": reader.boolean,
    }
    found = reader.struct(value, path, fields)
    return AccessRule(
        tuple(found.get("uids") or ()),
        tuple(found.get("gids") or ()),
        tuple(found.get("registries") or ()),
        bool(found.get("everyRegistry")),
    )


def _read_manage(reader: Reader, value: object, path: Path) -> ManageRule:
    found = reader.struct(value, path, _principals(reader))
    return ManageRule(tuple(found.get("uids") or ()), tuple(found.get("gids") or ()))


def _principals(reader: Reader) -> dict[str, Callable[[object, Path], object]]:
    ids = reader.list_of(lambda value, path: _read_number(reader, value, path) or 0)
    return {"uids": ids, "gids": ids}


def _read_number(reader: Reader, value: object, path: Path) -> int | None:
    """Read a whole number that is not negative; null is read as None."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    found = "a negative number" if isinstance(value, int) and value is not True else article(json_type(value))
    message = f"found {found}, expected a whole number that is not negative"
    reader.note(path, message, message, Kind.WRONG_TYPE)
    return None
