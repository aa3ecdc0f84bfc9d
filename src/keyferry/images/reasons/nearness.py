"""Near misses: patterns and auth keys that do not match an image, and need only a small change to match it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from os.path import commonprefix

from keyferry._core.docker_hub import ALIASES, HUB
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, replace
from keyferry.errors import MatchError
from keyferry.images.answer import Answer
from keyferry.images.keyring import Source, SourceKind
from keyferry.images.match import (
    Pattern,
    RegistryUrl,
    explain_match,
    glob_matches,
    matches,
    parse_pattern,
    parse_registry_url,
)

# The most changes of a letter in a misspelling of a host label, and the shortest label that is compared.
_MAX_CHANGES, _MIN_LABEL = 2, 5
# The parts of the names of ECR that are the same in every account and region.
_REGISTRY_PARTS = frozenset(("dkr", "ecr"))
# The number of labels that two hosts must share to be near each other, beside the one that differs.
_SHARED = 2


class MissKind(StrEnum):
    """The difference between a pattern and an image; the nearest first."""

    PATH = "path"
    PORT = "port"
    PORT_AND_PATH = "port-and-path"
    LETTER_CASE = "letter-case"
    DOCKER_HUB = "docker-hub"
    LABEL_COUNT = "label-count"
    UNPARSABLE = "unparsable"
    STRAY_KEY = "stray-key"
    LABEL = "label"
    OTHER_HOST = "other-host"


class Difference(StrEnum):
    """A point in which a pattern and an image differ."""

    HOST = "host"
    NO_PORT = "no-port"
    OTHER_PORT = "other-port"
    PATH = "path"


_RANKS = {kind: rank for rank, kind in enumerate(MissKind)}


class Miss(Value):
    """A pattern or an auth key of *source* that does not match the image.

    *wanted* is a pattern that does and matches few other images, empty for another host.
    """

    source: Source
    pattern: str
    kind: MissKind
    why: str = ""
    wanted: str = ""
    differences: tuple[Difference, ...] = (Difference.HOST,)

    @property
    def is_near(self) -> bool:
        """Whether a small change would make it match."""
        return self.kind is not MissKind.OTHER_HOST

    @property
    def is_response(self) -> bool:
        """Whether it is an auth key in the response of a provider that matches the image."""
        return self.kind is MissKind.STRAY_KEY


class CloudRegistry(Value):
    """The domain of a cloud's registries, the number of labels of their hosts, their name, and a pattern for them."""

    domain: str
    label_count: int
    name: str
    pattern: str


_CLOUDS = (
    CloudRegistry(domain="amazonaws.com", label_count=6, name="ECR", pattern="*.dkr.ecr.*.amazonaws.com"),
    CloudRegistry(
        domain="amazonaws.com.cn", label_count=7, name="ECR", pattern="*.dkr.ecr.*.amazonaws.com.cn"
    ),
    CloudRegistry(domain="gcr.io", label_count=3, name="GCR", pattern="*.gcr.io"),
    CloudRegistry(domain="azurecr.io", label_count=3, name="ACR", pattern="*.azurecr.io"),
    CloudRegistry(domain="pkg.dev", label_count=3, name="Artifact Registry", pattern="*-docker.pkg.dev"),
)


def find_longer_cloud(host: str) -> CloudRegistry | None:
    """Return the registries of a cloud whose domain ends the *host* of a pattern, and whose hosts have more labels."""
    count = host.count(".") + 1
    for cloud in _CLOUDS:
        if host.endswith(cloud.domain) and count < cloud.label_count:
            return cloud
    return None


def is_cloud_registry(host: str) -> bool:
    """Return whether *host* is a registry of a cloud, for which nodes usually have a provider."""
    return any(host == cloud.domain or host.endswith(f".{cloud.domain}") for cloud in _CLOUDS)


def find_misses(answer: Answer) -> tuple[Miss, ...]:
    """Return everything that does not match the image, the nearest first; for a provider, its nearest pattern."""
    found = (*_secrets_and_files(answer), *_providers(answer))
    return tuple(sorted(found, key=lambda miss: _remoteness(miss, answer.name)))


def _providers(answer: Answer) -> Iterator[Miss]:
    matching = dict(answer.matching)
    for index, provider in enumerate(answer.providers):
        if index not in matching:
            source = Source(kind=SourceKind.PROVIDER, name=provider.name)
            yield _nearest(source, provider.match_images or ("",), answer.name)


def _secrets_and_files(answer: Answer) -> Iterator[Miss]:
    """Yield the keys that do not match, without those of providers that have another key that does."""
    given = {credential.source for credential in answer.credentials}
    for keyring in answer.keyrings:
        for key in keyring.index():
            for credential in keyring.credentials(key):
                if credential.source in given:
                    continue
                if credential.source.kind == SourceKind.PROVIDER:
                    why = "is a key of the response, and does not match the image"
                    registry = answer.name.partition("/")[0]
                    yield Miss(
                        source=credential.source,
                        pattern=credential.key,
                        kind=MissKind.STRAY_KEY,
                        why=why,
                        wanted=registry,
                    )
                else:
                    yield _nearest(credential.source, (key,), answer.name)


