"""The mirrors that CRI-O and podman use for an image: version 2 of ``registries.conf``, with its drop-in files.

CRI-O sends the kubelet's credential to the image's own host only: another host gets what CRI-O's auth file has for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from keyferry._core.host_root import is_on_host, on_host
from keyferry._core.values import Value, replace
from keyferry.images.reference import ImageName
from keyferry.pulls.mirrors.endpoints import CredentialOffer, Endpoint, MirrorPlaces, Mirrors, RuntimeKind
from keyferry.pulls.mirrors.files import (
    HostTrust,
    Table,
    TomlProblem,
    certificate_files,
    check_count,
    load_toml,
    subtable,
    texts,
)

_DIGEST_ONLY, _TAG_ONLY = "digest-only", "tag-only"
_PULL_FROM_MIRROR = ("", "all", _DIGEST_ONLY, _TAG_ONLY)


class _Place(Value):
    """A location in the form ``host[:port]/path``, and when it is used."""

    location: str
    is_insecure: bool = False
    pull_from: str = ""


class _Entry(Value):
    """An entry ``[[registry]]``: its number in the file, its prefix, its own place, and its mirrors."""

    file: str
    number: int
    prefix: str
    place: _Place
    mirrors: tuple[_Place, ...] = ()
    is_blocked: bool = False
    is_digest_only: bool = False


class _Alias(Value):
    """The full name of a short name, and the file that sets it."""

    file: str
    location: str


class _Searched(Value):
    """The registries that are searched for a short name, and the file that sets them."""

    file: str = ""
    registries: tuple[str, ...] = ()


class _Config(Value):
    """All files, merged: entries by prefix, aliases by short name."""

    entries: dict[str, _Entry]
    aliases: dict[str, _Alias]
    searched: _Searched


def registries_conf_endpoints(image: ImageName, places: MirrorPlaces) -> Mirrors | None:
    """Return where CRI-O goes for *image* and how it connects there; None if no file says anything about it."""
    found = _find(image, places)
    if found is not None:
        trusted = (_with_certificates(each, places)[0] for each in found.endpoints)
        return replace(found, endpoints=tuple(trusted))
    # Docker has such folders too: alone they do not tell that CRI-O is the runtime.
    if not places.registries_conf and places.runtime is not RuntimeKind.CRIO:
        return None
    own = _server(image.registry, image.path, image, CredentialOffer.OFFERED)
    own, folder = _with_certificates(own, places)
    return Mirrors(runtime=RuntimeKind.CRIO, file=folder, endpoints=(own,)) if folder else None


def _with_certificates(endpoint: Endpoint, places: MirrorPlaces) -> tuple[Endpoint, str]:
    """Return the endpoint with the certificates for its host, and their folder, which is empty if there is none."""
    for parent in places.certificate_folders:
        folder = os.path.join(parent, endpoint.host)
        # As in containers/image: a folder that cannot be looked at is passed over.
        if is_on_host(folder):
            found = certificate_files(folder, are_paired=True)
            return replace(endpoint, trust=replace(found, accepts_any=endpoint.is_insecure)), folder
    return endpoint, ""


def _find(image: ImageName, places: MirrorPlaces) -> Mirrors | None:
    """Return where CRI-O goes for *image*; None if no entry covers it."""
    try:
        config = _read_config(places.registries_files)
        for entry in config.entries.values():
            check_count(entry.file, len(entry.mirrors))
        check_count(config.searched.file, len(config.searched.registries))
    except TomlProblem as problem:
        return Mirrors(runtime=RuntimeKind.CRIO, file=problem.file, problem=problem.problem)
    if not image.text.startswith(f"{image.registry}/"):
        return _short_name(image, config)
    name = image.in_full().text
    covering = [entry for entry in config.entries.values() if _matched_length(name, entry.prefix)]
    if not covering:
        return None
    entry = max(covering, key=lambda each: len(each.prefix))
    if entry.is_blocked:
        return Mirrors(
            runtime=RuntimeKind.CRIO, file=entry.file, is_blocked=True, blocked_line=_blocked_line(entry)
        )
    endpoints = tuple(_endpoint(place, entry, image) for place in _used(entry, image))
    return Mirrors(runtime=RuntimeKind.CRIO, file=entry.file, endpoints=endpoints)


def _blocked_line(entry: _Entry) -> int:
    """Return the number of the line that blocks an entry, or 0; the parser of TOML does not tell lines."""
    number = -1
    try:
        with open(on_host(entry.file), encoding="utf-8") as stream:
            for at, line in enumerate(stream, 1):
                number += line.strip() == "[[registry]]"
                if number == entry.number and line.partition("=")[0].strip() == "blocked":
                    return at
    except (OSError, UnicodeDecodeError):
        pass
    return 0


def registries_conf_prefixes(places: MirrorPlaces) -> tuple[str, ...]:
    """Return the prefixes that have an entry; none if a file cannot be read."""
    try:
        return tuple(_read_config(places.registries_files).entries)
    except TomlProblem:
        return ()


def _read_config(files: Sequence[str]) -> _Config:
    """Read the files; what a later file sets replaces what an earlier one sets for the same prefix or name."""
    config = _Config(entries={}, aliases={}, searched=_Searched())
    for file in files:
        try:
            table = load_toml(file)
        except FileNotFoundError:
            continue
        if subtable(table, "registries"):
            raise TomlProblem(file, "it has the section [registries] of version 1, which is not read here")
        entries = {entry.prefix: entry for entry in _entries(file, table)}
        aliases = {
            name: _Alias(file=file, location=location)
            for name, location in subtable(table, "aliases").items()
            if isinstance(location, str) and "@" not in location
        }
        searched = [each for each in texts(table.get("unqualified-search-registries")) if "@" not in each]
        config = _Config(
            entries=config.entries | entries,
            aliases=config.aliases | aliases,
            searched=_Searched(file=file, registries=tuple(searched)) if searched else config.searched,
        )
    return config


def _entries(file: str, table: Table) -> Iterator[_Entry]:
    listed = table.get("registry", [])
    if not isinstance(listed, list):
        raise TomlProblem(file, "registry is not a list of tables: write [[registry]]")
    for number, each in enumerate(listed):
        entry, where = subtable(each), f"registry[{number}]"
        location = _text(file, entry, "location", where)
        prefix = _text(file, entry, "prefix", where) or location
        if not prefix or not (location or prefix.startswith("*.")):
            raise TomlProblem(file, f"{where} has no location")
        yield _Entry(
            file=file,
            number=number,
            prefix=prefix,
            place=_Place(location=location, is_insecure=entry.get("insecure") is True),
            mirrors=tuple(_mirrors(file, entry, where)),
            is_blocked=entry.get("blocked") is True,
            is_digest_only=entry.get("mirror-by-digest-only") is True,
        )


def _mirrors(file: str, entry: Table, where: str) -> Iterator[_Place]:
    listed = entry.get("mirror", [])
    for number, each in enumerate(listed if isinstance(listed, list) else ()):
        mirror, at = subtable(each), f"{where}.mirror[{number}]"
        location = _text(file, mirror, "location", at)
        pull_from = _text(file, mirror, "pull-from-mirror", at)
        if not location:
            raise TomlProblem(file, f"{at} has no location")
        if pull_from not in _PULL_FROM_MIRROR:
            raise TomlProblem(file, f"{at} has the unknown pull-from-mirror {pull_from!r}")
        yield _Place(location=location, is_insecure=mirror.get("insecure") is True, pull_from=pull_from)


def _text(file: str, table: Table, name: str, where: str) -> str:
    value = table.get(name, "")
    if not isinstance(value, str):
        raise TomlProblem(file, f"{where}.{name} is not a string")
    if value.startswith(("http://", "https://")):
        raise TomlProblem(file, f"{where}.{name} has a scheme, which is not allowed")
    if "@" in value:
        # Not quoted: what stands before it may be a password.
        raise TomlProblem(file, f"{where}.{name} has an '@', which is not allowed")
    return value.rstrip("/")


def _matched_length(name: str, prefix: str) -> int:
    """Return how much of *name* a prefix covers, as in containers/image; 0 if it does not."""
    if prefix.startswith("*."):
        start = name.find(prefix[1:])
        end = start + len(prefix) - 1
        is_covered = start > 0 and "/" not in name[:start]
    else:
        end = len(prefix)
        is_covered = name.startswith(prefix)
    return end if is_covered and name[end : end + 1] in ("", ":", "/", "@") else 0


def _used(entry: _Entry, image: ImageName) -> Iterator[_Place]:
    """Yield the mirrors that serve such a reference, then the registry's own place."""
    for mirror in entry.mirrors:
        wants = _DIGEST_ONLY if entry.is_digest_only else mirror.pull_from
        if not (wants == _DIGEST_ONLY and not image.digest) and not (wants == _TAG_ONLY and image.digest):
            yield mirror
    yield entry.place


