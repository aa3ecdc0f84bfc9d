"""The helper in the configs of docker's tools: what changes is shown first, and what is there is kept.

docker's config gets ``credHelpers`` for hosts; its ``credsStore`` is never changed. The containers tools (podman,
skopeo, buildah) get a file of keyferry's own in ``registries.conf.d``.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence

from keyferry.bridge.file_change import FileChange, check_edit, make_diff, make_part_diff, read_text
from keyferry.bridge.json_edit import add_member, add_object, find_member, remove_member, replace_value
from keyferry.errors import EnvironmentProblem

__all__ = [
    "DROP_IN",
    "docker_config_path",
    "helped_hosts",
    "plan_containers_install",
    "plan_containers_uninstall",
    "plan_docker_install",
    "plan_docker_uninstall",
    "registries_folder",
]

HELPER = "keyferry"
_KEY = "credHelpers"
# Files there are read in the order of their names, and the last list of helpers counts.
DROP_IN = "zz-keyferry.conf"
_HEAD = "# Written by 'keyferry bridge docker install --containers'; 'uninstall --containers' removes it.\n"
_OWN_FILES = "containers-auth.json"
_NEW = "{\n}"


def docker_config_path(environ: Mapping[str, str]) -> str:
    """Return the path of docker's config: in DOCKER_CONFIG, else in the user's folder."""
    folder = environ.get("DOCKER_CONFIG") or os.path.join(os.path.expanduser("~"), ".docker")
    return os.path.join(folder, "config.json")


def registries_folder(environ: Mapping[str, str]) -> str:
    """Return the folder of the containers tools' drop-ins: the system's for root, else the user's."""
    if os.geteuid() == 0:
        return "/etc/containers/registries.conf.d"
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "containers", "registries.conf.d")


def plan_docker_install(path: str, hosts: Sequence[str]) -> FileChange:
    """Return the change that makes docker use the helper for *hosts*; hosts that have another helper keep it."""
    before = read_text(path)
    document = _parse(path, before)
    helpers = _helpers(path, document)
    added = {host: HELPER for host in hosts if host not in helpers}
    notes = [
        f"{host} keeps its helper {helpers[host]!r}" for host in hosts if helpers.get(host, HELPER) != HELPER
    ]
    if not added:
        return FileChange(path=path, before=before, after=before, notes=tuple(notes))
    text = before if before and before.strip() else _NEW
    # A member that is there twice may prevent the edit.
    wanted = {**document, _KEY: {**helpers, **added}}
    after = check_edit(path, _add(text, added), json.loads, wanted)
    return FileChange(
        path=path, before=before, after=after, diff=_diff(path, before, after), notes=tuple(notes)
    )


def plan_docker_uninstall(path: str, hosts: Sequence[str] = ()) -> FileChange:
    """Return the change that makes docker stop using the helper, for *hosts* or for all."""
    before = read_text(path)
    document = _parse(path, before)
    helpers = _helpers(path, document)
    removed = [host for host in helpers if helpers[host] == HELPER and (not hosts or host in hosts)]
    if before is None or not removed:
        return FileChange(path=path, before=before, after=before)
    kept = {host: helper for host, helper in helpers.items() if host not in removed}
    wanted = {name: value for name, value in document.items() if name != _KEY}
    wanted |= {_KEY: kept} if kept else {}
    after = check_edit(path, _remove(before, removed, has_others=bool(kept)), json.loads, wanted)
    return FileChange(path=path, before=before, after=after, diff=_diff(path, before, after))


def helped_hosts(path: str) -> tuple[str, ...]:
    """Return the hosts for which docker uses the helper."""
    helpers = _helpers(path, _parse(path, read_text(path)))
    return tuple(host for host, helper in helpers.items() if helper == HELPER)


def plan_containers_install(folder: str) -> FileChange:
    """Return the change that makes the containers tools ask the helper for every registry, after all others."""
    path = os.path.join(folder, DROP_IN)
    before = _read_own(path)
    helpers = [each for each in _containers_helpers(folder) if each != HELPER] or [_OWN_FILES]
    after = f"{_HEAD}credential-helpers = {json.dumps([*helpers, HELPER])}\n"
    return _own_change(path, before, after)


def plan_containers_uninstall(folder: str) -> FileChange:
    """Return the change that removes the file again."""
    path = os.path.join(folder, DROP_IN)
    before = _read_own(path)
    return _own_change(path, before, None)


def _own_change(path: str, before: str | None, after: str | None) -> FileChange:
    diff = make_diff(path, before or "", after or "")
    return FileChange(path=path, before=before, after=after, diff=diff, mode=0o644, folder_mode=0o755)


def _parse(path: str, text: str | None) -> dict[str, object]:
    document: object = {}
    try:
        document = json.loads(text) if text and text.strip() else {}
    except (ValueError, RecursionError):
        document = None
    # Raised outside the handler: the config may hold logins.
    if not isinstance(document, dict):
        raise EnvironmentProblem(f"{path!r} is not a JSON object; nothing is changed")
    return document


def _helpers(path: str, document: Mapping[str, object]) -> Mapping[str, object]:
    helpers = document.get(_KEY) or {}
    if not isinstance(helpers, dict):
        raise EnvironmentProblem(f"{path!r}: {_KEY} is not an object; nothing is changed")
    return helpers


def _add(text: str, helpers: Mapping[str, str]) -> str:
    member = find_member(text, _KEY)
    if member is None:
        return add_object(text, _KEY, helpers)
    if text[member.value] != "{":  # null
        return replace_value(text, _KEY, helpers)
    for host, helper in helpers.items():
        text = add_member(text, host, helper, member.value)
    return text


def _remove(text: str, hosts: Sequence[str], *, has_others: bool) -> str:
    """Return the text without these helpers; without any, the field is left out."""
    if not has_others:
        return remove_member(text, _KEY)
    for host in hosts:
        text = remove_member(text, _KEY, host)
    return text


def _diff(path: str, before: str | None, after: str) -> str:
    """Return a diff of nothing but the helpers, as they are written: the config may hold logins."""
    if before is None:
        return make_diff(path, "", after)
    return make_part_diff(path, _KEY, _shown(before), _shown(after))


def _shown(text: str) -> str:
    member = find_member(text, _KEY) if text.strip() else None
    if member is None:
        return ""
    line = text[text.rfind("\n", 0, member.begin) + 1 : member.begin]
    return ("" if line.strip() else line) + text[member.begin : member.end]


def _read_own(path: str) -> str | None:
    text = read_text(path)
    if text is not None and not text.startswith(_HEAD):
        raise EnvironmentProblem(f"{path!r} was not written by keyferry; nothing is changed")
    return text


def _containers_helpers(folder: str) -> list[str]:
    """Return the helpers that are configured now: of the last file that names some, as the tools read them."""
    main = os.path.join(os.path.dirname(os.path.normpath(folder)), "registries.conf")
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".conf") and name != DROP_IN)
    except OSError:
        names = []
    found: list[str] = []
    for path in (main, *(os.path.join(folder, name) for name in names)):
        found = _named_helpers(path) or found
    return found


def _named_helpers(path: str) -> list[str]:
    try:
        value = tomllib.loads(read_text(path) or "").get("credential-helpers")
    except tomllib.TOMLDecodeError:
        raise EnvironmentProblem(f"{path!r} is not TOML; nothing is changed") from None
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