def _nearest(source: Source, patterns: Sequence[str], name: str) -> Miss:
    misses = (find_near_miss(source, pattern, name) for pattern in patterns)
    return min(misses, key=lambda miss: _remoteness(miss, name))


def _remoteness(miss: Miss, name: str) -> tuple[bool, int, bool, int, int]:
    """Return how far a miss is from the image *name*.

    What differs in fewer points is nearer; then what differs in one point and has a path that matches; then the path
    with the longest common beginning.
    """
    path, its_path = miss.pattern.partition("/")[2], name.partition("/")[2]
    common = commonprefix((path, its_path))  # noqa: RUF071 - characters are meant, as in the matching of paths
    # A pattern without a path matches every one, which says little, unless all that it lacks is the port.
    is_path = bool(path) and its_path.startswith(path)
    is_specific = is_path or miss.differences == (Difference.NO_PORT,)
    return not miss.is_near, len(miss.differences), not is_specific, -len(common), _RANKS[miss.kind]


def find_near_miss(source: Source, pattern: str, name: str) -> Miss:
    """Return how a pattern that does not match the image *name* misses it, without the pattern's user info."""
    shown = hide_user_info(pattern)
    if shown != pattern and explain_match(shown, name).matched:
        # With valid user info, which is ignored, the pattern itself would match.
        why = "what stands before its '@' is not valid there"
        return Miss(
            source=source, pattern=shown, kind=MissKind.UNPARSABLE, why=why, wanted=shown.rpartition("@")[2]
        )
    pattern = shown
    miss = _compare(source, pattern, name)
    return miss if explain_match(miss.wanted, name).matched else replace(miss, wanted="")


def _compare(source: Source, pattern: str, name: str) -> Miss:
    try:
        image = parse_registry_url(name)
        parsed = parse_pattern(pattern)
    except MatchError as error:
        kind, why, like = _compare_texts(pattern, name, str(error))
        return Miss(source=source, pattern=pattern, kind=kind, why=why, wanted=like)
    kind, why, host = _compare_hosts(parsed, image)
    if kind is MissKind.OTHER_HOST:
        return Miss(source=source, pattern=pattern, kind=kind)
    wanted = parsed
    why_not = {
        Difference.HOST: why,
        Difference.OTHER_PORT if wanted.port else Difference.NO_PORT: _why_port(wanted, image),
        Difference.PATH: _why_path(wanted, image),
    }
    return Miss(
        source=source,
        pattern=pattern,
        kind=kind,
        why="; ".join(filter(None, why_not.values())),
        wanted=_authority(host, image.port) + _path_for(wanted.path, image.path),
        differences=tuple(point for point, reason in why_not.items() if reason),
    )


def _compare_texts(pattern: str, name: str, why: str) -> tuple[MissKind, str, str]:
    """Compare a pattern and an image of which one cannot be parsed, for the reason *why*."""
    registry, slash, path = name.partition("/")
    if registry.partition(":")[0] not in pattern:
        return MissKind.OTHER_HOST, "", ""
    _, its_slash, its_path = pattern.partition("/")
    return MissKind.UNPARSABLE, why, f"{registry}{_path_for(its_slash + its_path, slash + path)}"


def _compare_hosts(pattern: Pattern, image: RegistryUrl) -> tuple[MissKind, str, str]:
    """Return the difference, why the host does not match, empty if it does, and the host that is right."""
    wanted, labels = pattern, image.labels
    if len(labels) != len(wanted.labels):
        return _compare_counts(wanted, image)
    wrong = [
        at for at, glob in enumerate(pattern.globs) if glob is None or not glob_matches(glob, labels[at])
    ]
    if wrong:
        return _compare_labels(wanted, image, wrong)
    if wanted.port == image.port:
        return MissKind.PATH, "", wanted.host
    is_path = image.path.startswith(wanted.path)
    return MissKind.PORT if is_path else MissKind.PORT_AND_PATH, "", wanted.host


def _why_port(wanted: RegistryUrl, image: RegistryUrl) -> str:
    if wanted.port == image.port:
        return ""
    if not wanted.port:
        return f"it has no port, and the image has port {image.port}"
    return f"it has port {wanted.port}, and the image has {f'port {image.port}' if image.port else 'none'}"


def _why_path(wanted: RegistryUrl, image: RegistryUrl) -> str:
    if image.path.startswith(wanted.path):
        return ""
    star = ": a * in a path is an ordinary character" if "*" in wanted.path else ""
    return f"the image's path {image.path!r} does not begin with {wanted.path!r}{star}"


