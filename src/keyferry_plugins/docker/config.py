"""Docker config files: the logins in them, and the helpers they name."""

from keyferry.sdk import ProvideError
from keyferry.sdk.json import DocumentError, loads
from keyferry.sdk.text import hide_user_info
from keyferry.sdk.values import Value, field

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DockerConfig", "Login", "parse_config", "parse_old_config"]


class Login(Value):
    """One entry of a docker config; *has_identity_token* where it holds one in place of a password."""

    username: str
    password: str = field(repr=False)
    has_identity_token: bool = False


class DockerConfig(Value):
    """What a docker config has: logins by key, helpers by registry, and the helper for all the others."""

    logins: "Mapping[str, Login]" = field(default_factory=dict)
    helpers: "Mapping[str, str]" = field(default_factory=dict)
    store: str = ""


def parse_config(content: bytes, where: str) -> DockerConfig:
    """Read a ``config.json``; raises ProvideError, which says where and what, and quotes none of it."""
    fields = _object(_load(content, where), where)
    helpers = _object(_pick(fields, "credhelpers"), f"{where}: credHelpers")
    return DockerConfig(
        _read_logins(_pick(fields, "auths"), f"{where}: auths"),
        {registry: _text(name, f"{where}: credHelpers[{registry!r}]") for registry, name in helpers.items()},
        _text(_pick(fields, "credsstore"), f"{where}: credsStore"),
    )


def parse_old_config(content: bytes, where: str) -> DockerConfig:
    """Read an old ``.dockercfg``, which is the entries and nothing else."""
    return DockerConfig(_read_logins(_load(content, where), where))


def _load(content: bytes, where: str) -> object:
    try:
        return loads(content)
    except DocumentError:
        pass
    # Raised out here on purpose: what was caught may hold the file.
    raise ProvideError(f"{where} is not JSON")


def _read_logins(document: object, where: str) -> dict[str, Login]:
    logins = {}
    for key, value in _object(document, where).items():
        place = f"{where}[{hide_user_info(key)!r}]"
        login = _read_login(_object(value, place), place)
        # Docker leaves an empty entry behind where a helper keeps the login.
        if login.username or login.password or login.has_identity_token:
            logins[key] = login
    return logins


def _read_login(fields: "Mapping[str, object]", where: str) -> Login:
    username = _text(_pick(fields, "username"), f"{where}.username")
    password = _text(_pick(fields, "password"), f"{where}.password")
    auth = _text(_pick(fields, "auth"), f"{where}.auth")
    if auth:
        username, password = _decode_auth(auth, f"{where}.auth")
    return Login(username, password, bool(_text(_pick(fields, "identitytoken"), f"{where}.identitytoken")))


def _decode_auth(auth: str, where: str) -> tuple[str, str]:
    """The two halves of an ``auth`` field: base64, padded only if it ends in '=', line breaks allowed."""
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


def _pick(fields: "Mapping[str, object]", name: str) -> object:
    """A field by its name in any case; of several the last counts, as in Go."""
    found = [value for key, value in fields.items() if key.lower() == name]
    return found[-1] if found else None


def _object(value: object, where: str) -> "Mapping[str, object]":
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
