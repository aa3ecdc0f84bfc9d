"""Near misses: patterns and auth keys that do not match an image, and need only a small change to match it."""

from collections.abc import Iterator, Sequence

from keyferry._core.docker_hub import ALIASES, HUB
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value
from keyferry._core.word_enum import WordEnum
from keyferry.errors import MatchError
from keyferry.images.credential import Source, SourceKind
from keyferry.images.match.rules import glob_matches, judge, parse_pattern
from keyferry.images.match.url import RegistryUrl, bytewise, parse_registry_url
from keyferry.images.result import LookupResult

__all__ = ["Miss", "MissKind", "find_misses", "find_near_miss"]

# The most changes of a letter in a misspelling of a host label, and the shortest label that is compared.
_MOST_CHANGES, _SHORTEST = 2, 5
# The parts of the names of ECR that are the same in every account and region.
_REGISTRY_PARTS = frozenset(("dkr", "ecr"))
# The number of labels that two hosts must share to be near each other, beside the one that differs.
_SHARED = 2


class MissKind(WordEnum):
    """The difference between a pattern and an image; the nearest first."""

    PORT = "port"
    PATH = "path"
    PORT_AND_PATH = "port-and-path"
    LETTER_CASE = "letter-case"
    DOCKER_HUB = "docker-hub"
    LABEL_COUNT = "label-count"
    UNPARSABLE = "unparsable"
    STRAY_KEY = "stray-key"
    LABEL = "label"
    OTHER_HOST = "other-host"


_RANKS = {kind: rank for rank, kind in enumerate(MissKind)}


class Miss(Value):
    """A pattern or an auth key of *source* that does not match the image.

    *wanted* is a pattern that does, empty for another host.
    """

    source: Source
    pattern: str
    kind: MissKind
    why: str = ""
    wanted: str = ""

    @property
    def is_near(self) -> bool:
        """Whether a small change would make it match."""
        return self.kind is not MissKind.OTHER_HOST

    @property
    def is_response(self) -> bool:
        """Whether it is an auth key in the response of a provider that matches the image."""
        return self.kind is MissKind.STRAY_KEY


def find_misses(answer: LookupResult) -> tuple[Miss, ...]:
    """Return everything that does not match the image, the nearest first; for a provider, its nearest pattern."""
    found = (*_secrets_and_files(answer), *_providers(answer))
    return tuple(sorted(found, key=lambda miss: _RANKS[miss.kind]))


def _providers(answer: LookupResult) -> Iterator[Miss]:
    covering = dict(answer.covering)
    for index, provider in enumerate(answer.providers):
        if index not in covering:
            source = Source(SourceKind.PROVIDER, provider.name)
            yield _nearest(source, provider.match_images or ("",), answer.name)


def _secrets_and_files(answer: LookupResult) -> Iterator[Miss]:
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
                    yield Miss(credential.source, credential.key, MissKind.STRAY_KEY, why, registry)
                else:
                    yield _nearest(credential.source, (key,), answer.name)


def _nearest(source: Source, patterns: Sequence[str], name: str) -> Miss:
    misses = (find_near_miss(source, pattern, name) for pattern in patterns)
    return min(misses, key=lambda miss: _RANKS[miss.kind])


def find_near_miss(source: Source, pattern: str, name: str) -> Miss:
    """Return how a pattern that does not match the image *name* misses it, without the pattern's user info."""
    shown = hide_user_info(pattern)
    if shown != pattern and judge(shown, name).matched:
        # With valid user info, which is ignored, the pattern itself would match.
        why = "what stands before its '@' is not valid there"
        return Miss(source, shown, MissKind.UNPARSABLE, why, shown.rpartition("@")[2])
    pattern = shown
    kind, why, wanted = _compare(pattern, name)
    if wanted and not judge(wanted, name).matched:
        wanted = ""
    return Miss(source, pattern, kind, why, wanted)


def _compare(pattern: str, name: str) -> tuple[MissKind, str, str]:
    try:
        image = parse_registry_url(name)
        parsed = parse_pattern(pattern)
    except MatchError as error:
        registry = name.partition("/")[0]
        if registry.partition(":")[0] in pattern:
            return MissKind.UNPARSABLE, str(error), registry
        return MissKind.OTHER_HOST, "", ""
    labels = tuple(bytewise(image.host).split("."))
    if len(labels) != len(parsed.labels):
        return _compare_counts(parsed.url, image)
    wrong = [at for at, glob in enumerate(parsed.globs) if glob is None or not glob_matches(glob, labels[at])]
    if not wrong:
        return _compare_places(parsed.url, image)
    return _compare_labels(parsed.url, image, wrong)


