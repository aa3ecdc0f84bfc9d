"""The kubelet's rules for which pattern covers which image: the reference implementation, with reasons.

`keyferry.images.match.index` does the same for many patterns at once and must agree with this module.
"""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.user_info import hide_user_info
from keyferry._core.values import NamedTuple, Value
from keyferry.errors import MatchError
from keyferry.images.match.url import RegistryUrl, bytewise, parse_registry_url, readable, split_plain

__all__ = [
    "Glob",
    "MatchRule",
    "MatchVerdict",
    "Pattern",
    "covers",
    "fits",
    "glob_matches",
    "is_literal",
    "judge",
    "matches",
    "parse_glob",
    "parse_pattern",
]

# A piece of a label is literal text or a character class, as ranges of code points.
Piece = str | tuple[tuple[int, int], ...]
# The pieces before, between and after the stars.
Glob = tuple[tuple[Piece, ...], ...]

# "?", "\" and "^" are special in Go's globs too, but URL parsing does not accept them in hosts.
_GLOB_PART = r"(?P<star>\*)|\[(?P<class>[^\]]*)(?P<closing>\]?)|[^*\[]+"
_CLASS = r"(?:[^-](?:-[^-])?)+"
_RANGE = r"([^-])(?:-([^-]))?"
_INVALID_RUNE = 0xFFFD


class MatchRule(StrEnum):
    """The rule that decides whether a pattern covers an image: the first that fails, or none."""

    MATCHED = "matched"
    PATTERN_UNPARSABLE = "pattern-unparsable"
    IMAGE_UNPARSABLE = "image-unparsable"
    PORT = "port"
    LABEL_COUNT = "label-count"
    PATH_PREFIX = "path-prefix"
    LABEL = "label"
    BAD_GLOB = "bad-glob"


class Pattern(NamedTuple):
    """A parsed pattern; ``labels`` and ``path`` are bytewise, and the glob of a malformed label is None."""

    text: str
    url: RegistryUrl
    labels: tuple[str, ...]
    globs: tuple[Glob | None, ...]
    path: str


class MatchVerdict(Value):
    """Whether a pattern covers an image, and the first rule that fails.

    ``found`` is the value in the image and ``expected`` the value in the pattern.
    """

    matched: bool
    rule: MatchRule
    found: str
    expected: str
    why: str


class _Failure(Value):
    rule: MatchRule
    label: int = 0


def parse_pattern(text: str) -> Pattern:
    """Parse one entry of matchImages, or one normalised key of a keyring.

    Raise MatchError if it is not a URL. A malformed glob is an error only when an image is compared with it.
    """
    url = parse_registry_url(text)
    labels = _labels(url)
    return Pattern(text, url, labels, tuple(map(parse_glob, labels)), bytewise(url.path))


def matches(pattern_text: str, image: str) -> bool:
    """Return whether the pattern covers *image*; raise MatchError where the kubelet's function returns an error."""
    pattern = parse_pattern(pattern_text)
    failure = _first_failure(pattern, parse_registry_url(image))
    if failure and failure.rule is MatchRule.BAD_GLOB:
        message = (
            f"{readable(pattern.labels[failure.label])!r} in {hide_user_info(pattern_text)!r} is not a glob"
        )
        raise MatchError(message, "syntax error in pattern")
    return failure is None


def covers(pattern: str, image: str) -> bool:
    """Return whether *pattern* covers *image*; a pattern or image with an error does not match."""
    # The common case needs no parsing: the pattern is a registry or repository without stars, so that
    # host and port are equal, and the path is a prefix.
    if pattern and image.startswith(pattern) and split_plain(image) is not None:
        if "/" in pattern or image[len(pattern) : len(pattern) + 1] in ("", "/"):
            return True
    try:
        return matches(pattern, image)
    except MatchError:
        return False


def fits(pattern: Pattern, image: RegistryUrl) -> bool:
    """Return what `covers` returns, for a parsed pattern and a parsed image."""
    return _first_failure(pattern, image) is None


def judge(pattern: str, image: str) -> MatchVerdict:
    """Return whether *pattern* covers *image* and which rule decided; never raise."""
    try:
        parsed = parse_pattern(pattern)
    except MatchError as error:
        return _unparsable(MatchRule.PATTERN_UNPARSABLE, pattern, image, error)
    try:
        url = parse_registry_url(image)
    except MatchError as error:
        return _unparsable(MatchRule.IMAGE_UNPARSABLE, pattern, image, error)
    return _explain(parsed, url, _first_failure(parsed, url) or _Failure(MatchRule.MATCHED))


def glob_matches(glob: Glob, label: str) -> bool:
    """Return whether *glob* matches the whole of *label*, which is bytewise."""
    *chunks, last = glob
    if not chunks:
        return _skip(last, label, 0) == len(label)
    at = _skip(chunks[0], label, 0)
    for chunk in chunks[1:]:
        at = None if at is None else _find(chunk, label, at)
    return at is not None and any(
        _skip(last, label, start) == len(label) for start in range(at, len(label) + 1)
    )


def _labels(url: RegistryUrl) -> tuple[str, ...]:
    return tuple(bytewise(url.host).split("."))


def _first_failure(pattern: Pattern, image: RegistryUrl) -> _Failure | None:
    labels = _labels(image)
    if pattern.url.port != image.port:
        return _Failure(MatchRule.PORT)
    if len(pattern.labels) != len(labels):
        return _Failure(MatchRule.LABEL_COUNT)
    # A plain string prefix, as in the kubelet: "r.io/foo" covers "r.io/foobar".
    # A stricter rule would withhold credentials that the kubelet offers.
    if not bytewise(image.path).startswith(pattern.path):
        return _Failure(MatchRule.PATH_PREFIX)
    for number, (glob, label) in enumerate(zip(pattern.globs, labels, strict=True)):
        if glob is None:
            return _Failure(MatchRule.BAD_GLOB, number)
        if not glob_matches(glob, label):
            return _Failure(MatchRule.LABEL, number)
    return None


