"""The helper in the configs of docker's tools: what changes is shown first, and what is there is kept.

docker's config gets ``credHelpers`` for hosts; its ``credsStore`` is never changed. It is written anew, with the order,
the values and the indentation that it had. The containers tools (podman,
skopeo, buildah) get a file of keyferry's own in ``registries.conf.d``.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence

from keyferry.bridge.file_change import FileChange, make_diff, make_part_diff, read_text
from keyferry.errors import EnvironmentProblem

HELPER = "keyferry"
_KEY = "credHelpers"
# Files there are read in the order of their names, and the last list of helpers counts.
DROP_IN = "zz-keyferry.conf"
_HEAD = "# Written by 'keyferry bridge docker install --containers'; 'uninstall --containers' removes it.\n"
_OWN_FILES = "containers-auth.json"
# As docker writes a config.
_INDENT = "\t"


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
    return _change(path, before, document, {**helpers, **added}, tuple(notes))


def plan_docker_uninstall(path: str, hosts: Sequence[str] = ()) -> FileChange:
    """Return the change that makes docker stop using the helper, for *hosts* or for all."""
    before = read_text(path)
    document = _parse(path, before)
    helpers = _helpers(path, document)
    removed = [host for host in helpers if helpers[host] == HELPER and (not hosts or host in hosts)]
    if before is None or not removed:
        return FileChange(path=path, before=before, after=before)
    kept = {host: helper for host, helper in helpers.items() if host not in removed}
    return _change(path, before, document, kept)


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
    problem = "is not a JSON object; nothing is changed"
    try:
        document = json.loads(text, object_pairs_hook=_distinct) if text and text.strip() else {}
    except _TwiceError:
        document, problem = None, "has a member twice and cannot be edited; change it by hand"
    except (ValueError, RecursionError):
        document = None
    # Raised outside the handler: the config may hold logins.
    if not isinstance(document, dict):
        raise EnvironmentProblem(f"{path!r} {problem}")
    return document


class _TwiceError(Exception):
    """An object has a member twice: docker may merge what this would drop."""


def _distinct(members: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(members)
    if len(found) != len(members):
        raise _TwiceError
    return found


def _helpers(path: str, document: Mapping[str, object]) -> Mapping[str, object]:
    helpers = document.get(_KEY) or {}
    if not isinstance(helpers, dict):
        raise EnvironmentProblem(f"{path!r}: {_KEY} is not an object; nothing is changed")
    return helpers


def _change(
    path: str,
    before: str | None,
    document: Mapping[str, object],
    helpers: Mapping[str, object],
    notes: tuple[str, ...] = (),
) -> FileChange:
    """Return the change of the helpers; without any, the field is left out."""
    text = before or ""
    indent = _indent_of(text)
    changed = (
        {**document, _KEY: helpers}
        if helpers
        else {each: document[each] for each in document if each != _KEY}
    )
    try:
        after = json.dumps(changed, indent=indent, allow_nan=False)
    except ValueError:
        after = ""
    if not after:
        raise EnvironmentProblem(f"{path!r} has a number that cannot be written again; change it by hand")
    after += "\n" * text.endswith("\n")
    if "\r\n" in text:
        after = after.replace("\n", "\r\n")
    if before is None:
        diff = make_diff(path, "", after)
    else:
        # Of nothing but the helpers: the config may hold logins.
        diff = make_part_diff(path, _KEY, _shown(document, indent), _shown(changed, indent))
    return FileChange(path=path, before=before, after=after, diff=diff, notes=notes)


def _indent_of(text: str) -> str | None:
    """Return what the first member in lines of their own is indented with; None if all is on one line."""
    if not text.strip():
        return _INDENT
    lines = text.strip().splitlines()[1:]
    if not lines:
        return None
    first = next(line for line in lines if line.strip())
    return first[: len(first) - len(first.lstrip())] or _INDENT


def _shown(document: Mapping[str, object], indent: str | None) -> str:
    if _KEY not in document:
        return ""
    return json.dumps({_KEY: document[_KEY]}, indent=indent)[1:-1].strip("\n")


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
