"""Docker config files, alone or in folders of secrets as Kubernetes mounts them: their logins and helpers."""

from __future__ import annotations

import os
from binascii import Error, a2b_base64
from collections.abc import Iterator, Mapping

from keyferry._core.json import loads
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded

# The maximum size of a Kubernetes secret.
MAX_BYTES = 1 << 20
MAX_ENTRIES = 10_000
_PAIR = ("username", "password", "registry")


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
        logins=_read_logins(_pick(fields, "auths"), f"{where}: auths"),
        helpers={
            registry: _text(name, f"{where}: credHelpers[{registry!r}]") for registry, name in helpers.items()
        },
        store=_text(_pick(fields, "credsstore"), f"{where}: credsStore"),
    )


def parse_old_config(content: bytes, where: str) -> DockerConfig:
    """Parse an old ``.dockercfg``, which contains only the entries."""
    return DockerConfig(logins=_read_logins(_load(content, where), where))


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
    identity_token = _text(_pick(fields, "identitytoken"), f"{where}.identitytoken")
    return Login(username=username, password=password, has_identity_token=bool(identity_token))


def _decode_auth(auth: str, where: str) -> tuple[str, str]:
    """Return user name and password of an ``auth`` field: base64, with optional padding and line breaks."""
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


def read_config_file(path: str, notes: list[str]) -> DockerConfig:
    """Read the docker config in a file; a name that ends in ``.dockercfg`` means the old format."""
    what = "docker config"
    content = read_bounded(path, what, MAX_BYTES)
    _note_mode(path, notes)
    parse = parse_old_config if path.endswith(".dockercfg") else parse_config
    return parse(content, f"{what} {path!r}")


def read_secrets(folder: str, notes: list[str]) -> Iterator[DockerConfig | ProvideError]:
    """Yield every secret in *folder* and its direct subfolders; a broken one as its error."""
    for name in ("", *_names(folder)):
        place = os.path.join(folder, name) if name else folder
        if os.path.isdir(place):
            yield from _read_secret(place, notes)


def _read_secret(folder: str, notes: list[str]) -> Iterator[DockerConfig | ProvideError]:
    # Kubernetes updates all files of a secret at once through this link; all are read from one version.
    version = os.path.join(folder, "..data")
    if os.path.isdir(version):
        folder = os.path.realpath(version)
    names = _names(folder)
    for name in names:
        if name.endswith((".dockerconfigjson", ".dockercfg", ".json")):
            try:
                yield read_config_file(os.path.join(folder, name), notes)
            except ProvideError as error:
                yield error
    if set(_PAIR) <= set(names):
        try:
            yield _read_pair(folder, notes)
        except ProvideError as error:
            yield error


def _read_pair(folder: str, notes: list[str]) -> DockerConfig:
    username, password, registries = [_read_value(os.path.join(folder, name)) for name in _PAIR]
    _note_mode(os.path.join(folder, "password"), notes)
    keys = [line.strip() for line in registries.splitlines() if line.strip()]
    return DockerConfig(logins=dict.fromkeys(keys, Login(username=username, password=password)))


def _read_value(path: str) -> str:
    """Return the content of a file with one value, without the trailing line break of editors and ``echo``."""
    try:
        text = read_bounded(path, "secret", MAX_BYTES).decode()
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise ProvideError(f"secret {path!r} is not UTF-8 text")
    return text.removesuffix("\n").removesuffix("\r")


def _names(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise ProvideError(f"folder of secrets {folder!r} cannot be read: {reason}") from None
    if len(names) > MAX_ENTRIES:
        raise ProvideError(f"folder of secrets {folder!r} has more than {MAX_ENTRIES} entries")
    # Names that begin with two dots are Kubernetes' own: versions that the other names link to.
    return [name for name in names if not name.startswith("..")]


def _note_mode(path: str, notes: list[str]) -> None:
    """Note a file that other users can read; this is not an error, as mounted secrets often are readable."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if mode & 0o077:
        notes.append(
            f"{path!r} can be read by other users (mode {mode & 0o777:03o}); chmod 600 would keep it private"
        )
