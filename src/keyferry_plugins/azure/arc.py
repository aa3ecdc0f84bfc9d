"""Managed identity of a machine outside Azure: Azure Arc's agent checks that the caller can read a local file."""

from __future__ import annotations

import os

from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry.sdk.http import Reply

__all__ = ["ask_arc"]

TOKENS_FOLDER = "/var/opt/azcmagent/tokens"
_MOST_BYTES = 4096
_UNAUTHORIZED = 401
_GROUP = "add the user that runs this to the group 'himds', or run it as root"


def ask_arc(ask: Callable[[Mapping[str, str]], Reply], folder: str = TOKENS_FOLDER) -> Reply:
    """Return the agent's response, after proving access to the privileged key file that the agent names."""
    headers = {"Metadata": "true"}
    reply = ask(headers)
    if reply.status != _UNAUTHORIZED:
        return reply
    key = _read_key(_challenge_path(reply), folder)
    return ask({**headers, "Authorization": f"Basic {key}"})


def _challenge_path(reply: Reply) -> str:
    for challenge in reply.values("www-authenticate"):
        scheme, _, rest = challenge.partition(" ")
        name, mark, path = rest.strip().partition("=")
        if scheme.lower() == "basic" and name.strip().lower() == "realm" and mark:
            return path.strip().strip('"')
    raise ProvideError(f"{reply.url}: answered status 401 without the name of a key file")


def _read_key(path: str, folder: str) -> str:
    """Return the key in the file that the agent names; a file outside *folder* is not read."""
    from keyferry.sdk.files import read_bounded

    if os.path.dirname(path) != folder or not path.endswith(".key"):
        raise ProvideError(f"Azure Arc: the key file that the agent names is not a .key file in {folder}")
    try:
        data = read_bounded(path, "Azure Arc's key file", _MOST_BYTES)
    except ProvideError as error:
        problem = error.message
    else:
        return _printable(data, path)
    raise ProvideError(problem, _GROUP)


def _printable(data: bytes, path: str) -> str:
    text = data.decode("ascii", "replace")
    if not text or any(not " " <= char < "\x7f" for char in text):
        raise ProvideError(f"Azure Arc's key file {path!r} holds no key")
    return text
