"""Folders of secrets as Kubernetes mounts them: docker configs, and user names and passwords in separate files."""

from __future__ import annotations

import os

from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded
from keyferry_plugins.docker.config import DockerConfig, Login, parse_config, parse_old_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Found", "read_config_file", "read_secrets"]

Found = DockerConfig | ProvideError
# The maximum size of a Kubernetes secret.
_MOST_BYTES = 1 << 20
_MOST_ENTRIES = 10_000
_PAIR = ("username", "password", "registry")
_OTHERS = 0o077


def read_config_file(path: str, notes: list[str]) -> DockerConfig:
    """Read the docker config in a file; a name that ends in ``.dockercfg`` means the old format."""
    what = "docker config"
    content = read_bounded(path, what, _MOST_BYTES)
    _note_mode(path, notes)
    parse = parse_old_config if path.endswith(".dockercfg") else parse_config
    return parse(content, f"{what} {path!r}")


def read_secrets(folder: str, notes: list[str]) -> Iterator[Found]:
    """Yield every secret in *folder* and its direct subfolders; a broken one as its error."""
    for name in ("", *_names(folder)):
        place = os.path.join(folder, name) if name else folder
        if os.path.isdir(place):
            yield from _read_secret(place, notes)


def _read_secret(folder: str, notes: list[str]) -> Iterator[Found]:
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
    username, password, registries = [_read_text(os.path.join(folder, name)) for name in _PAIR]
    _note_mode(os.path.join(folder, "password"), notes)
    keys = [line.strip() for line in registries.splitlines() if line.strip()]
    return DockerConfig({key: Login(username, password) for key in keys})


def _read_text(path: str) -> str:
    """Return the content of a file with one value, without the trailing line break of editors and ``echo``."""
    try:
        text = read_bounded(path, "secret", _MOST_BYTES).decode()
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
    if len(names) > _MOST_ENTRIES:
        raise ProvideError(f"folder of secrets {folder!r} has more than {_MOST_ENTRIES} entries")
    # Names that begin with two dots are Kubernetes' own: versions that the other names link to.
    return [name for name in names if not name.startswith("..")]


def _note_mode(path: str, notes: list[str]) -> None:
    """Note a file that other users can read; this is not an error, as mounted secrets often are readable."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if mode & _OTHERS:
        notes.append(
            f"{path!r} can be read by other users (mode {mode & 0o777:03o}); chmod 600 would keep it private"
        )
