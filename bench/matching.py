"""The time to find the patterns that match an image, by the number of patterns."""

from __future__ import annotations

from functools import partial

from bench.measure import Row, best, seconds_of, take_turns

from keyferry.images.match import PatternIndex

_NUMBERS = (1, 10, 100, 1_000, 5_000, 25_000)
_IMAGES = 20_000
_ROUNDS = 9
_BAR = 15.0  # Go's own matching takes as long for ten patterns
_PATHS = (10, 1_000)
_PATHS_BAR = 3.0

# What the clouds' own plugins are configured with, as in their documentation.
_CLOUDS = (
    "*.dkr.ecr.*.amazonaws.com",
    "*.dkr.ecr.*.amazonaws.com.cn",
    "*.dkr.ecr-fips.*.amazonaws.com",
    "gcr.io",
    "*.gcr.io",
    "container.cloud.google.com",
    "*.pkg.dev",
    "*.azurecr.io",
    "registry-1.docker.io",
    "ghcr.io/example-org",
)


def make_patterns(number: int) -> list[str]:
    """Return the clouds' patterns, then the private registries of a large company, some with globs."""
    private = (
        "harbor-{0}.corp.example",
        "*.team-{0}.registry.example",
        "registry.example:5{0:03}",
        "quay.example/org-{0}",
        "mirror-{0}.*.corp.example/library",
        "artifacts.example:8443/team-{0}/images",
    )
    patterns = list(_CLOUDS[:number])
    more = range(number - len(patterns))
    return [*patterns, *(private[count % len(private)].format(count) for count in more)]


def make_images(number: int) -> list[str]:
    """Return *number* different full names: of clouds, private registries and hosts that no pattern matches."""
    hosts = (
        "123456789{0:03}.dkr.ecr.eu-west-1.amazonaws.com/team/app-{1}",
        "europe-docker.pkg.dev/project-{0}/images/app-{1}",
        "company{0}.azurecr.io/backend/app-{1}",
        "harbor-{0}.corp.example/platform/app-{1}",
        "eu.team-{0}.registry.example/app-{1}",
        "registry.example:5{0:03}/tools/app-{1}",
        "quay.example/org-{0}/app-{1}",
        "artifacts.example:8443/team-{0}/images/app-{1}",
        "docker.io/library/app-{1}",
        "registry.k8s.io/sig-{0}/app-{1}",
    )
    return [hosts[at % len(hosts)].format(at // len(hosts) % 1_000, at) for at in range(number)]


def make_images_of(patterns: list[str], number: int) -> list[str]:
    """Return *number* different names, each matched by a pattern; the patterns are used in a scattered order."""
    step = 7919  # a prime, and so no divisor of a number of patterns
    return [
        f"{patterns[at * step % len(patterns)].replace('*', f'any-{at}')}/app-{at}" for at in range(number)
    ]


def run(_folder: str) -> list[Row]:
    """Return rows for unseen images at each number of patterns, the growth between them, and paths of one host."""
    images = make_images(_IMAGES)
    contestants = {number: make_patterns(number) for number in _NUMBERS}
    unseen = take_turns({n: partial(_unseen, contestants[n], images) for n in _NUMBERS}, _ROUNDS)
    note = f"{_IMAGES:,} images, best of {_ROUNDS} rounds"
    rows = [
        Row(f"match, unseen image, {_plural(number)}", best(unseen[number]), "µs", _BAR, note=note)
        for number in _NUMBERS
    ]
    covered = {n: make_images_of(contestants[n], _IMAGES) for n in _NUMBERS}
    spread = take_turns({n: partial(_unseen, contestants[n], covered[n]) for n in _NUMBERS}, _ROUNDS)
    rows += [
        Row(
            f"match, unseen image, {_plural(number)}, each has its turn",
            best(spread[number]),
            "µs",
            _BAR,
            note=note,
        )
        for number in _NUMBERS
    ]
    few, many = _NUMBERS[0], _NUMBERS[-1]
    rows.append(
        Row(
            f"match, unseen image, growth to {_plural(many)}",
            best(unseen[many]),
            "µs",
            best(unseen[few]),
            f"{_plural(few)}:",
        )
    )
    few, many = _PATHS
    paths = {n: [f"registry.example/team-{at}/" for at in range(n)] for n in _PATHS}
    by_path = take_turns(
        {n: partial(_unseen, paths[n], make_images_of(paths[n], _IMAGES)) for n in _PATHS}, _ROUNDS
    )
    what = f"match, unseen image, paths of one host, {_plural(many)}"
    rows.append(Row(what, best(by_path[many]), "µs", best(by_path[few]), f"{_plural(few)}:", _PATHS_BAR))
    return rows


def _unseen(patterns: list[str], images: list[str]) -> list[float]:
    """Return the microseconds per image, each looked up once in a new index."""
    return [_microseconds(PatternIndex(enumerate(patterns)), images)]


def _microseconds(index: PatternIndex, images: list[str]) -> float:
    def ask() -> None:
        match = index.match
        for image in images:
            match(image)

    return seconds_of(ask) / len(images) * 1e6


def _plural(number: int) -> str:
    return f"{number:,} pattern{'s' if number > 1 else ''}"
