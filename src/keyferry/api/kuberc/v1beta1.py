"""``kubectl.config.k8s.io/v1beta1``: the part of a kuberc that sets which credential plugins may run.

v1alpha1 has the same fields. Defaults and aliases for kubectl's commands are not read.
"""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.api.codec import Reader
from keyferry.errors import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._core.paths import Path

__all__ = ["API_VERSION", "API_VERSIONS", "KIND", "AllowlistEntry", "Preference", "read_preference"]

GROUP = "kubectl.config.k8s.io"
KIND = "Preference"
API_VERSION = f"{GROUP}/v1beta1"
API_VERSIONS = (API_VERSION, f"{GROUP}/v1alpha1")


class AllowlistEntry(Value):
    """A program that may run: its *command*, which Kubernetes 1.35 called *name*.

    *sha256* is an extension of keyferry: kubectl warns about it and ignores it.
    """

    command: str = ""
    sha256: str = ""


class Preference(Value):
    """The policy for credential plugins; an absent allowlist is None, which differs from an empty one."""

    credential_plugin_policy: str = ""
    credential_plugin_allowlist: tuple[AllowlistEntry, ...] | None = None


def read_preference(document: object, reader: Reader) -> Preference:
    """Return the Preference, of either version, in *document*; *reader* collects the problems."""
    fields = reader.struct(
        document,
        (),
        {
            "kind": reader.text,
            "apiVersion": reader.text,
            "defaults": reader.anything,
            "overrides": reader.anything,
            "aliases": reader.anything,
            "credentialPluginPolicy": reader.text,
            "credentialPluginAllowlist": reader.list_of(
                lambda value, path: _read_entry(reader, value, path),
            ),
        },
    )
    entries = fields.get("credentialPluginAllowlist")
    listed = None if entries is None else tuple(entries)
    return Preference(fields.get("credentialPluginPolicy") or "", listed)


def _read_entry(reader: Reader, value: object, path: Path) -> AllowlistEntry:
    readers = {"command": reader.text, "name": reader.text, "sha256": reader.text}
    fields = reader.struct(value, path, readers)
    command, name = fields.get("command") or "", fields.get("name") or ""
    if command and name and command != name:
        message = "command and name differ, expected only command: name is the former name of this field"
        reader.note(path, message, message, Kind.OTHER)
    return AllowlistEntry(command or name, fields.get("sha256") or "")
