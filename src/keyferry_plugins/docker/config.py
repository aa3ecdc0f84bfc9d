"""Docker config files: their logins, and the helpers they configure."""

from __future__ import annotations

from keyferry._core.json import loads
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError
from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DockerConfig", "Login", "parse_config", "parse_old_config"]


class Login(Value):
    """One entry of a docker config; *has_identity_token* if it contains an identity token instead of a password."""

    username: str
    password: str = field(repr=False)
    has_identity_token: bool = False


class DockerConfig(Value):
    """The content of a docker config: logins by key, helpers by registry, and the default helper."""

    logins: Mapping[str, Login] = field(default_factory=dict)
    helpers: Mapping[str, str] = field(default_factory=dict)
    store: str = ""


def parse_config(content: bytes, where: str) -> DockerConfig:
    """Parse a ``config.json``; raise ProvideError, which gives the field but quotes no value, if it is invalid."""
    fields = _object(_load(content, where), where)
    helpers = _object(_pick(fields, "credhelpers"), f"{where}: credHelpers")
    return DockerConfig(
        _read_logins(_pick(fields, "auths"), f"{where}: auths"),
        {registry: _text(name, f"{where}: credHelpers[{registry!r}]") for registry, name in helpers.items()},
        _text(_pick(fields, "credsstore"), f"{where}: credsStore"),
    )


def parse_old_config(content: bytes, where: str) -> DockerConfig:
    """Parse an old ``.dockercfg``, which contains only the entries."""
    return DockerConfig(_read_logins(_load(content, where), where))


def _load(content: bytes, where: str) -> object:
    try:
        return loads(content)
    except DocumentError:
        pass
    # Raised outside the handler: the caught exception may contain the file.
    raise ProvideError(f"{where} is not JSON" if content.strip() else f"{where} is empty, expected JSON")


def _read_logins(document: object, where: str) -> dict[str, Login]:
    logins = {}
    for key, value in _object(document, where).items():
        place = f"{where}[{hide_user_info(key)!r}]"
        login = _read_login(_object(value, place), place)
        # Docker leaves an empty entry for a login that a helper stores.
        if login.username or login.password or login.has_identity_token:
            logins[key] = login
    return logins


def _read_login(fields: Mapping[str, object], where: str) -> Login:
    username = _text(_pick(fields, "username"), f"{where}.username")
    password = _text(_pick(fields, "password"), f"{where}.password")
    auth = _text(_pick(fields, "auth"), f"{where}.auth")
    if auth:
        username, password = _decode_auth(auth, f"{where}.auth")
    return Login(username, password, bool(_text(_pick(fields, "identitytoken"), f"{where}.identitytoken")))


def _decode_auth(auth: str, where: str) -> tuple[str, str]:
    """Return user name and password of an ``auth`` field: base64, with optional padding and line breaks."""
    from binascii import Error, a2b_base64

    text = auth.replace("\r", "").replace("\n", "")
    if not auth.strip().endswith("="):
        text += "=" * (-len(text) % 4)
    decoded = None
    try:
        decoded = a2b_base64(text.encode("ascii"), strict_mode=True).decode() if len(text) % 4 == 0 else None
    except (Error, ValueError):
        pass
    if decoded is None:
        raise ProvideError(f"{where} is not base64 of UTF-8 text")
    username, colon, password = decoded.partition(":")
    if not colon:
        raise ProvideError(f"{where} holds no ':', expected base64 of username:password")
    return username, password


def _pick(fields: Mapping[str, object], name: str) -> object:
    """Return a field by its name in any letter case; the last of several applies, as in Go."""
    found = [value for key, value in fields.items() if key.lower() == name]
    return found[-1] if found else None


def _object(value: object, where: str) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProvideError(f"{where} is not a JSON object")
    return value


def _text(value: object, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProvideError(f"{where} is not a string")
    return value
