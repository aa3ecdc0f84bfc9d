"""Parse a registry's WWW-Authenticate header."""

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["parse_bearer", "read_bearer", "read_bearer_compat"]

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class ChallengeError(Exception):
    """The reason why a header is not a usable challenge."""


def read_bearer(headers: "Sequence[str]") -> dict[str, str]:
    """Return the parameters of the only Bearer challenge in the headers; raise ChallengeError if there is not one."""
    found = [challenge for header in headers if (challenge := parse_bearer(header)) is not None]
    if len(found) != 1:
        how_many = "no" if not found else f"{len(found)}"
        raise ChallengeError(f"it has {how_many} Bearer challenges, expected one")
    return _complete(found[0])


def read_bearer_compat(headers: "Sequence[str]") -> dict[str, str]:
    """Return the parameters of a Bearer challenge in the only header; raise ChallengeError if there is not one."""
    if len(headers) != 1:
        raise ChallengeError(f"it has {len(headers)} WWW-Authenticate headers, expected one")
    return read_bearer(headers)


def parse_bearer(header: str) -> dict[str, str] | None:
    """Return the parameters of the Bearer challenge in a header, by lower-case name; None if it has none.

    A value is a token or a quoted string with backslash escapes. Raise ChallengeError if a name occurs twice,
    as neither value can be trusted.
    """
    scheme, _, rest = header.strip().partition(" ")
    if scheme.lower() != "bearer":
        return None
    parameters: dict[str, str] = {}
    for name, value in _parameters(rest):
        if name in parameters:
            raise ChallengeError(f"it gives {name[:40]!r} twice")
        parameters[name] = value
    return parameters


def _complete(parameters: dict[str, str]) -> dict[str, str]:
    for name in ("realm", "service"):
        if not parameters.get(name):
            raise ChallengeError(f"its Bearer challenge has no {name}")
    return parameters


def _parameters(text: str) -> "Iterator[tuple[str, str]]":
    at = _skip(text, 0, " \t,")
    while at < len(text):
        end = _word_end(text, at)
        name = text[at:end].lower()
        equals = _skip(text, end, " \t")
        if not name or text[equals : equals + 1] != "=":
            # Another scheme begins here, or the text is malformed; the parameters before it still count.
            return
        value, at = _value(text, _skip(text, equals + 1, " \t"))
        yield name, value
        at = _skip(text, at, " \t,")


def _value(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        end = at
        # More characters than a token allows: registries write URLs without quotes.
        while end < len(text) and text[end] not in ', \t"':
            end += 1
        return text[at:end], end
    pieces = []
    at += 1
    while at < len(text) and text[at] != '"':
        at += text[at] == "\\"
        pieces.append(text[at : at + 1])
        at += 1
    if at >= len(text):
        raise ChallengeError("a quote in it is not closed")
    return "".join(pieces), at + 1


def _word_end(text: str, at: int) -> int:
    while at < len(text) and text[at] in _TOKEN:
        at += 1
    return at


def _skip(text: str, at: int, blanks: str) -> int:
    while at < len(text) and text[at] in blanks:
        at += 1
    return at
