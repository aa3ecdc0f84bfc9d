"""Which pattern matches which image, by the kubelet's rules, for one pattern with reasons and for many at once.

The kubelet compares patterns and images after Go's URL parser has read them, with ``https://`` in front. So each
special case of that parser affects which credentials are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, field
from keyferry._net.address import bytewise, readable
from keyferry._net.url import UrlSyntaxError, go_words, split_registry_key, split_registry_url
from keyferry.errors import MatchError

# A piece of a label is literal text or a character class, as ranges of code points.
Piece = str | tuple[tuple[int, int], ...]
# The pieces before, between and after the stars.
Glob = tuple[tuple[Piece, ...], ...]

# "?", "\" and "^" are special in Go's globs too, but URL parsing does not accept them in hosts.
_GLOB_PART = r"(?P<star>\*)|\[(?P<class>[^\]]*)(?P<closing>\]?)|[^*\[]+"
_CLASS = r"(?:[^-](?:-[^-])?)+"
_RANGE = r"([^-])(?:-([^-]))?"
_INVALID_RUNE = 0xFFFD
_BAD_GLOB_TEXT = "syntax error in pattern"


class MatchRule(StrEnum):
    """The rule that decides whether a pattern matches an image: the first that fails, or none."""

    MATCHED = "matched"
    PATTERN_UNPARSABLE = "pattern-unparsable"
    IMAGE_UNPARSABLE = "image-unparsable"
    PORT = "port"
    LABEL_COUNT = "label-count"
    PATH_PREFIX = "path-prefix"
    LABEL = "label"
    BAD_GLOB = "bad-glob"


class RegistryUrl(Value):
    """The parts of a URL that matching uses, without user info, query and fragment.

    ``authority`` is host and port, ``host`` and ``port`` are its two parts: an IPv6 address loses its brackets
    only if a port follows. All are percent-decoded; a byte that is not UTF-8 is a lone surrogate. ``labels`` are the
    parts of the host, and ``raw_path`` is the path, both bytewise, as they are compared.
    """

    authority: str
    host: str
    port: str
    path: str
    labels: tuple[str, ...]
    raw_path: str


class Pattern(RegistryUrl):
    """A parsed pattern, with a glob for each label of its host; that of a malformed label is None."""

    text: str
    globs: tuple[Glob | None, ...]


class MatchVerdict(Value):
    """Whether a pattern matches an image, and the first rule that fails.

    ``found`` is the value in the image and ``expected`` the value in the pattern. ``kubernetes_text`` is the error that
    the kubelet's function returns, if it returns one.
    """

    matched: bool
    rule: MatchRule
    found: str
    expected: str
    why: str
    kubernetes_text: str = field(default="", repr=False)  # may quote a password


def parse_registry_url(text: str) -> RegistryUrl:
    """Parse *text* as a URL with ``https://`` in front.

    Raise MatchError with Go's error as its ``kubernetes_text``.
    """
    authority, host, port, path = _split(text)
    labels = tuple(bytewise(host).split("."))
    return RegistryUrl(
        authority=authority, host=host, port=port, path=path, labels=labels, raw_path=bytewise(path)
    )


def _split(text: str) -> tuple[str, str, str, str]:
    try:
        return split_registry_url(text)
    except UrlSyntaxError as error:
        failure = error
    raise _match_error("https://", text, failure)


def normalise_key(key: str) -> str:
    """Return the normalised form of an auth key, under which credentials are kept.

    Raise MatchError for a key that does not parse; the kubelet ignores such a credential.
    """
    try:
        authority, _, _, path = split_registry_key(key)
    except UrlSyntaxError as error:
        failure = error
    else:
        return authority + path
    prefix = "http://" if key.startswith("http://") else "https://"
    raise _match_error(prefix, key.removeprefix(prefix), failure)


def _match_error(prefix: str, text: str, error: UrlSyntaxError) -> MatchError:
    shown = hide_user_info(readable(bytewise(text)))
    return MatchError(f"{shown!r} is not a registry URL: {error.why}", go_words(prefix + text, error))


def parse_pattern(text: str) -> Pattern:
    """Parse one entry of matchImages, or one normalised key of a keyring.

    Raise MatchError if it is not a URL. A malformed glob is an error only when an image is compared with it.
    """
    authority, host, port, path = _split(text)
    labels = tuple(bytewise(host).split("."))
    return Pattern(
        authority=authority,
        host=host,
        port=port,
        path=path,
        labels=labels,
        raw_path=bytewise(path),
        text=text,
        globs=tuple(map(_parse_glob, labels)),
    )


def matches(pattern: str | Pattern, image: str | RegistryUrl) -> bool:
    """Return whether *pattern* matches *image*; what does not parse, and a malformed glob, matches nothing."""
    try:
        parsed = parse_pattern(pattern) if isinstance(pattern, str) else pattern
        url = parse_registry_url(image) if isinstance(image, str) else image
    except MatchError:
        return False
    return _decide(parsed, url)[0] is MatchRule.MATCHED


def _decide(pattern: Pattern, image: RegistryUrl) -> tuple[MatchRule, int]:
    """Return the first rule that fails, or MATCHED, and the number of the label that it is about."""
    if pattern.port != image.port:
        return MatchRule.PORT, 0
    if len(pattern.labels) != len(image.labels):
        return MatchRule.LABEL_COUNT, 0
    # A plain string prefix, as in the kubelet: "r.io/foo" matches "r.io/foobar".
    # A stricter rule would withhold credentials that the kubelet offers.
    if not image.raw_path.startswith(pattern.raw_path):
        return MatchRule.PATH_PREFIX, 0
    for number, (glob, label) in enumerate(zip(pattern.globs, image.labels, strict=True)):
        if glob is None:
            return MatchRule.BAD_GLOB, number
        if not glob_matches(glob, label):
            return MatchRule.LABEL, number
    return MatchRule.MATCHED, 0


class PatternIndex:
    """An immutable set of patterns, each with an owner, that finds the owners whose patterns match an image.

    A pattern that does not parse or has a malformed glob matches nothing. Safe to use from several threads.
    """

    __slots__ = ("_groups",)

    def __init__(self, patterns: Iterable[tuple[int, str | Pattern]]) -> None:
        # By the number of labels and the port; within them, by the places of the labels that are literal.
        self._groups: dict[tuple[int, str], list[_Group]] = {}
        known: dict[tuple[int, str, tuple[int, ...]], _Group] = {}
        for order, (owner, given) in enumerate(patterns):
            try:
                pattern = parse_pattern(given) if isinstance(given, str) else given
            except MatchError:
                continue
            if None in pattern.globs:
                continue
            places = tuple([at for at, glob in enumerate(pattern.globs) if glob and is_literal(glob)])
            key = len(pattern.labels), pattern.port, places
            if key not in known:
                known[key] = _Group(places)
                self._groups.setdefault(key[:2], []).append(known[key])
            known[key].add(order, owner, pattern)

    def match(self, image: str) -> tuple[tuple[int, str], ...]:
        """Return each owner with a pattern that matches *image*, ascending, with its first such pattern."""
        try:
            url = parse_registry_url(image)
        except MatchError:
            return ()
        groups = self._groups.get((len(url.labels), url.port), ())
        found = [each for group in groups for each in group.find(url) if matches(each[2], url)]
        first: dict[int, str] = {}
        for _, owner, pattern in sorted(found, key=lambda each: each[0]):
            first.setdefault(owner, pattern.text)
        return tuple(sorted(first.items()))


class _Group:
    """Patterns with literal labels in the same *places*, by these labels and the path."""

    __slots__ = ("_lengths", "_patterns", "_places")

    def __init__(self, places: tuple[int, ...]) -> None:
        self._places = places
        # The lengths of the paths: an image is looked up once with as much of its path, for each of them.
        self._lengths: set[int] = set()
        # Each pattern with its order and its owner.
        self._patterns: dict[tuple[tuple[str, ...], str], list[tuple[int, int, Pattern]]] = {}

    def add(self, order: int, owner: int, pattern: Pattern) -> None:
        """Add a pattern of this group."""
        path = pattern.raw_path
        self._lengths.add(len(path))
        key = self._literal_labels(pattern), path
        self._patterns.setdefault(key, []).append((order, owner, pattern))

    def find(self, image: RegistryUrl) -> Iterator[tuple[int, int, Pattern]]:
        """Return the patterns with the literal labels of *image* and a beginning of its path."""
        labels, path = self._literal_labels(image), image.raw_path
        for length in self._lengths:
            if length <= len(path):
                yield from self._patterns.get((labels, path[:length]), ())

    def _literal_labels(self, url: RegistryUrl) -> tuple[str, ...]:
        return tuple([url.labels[at] for at in self._places])


def explain_match(pattern: str, image: str) -> MatchVerdict:
    """Return whether *pattern* matches *image* and which rule decided; never raise."""
    try:
        parsed = parse_pattern(pattern)
    except MatchError as error:
        return _unparsable(MatchRule.PATTERN_UNPARSABLE, pattern, image, error)
    try:
        url = parse_registry_url(image)
    except MatchError as error:
        return _unparsable(MatchRule.IMAGE_UNPARSABLE, pattern, image, error)
    rule, label = _decide(parsed, url)
    found, expected, why = _facts(parsed, url, rule, label)
    return MatchVerdict(
        matched=rule is MatchRule.MATCHED,
        rule=rule,
        found=found,
        expected=expected,
        why=why,
        kubernetes_text=_BAD_GLOB_TEXT if rule is MatchRule.BAD_GLOB else "",
    )


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


def is_literal(glob: Glob) -> bool:
    """Return whether *glob* is plain text."""
    return len(glob) == 1 and (not glob[0] or (len(glob[0]) == 1 and isinstance(glob[0][0], str)))


def _parse_glob(label: str) -> Glob | None:
    """Return the pieces of a label, or None if it is malformed."""
    if "[" not in label:
        if "*" not in label:
            return (((label,) if label else ()),)
        return tuple([(text,) if text else () for text in label.split("*")])
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
        kubernetes_text=error.kubernetes_text,
    )


def _facts(pattern: Pattern, image: RegistryUrl, rule: MatchRule, label: int) -> tuple[str, str, str]:
    """Return the value in the image, that in the pattern, and why they match or do not."""
    if rule is MatchRule.PORT:
        return image.port, pattern.port, _why_port(image.port, pattern.port)
    if rule is MatchRule.LABEL_COUNT:
        found, expected = str(len(image.labels)), str(len(pattern.labels))
        why = (
            f"the image's host {image.host!r} has {found} dot-separated parts and the pattern's "
            f"{pattern.host!r} has {expected}: the numbers must be equal, and a * matches within one part"
        )
        return found, expected, why
    if rule is MatchRule.PATH_PREFIX:
        hint = ": a * in a path is an ordinary character" if "*" in pattern.path else ""
        why = f"the image's path {image.path!r} does not begin with the pattern's path {pattern.path!r}{hint}"
        return image.path, pattern.path, why
    if rule is MatchRule.MATCHED:
        port = f"both have port {image.port}" if image.port else "neither has a port"
        path = f", and the path {image.path!r} begins with {pattern.path!r}" if pattern.path else ""
        why = f"{port}, every part of the host {image.host!r} matches {pattern.host!r}{path}"
        return image.authority + image.path, hide_user_info(pattern.text), why
    found, expected = readable(image.labels[label]), readable(pattern.labels[label])
    if rule is MatchRule.BAD_GLOB:
        why = f"{expected!r} in the pattern's host is not a glob: its [ does not begin a complete character class"
    else:
        why = f"part {label + 1} of the image's host is {found!r}, which {expected!r} does not match"
    return found, expected, why


def _why_port(found: str, expected: str) -> str:
    if not expected:
        return (
            f"the pattern has no port and the image has port {found}: "
            "a pattern without a port matches only images without one"
        )
    if not found:
        return f"the pattern has port {expected} and the image has none: there is no default port"
    return f"the pattern has port {expected} and the image has port {found}: ports must be equal as text"