def _path_for(wanted: str, path: str) -> str:
    """Return a path that matches *path* and few others: *wanted* if it does, else as many folders as *wanted* has.

    Stars at its end, which are ordinary characters there, are left out first. If *wanted* is the end of the path, as
    in a name on Docker Hub without its folder, it is the whole path.
    """
    if path.startswith(wanted):
        return wanted
    if path.endswith(wanted):
        return path
    trimmed, before = wanted.rstrip("*/"), wanted.partition("*")[0]
    if "*" not in trimmed and path.startswith(before):
        return "" if before == "/" else before
    folders, count = path.removeprefix("/").split("/"), trimmed.strip("/").count("/") + 1
    return f"/{'/'.join(folders[:count])}{'/' if len(folders) > count else ''}"


def _compare_counts(wanted: RegistryUrl, image: RegistryUrl) -> tuple[MissKind, str, str]:
    mine = wanted.host.split(".")
    stars = next((at for at, label in enumerate(mine) if label.strip("*") or not label), len(mine))
    stem = ".".join(mine[stars:])
    below = image.host.count(".") - stem.count(".")
    if image.host == stem:
        longer = "one part" if stars == 1 else f"{stars} parts"
        why = f"it matches hosts that are {longer} longer than {stem!r}, and not {stem!r} itself"
        return MissKind.LABEL_COUNT, why, image.host
    if stem and image.host.endswith(f".{stem}"):
        if not stars:
            why = f"it matches the host {stem!r} itself, and no host below it"
        else:
            star = mine[0]
            why = f"a {star} matches exactly one part of a host name, and {image.host!r} has {below} before {stem!r}"
        return MissKind.LABEL_COUNT, why, f"{_first_parts(image, below, stars)}{stem}"
    return _compare_clouds(wanted, image)


def _first_parts(image: RegistryUrl, count: int, stars: int) -> str:
    """Return a pattern for the first parts of a host: no more stars than the pattern has, or those of ECR's hosts."""
    parts = image.host.split(".")[:count]
    if stars and _REGISTRY_PARTS.issubset(parts):
        return "".join(f"{part if part in _REGISTRY_PARTS else '*'}." for part in parts)
    return "".join(f"{'*' if at < stars else part}." for at, part in enumerate(parts))


def _compare_clouds(wanted: RegistryUrl, image: RegistryUrl) -> tuple[MissKind, str, str]:
    """Compare a pattern that has too few parts for a cloud's registry with an image of that registry."""
    mine, its = wanted.host.split("."), image.host.split(".")
    cloud = find_longer_cloud(wanted.host)
    is_other = any("*" not in label and label not in its for label in mine)
    if cloud is None or is_other or not matches(cloud.pattern, image.host):
        return _compare_hub(wanted, image)
    star = "; a * matches exactly one part" if "*" in wanted.host else ""
    why = f"its host has {len(mine)} parts, and those of {cloud.name} have {cloud.label_count}{star}"
    # A part of the image's host that the pattern names is not made wider.
    globs = zip(cloud.pattern.split("."), its, strict=True)
    return MissKind.LABEL_COUNT, why, ".".join(part if part in mine else glob for glob, part in globs)


def _compare_hub(wanted: RegistryUrl, image: RegistryUrl) -> tuple[MissKind, str, str]:
    if image.host == HUB and wanted.host in ALIASES:
        return MissKind.DOCKER_HUB, f"images of Docker Hub are always looked up as {HUB}/...", HUB
    return MissKind.OTHER_HOST, "", ""


def _compare_labels(
    wanted: RegistryUrl, image: RegistryUrl, wrong: Sequence[int]
) -> tuple[MissKind, str, str]:
    """Compare hosts with the same number of labels, of which *wrong* do not match."""
    if wanted.host.lower() == image.host.lower():
        return MissKind.LETTER_CASE, "upper and lower case differ, which matters", image.host
    mine, its = wanted.host.split("."), image.host.split(".")
    shared = sum(a == b for a, b in zip(mine, its, strict=True))
    at = wrong[0]
    if len(wrong) == 1 and (shared >= _SHARED or _is_misspelt(mine[at], its[at])):
        why = f"part {at + 1} of the image's host is {its[at]!r}, and not {mine[at]!r}"
        return MissKind.LABEL, why, ".".join([*mine[:at], its[at], *mine[at + 1 :]])
    return _compare_hub(wanted, image)


def _is_misspelt(found: str, expected: str) -> bool:
    """Return whether few changes make one label of the other; a wildcard is not a misspelling."""
    if "*" in found or min(len(found), len(expected)) < _MIN_LABEL:
        return False
    return _distance(found, expected) <= _MAX_CHANGES


def _distance(one: str, other: str) -> int:
    """Return how many letters must be added, removed or replaced."""
    row = list(range(len(other) + 1))
    for number, mine in enumerate(one, 1):
        before, row[0] = row[0], number
        for at, its in enumerate(other, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (mine != its))
    return row[-1]


def _authority(host: str, port: str) -> str:
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