def is_literal(glob: Glob) -> bool:
    """Return whether *glob* is plain text."""
    return len(glob) == 1 and (not glob[0] or (len(glob[0]) == 1 and isinstance(glob[0][0], str)))


def parse_glob(label: str) -> Glob | None:
    """Return the pieces of a label, or None if it is malformed."""
    if "[" not in label:
        if "*" not in label:
            return (((label,) if label else ()),)
        return tuple([(text,) if text else () for text in label.split("*")])
    import re  # imported here: few patterns have a character class

    chunks: list[tuple[Piece, ...]] = [()]
    for token in re.finditer(_GLOB_PART, label):
        if token["star"]:
            chunks.append(())
            continue
        piece = token[0] if token["class"] is None else _parse_class(token["class"])
        if not piece or token["closing"] == "":
            return None
        chunks[-1] = (*chunks[-1], piece)
    return tuple(chunks)


def _parse_class(raw: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges of a character class, or an empty tuple if it is malformed."""
    try:
        members = raw.encode("latin-1").decode()
    except UnicodeDecodeError:
        return ()
    import re

    if not re.fullmatch(_CLASS, members):
        return ()
    return tuple((ord(low), ord(high or low)) for low, high in re.findall(_RANGE, members))


def _find(chunk: tuple[Piece, ...], label: str, at: int) -> int | None:
    """Return the end of the leftmost match of *chunk*; the next star matches any text after it."""
    ends = (_skip(chunk, label, start) for start in range(at, len(label) + 1))
    return next((end for end in ends if end is not None), None)


def _skip(chunk: tuple[Piece, ...], label: str, at: int) -> int | None:
    for piece in chunk:
        if isinstance(piece, str):
            width = len(piece) if label.startswith(piece, at) else 0
        else:
            rune, width = _rune(label, at)
            width = width if any(low <= rune <= high for low, high in piece) else 0
        if not width:
            return None
        at += width
    return at


def _rune(label: str, at: int) -> tuple[int, int]:
    text = readable(label[at : at + 4])
    if not text:
        return _INVALID_RUNE, 0
    width = len(bytewise(text[0]))
    return (_INVALID_RUNE if "\ud800" <= text[0] <= "\udfff" else ord(text[0])), width


def _unparsable(rule: MatchRule, pattern: str, image: str, error: MatchError) -> MatchVerdict:
    return MatchVerdict(
        matched=False,
        rule=rule,
        found=hide_user_info(image),
        expected=hide_user_info(pattern),
        why=str(error),
    )


def _explain(pattern: Pattern, image: RegistryUrl, failure: _Failure) -> MatchVerdict:
    found, expected, why = _facts(pattern, image, failure)
    return MatchVerdict(failure.rule is MatchRule.MATCHED, failure.rule, found, expected, why)


def _facts(pattern: Pattern, image: RegistryUrl, failure: _Failure) -> tuple[str, str, str]:
    wanted = pattern.url
    if failure.rule is MatchRule.PORT:
        return image.port, wanted.port, _why_port(image.port, wanted.port)
    if failure.rule is MatchRule.LABEL_COUNT:
        return _count_facts(pattern, image)
    if failure.rule is MatchRule.PATH_PREFIX:
        return image.path, wanted.path, _why_path(image.path, wanted.path)
    if failure.rule is MatchRule.MATCHED:
        return image.authority + image.path, hide_user_info(pattern.text), _why_matched(image, wanted)
    return _label_facts(pattern, image, failure)


def _why_port(found: str, expected: str) -> str:
    if not expected:
        return (
            f"the pattern has no port and the image has port {found}: "
            "a pattern without a port matches only images without one"
        )
    if not found:
        return f"the pattern has port {expected} and the image has none: there is no default port"
    return f"the pattern has port {expected} and the image has port {found}: ports must be equal as text"


def _count_facts(pattern: Pattern, image: RegistryUrl) -> tuple[str, str, str]:
    found, expected = str(len(_labels(image))), str(len(pattern.labels))
    why = (
        f"the image's host {image.host!r} has {found} dot-separated parts and the pattern's "
        f"{pattern.url.host!r} has {expected}: the numbers must be equal, and a * matches within one part"
    )
    return found, expected, why


def _why_path(found: str, expected: str) -> str:
    hint = ": a * in a path is an ordinary character" if "*" in expected else ""
    return f"the image's path {found!r} does not begin with the pattern's path {expected!r}{hint}"


def _why_matched(image: RegistryUrl, wanted: RegistryUrl) -> str:
    port = f"both have port {image.port}" if image.port else "neither has a port"
    path = f", and the path {image.path!r} begins with {wanted.path!r}" if wanted.path else ""
    return f"{port}, every part of the host {image.host!r} matches {wanted.host!r}{path}"


def _label_facts(pattern: Pattern, image: RegistryUrl, failure: _Failure) -> tuple[str, str, str]:
    found = readable(_labels(image)[failure.label])
    expected = readable(pattern.labels[failure.label])
    if failure.rule is MatchRule.BAD_GLOB:
        why = f"{expected!r} in the pattern's host is not a glob: its [ does not begin a complete character class"
    else:
        why = f"part {failure.label + 1} of the image's host is {found!r}, which {expected!r} does not match"
    return found, expected, why
