"""Registry URLs, read as Go's URL parser reads them once ``https://`` is put in front.

The kubelet compares what that parser makes of a pattern and of an image, so each of its oddities decides
who gets a credential.
"""

import re

from keyferry._core.user_info import hide_user_info
from keyferry._core.values import NamedTuple
from keyferry._net.address import bytewise, readable
from keyferry._net.url import UrlSyntaxError, go_words, split_registry_key, split_registry_url
from keyferry.errors import MatchError

__all__ = ["RegistryUrl", "bytewise", "normalise_key", "parse_registry_url", "readable", "split_plain"]

# Nothing in it is encoded, quoted or cut off: no escape, user info, query, fragment, brackets or control character.
_PLAIN = re.compile(r'([-._*0-9A-Za-z]*)(?::([0-9]*))?((?:/[ -"$&->@-~]*)?)').fullmatch


class RegistryUrl(NamedTuple):
    """What matching needs of a URL: user info, query and fragment are gone.

    ``authority`` is host and port, ``host`` and ``port`` its two halves: an IPv6 address loses its brackets
    only when a port follows. All are percent-decoded; a byte that is not UTF-8 is a lone surrogate.
    """

    authority: str
    host: str
    port: str
    path: str


def split_plain(text: str) -> tuple[str, str, str] | None:
    """Give host, port and path of a name that parses to itself, as nearly all do; None for any other."""
    plain = _PLAIN(text)
    if plain is None:
        return None
    host, port, path = plain.groups("")
    return host, port, path


def parse_registry_url(text: str) -> RegistryUrl:
    """Parse *text* as the URL that ``https://`` makes of it.

    Raises MatchError with Go's own error as its ``kubernetes_text``.
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
    """Turn the registry of a credential into the key it is kept under.

    Raises MatchError for a key that does not parse; the kubelet drops such a credential.
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
