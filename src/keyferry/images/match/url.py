"""Registry URLs, parsed as by Go's URL parser after ``https://`` is put in front.

The kubelet compares patterns and images after this parser, so each of its special cases affects which
credentials are used.
"""

from __future__ import annotations

from keyferry._core.user_info import hide_user_info
from keyferry._core.values import NamedTuple
from keyferry._net.address import bytewise, readable
from keyferry._net.url import UrlSyntaxError, go_words, split_registry_key, split_registry_url
from keyferry.errors import MatchError

__all__ = [
    "RegistryUrl",
    "bytewise",
    "is_plain_path",
    "normalise_key",
    "parse_registry_url",
    "readable",
    "split_plain",
    "split_plain_host",
]

# Without escapes, user info and brackets.
_PLAIN_HOST = "abcdefghijklmnopqrstuvwxyz0123456789.-*_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "0123456789"


class RegistryUrl(NamedTuple):
    """The parts of a URL that matching uses, without user info, query and fragment.

    ``authority`` is host and port, ``host`` and ``port`` are its two parts: an IPv6 address loses its brackets
    only if a port follows. All are percent-decoded; a byte that is not UTF-8 is a lone surrogate.
    """

    authority: str
    host: str
    port: str
    path: str


def split_plain(text: str) -> tuple[str, str, str] | None:
    """Return host, port and path of a name that the URL parser does not change, or None for any other name."""
    authority, slash, rest = text.partition("/")
    if not is_plain_path(rest):
        return None
    host_and_port = split_plain_host(authority)
    return None if host_and_port is None else (*host_and_port, slash + rest)


def split_plain_host(authority: str) -> tuple[str, str] | None:
    """Return host and port of an authority that the URL parser does not change, or None for any other one."""
    host, _, port = authority.partition(":")
    # Not a regular expression: ``re`` takes longer to import than a lookup.
    return None if host.strip(_PLAIN_HOST) or port.strip(_DIGITS) else (host, port)


def is_plain_path(path: str) -> bool:
    """Return whether the URL parser does not change *path*, which is without its first slash."""
    # An escape, a query, a fragment, or a character that a URL must not contain.
    if "%" in path or "?" in path or "#" in path:
        return False
    return path.isascii() and path.isprintable()


def parse_registry_url(text: str) -> RegistryUrl:
    """Parse *text* as a URL with ``https://`` in front.

    Raise MatchError with Go's error as its ``kubernetes_text``.
    """
    plain = split_plain(text)
    if plain is not None:
        return RegistryUrl(text[: len(text) - len(plain[2])], *plain)
    try:
        return RegistryUrl(*split_registry_url(text))
    except UrlSyntaxError as error:
        failure = error
    raise _match_error("https://", text, failure)


def normalise_key(key: str) -> str:
    """Return the normalised form of an auth key, under which credentials are kept.

    Raise MatchError for a key that does not parse; the kubelet ignores such a credential.
    """
    plain = split_plain(key)
    if plain is not None and not plain[2]:
        return key
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