def _endpoint(place: _Place, entry: _Entry, image: ImageName) -> Endpoint:
    rest = image.repository[_matched_length(image.in_full().text, entry.prefix) :]
    # An entry with a wildcard and without a location leaves the name as it is.
    name = f"{place.location}{rest}" if place.location else image.repository
    host, _, path = name.partition("/")
    offer = CredentialOffer.OFFERED if host == image.registry else CredentialOffer.WITHHELD
    return _server(host, path, image, offer, is_insecure=place.is_insecure)


def _server(
    host: str, path: str, image: ImageName, offer: CredentialOffer, *, is_insecure: bool = False
) -> Endpoint:
    is_registry = host == image.registry
    return Endpoint(
        url=f"https://{host}",
        host=host,
        api=f"https://{host}/v2",
        repository=path,
        is_registry=is_registry,
        offer=offer,
        is_insecure=is_insecure,
        trust=HostTrust(accepts_any=is_insecure),
        falls_back=is_insecure,
    )


def _short_name(image: ImageName, config: _Config) -> Mirrors | None:
    """Return where CRI-O goes for a name without a registry: by its alias, else to the registries that it searches.

    The kubelet looks up credentials for Docker Hub then. Whether CRI-O sends them to another host is not known here.
    """
    text, _, _ = image.text.partition("@")
    name = text.removesuffix(f":{image.tag}") if image.tag else text
    alias = config.aliases.get(name)
    if alias is None:
        named = [f"{registry}/{name}" for registry in config.searched.registries]
        file = config.searched.file
    else:
        named, file = [alias.location], alias.file
    pairs = [each.partition("/") for each in named]
    endpoints = [_server(host, path, image, CredentialOffer.UNKNOWN) for host, _, path in pairs]
    found = Mirrors(runtime=RuntimeKind.CRIO, file=file, endpoints=tuple(endpoints))
    return found if found.others else None