def _compare_places(wanted: RegistryUrl, image: RegistryUrl) -> tuple[MissKind, str, str]:
    """Compare the ports and paths of a pattern and an image with the same host."""
    is_path = image.path.startswith(wanted.path)
    path = wanted.path if is_path else _path_for(wanted, image)
    right = f"{wanted.host}{_port(image)}{path}"
    if wanted.port == image.port:
        return MissKind.PATH, _why_path(wanted, image), right
    if is_path:
        return MissKind.PORT, _why_port(wanted, image), right
    return MissKind.PORT_AND_PATH, f"{_why_port(wanted, image)}; {_why_path(wanted, image)}", right


def _why_port(wanted: RegistryUrl, image: RegistryUrl) -> str:
    if not wanted.port:
        return f"it has no port, and the image has port {image.port}"
    return f"it has port {wanted.port}, and the image has {f'port {image.port}' if image.port else 'none'}"


def _why_path(wanted: RegistryUrl, image: RegistryUrl) -> str:
    star = ": a * in a path is an ordinary character" if "*" in wanted.path else ""
    return f"the image's path {image.path!r} does not begin with {wanted.path!r}{star}"


def _path_for(wanted: RegistryUrl, image: RegistryUrl) -> str:
    """Return a path that matches: up to a star, which is an ordinary character, else the image's first folder."""
    before, star, _ = wanted.path.partition("*")
    if star and image.path.startswith(before):
        return "" if before == "/" else before
    first, slash, _ = image.path.removeprefix("/").partition("/")
    return f"/{first}{slash}"


def _compare_counts(wanted: RegistryUrl, image: RegistryUrl) -> tuple[MissKind, str, str]:
    stem = wanted.host.removeprefix("*.")
    below = image.host.count(".") - stem.count(".")
    if image.host == stem:
        why = f"it matches hosts that are one part longer than {stem!r}, and not {stem!r} itself"
        return MissKind.LABEL_COUNT, why, f"{image.host}{_port(image)}"
    if image.host.endswith(f".{stem}") and below > 0:
        if stem == wanted.host:
            why = f"it matches the host {stem!r} itself, and no host below it"
        else:
            why = (
                f"a * matches exactly one part of a host name, and {image.host!r} has {below} before {stem!r}"
            )
        return MissKind.LABEL_COUNT, why, f"{_wildcards(image, below)}{stem}{_port(image)}"
    return _compare_hub(wanted, image)


def _wildcards(image: RegistryUrl, count: int) -> str:
    """Return a pattern for the first parts of a host: wildcards, but for the parts that name a cloud's registry."""
    parts = image.host.split(".")[:count]
    return "".join(f"{part if part in _REGISTRY_PARTS else '*'}." for part in parts)


def _compare_hub(wanted: RegistryUrl, image: RegistryUrl) -> tuple[MissKind, str, str]:
    if image.host == HUB and wanted.host in ALIASES:
        why = f"images of Docker Hub are always looked up as {HUB}/..."
        return MissKind.DOCKER_HUB, why, HUB
    return MissKind.OTHER_HOST, "", ""


def _compare_labels(
    wanted: RegistryUrl, image: RegistryUrl, wrong: Sequence[int]
) -> tuple[MissKind, str, str]:
    """Compare hosts with the same number of labels, of which *wrong* do not match."""
    if wanted.host.lower() == image.host.lower():
        why = "upper and lower case differ, which matters"
        return MissKind.LETTER_CASE, why, f"{image.host}{_port(image)}"
    mine, its = wanted.host.split("."), image.host.split(".")
    shared = sum(a == b for a, b in zip(mine, its, strict=True))
    at = wrong[0]
    if len(wrong) == 1 and (shared >= _SHARED or _is_misspelt(mine[at], its[at])):
        why = f"part {at + 1} of the image's host is {its[at]!r}, and not {mine[at]!r}"
        right = ".".join([*mine[:at], its[at], *mine[at + 1 :]])
        return MissKind.LABEL, why, f"{right}{_port(image)}"
    return _compare_hub(wanted, image)


def _is_misspelt(found: str, expected: str) -> bool:
    """Return whether few changes make one label of the other; a wildcard is not a misspelling."""
    if "*" in found or min(len(found), len(expected)) < _SHORTEST:
        return False
    return _distance(found, expected) <= _MOST_CHANGES


def _distance(one: str, other: str) -> int:
    """Return how many letters must be added, removed or replaced; not difflib, whose import takes longer."""
    row = list(range(len(other) + 1))
    for number, mine in enumerate(one, 1):
        before, row[0] = row[0], number
        for at, its in enumerate(other, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (mine != its))
    return row[-1]


def _port(image: RegistryUrl) -> str:
    return f":{image.port}" if image.port else ""
