"""``kubectl.config.k8s.io/v1beta1``: the part of a kuberc that sets which credential plugins may run.

v1alpha1 has the same fields. Defaults and aliases for kubectl's commands are not checked.
"""

from __future__ import annotations

from keyferry.api.wire import Reader, WireValue, anything, list_of, object_of, text, wire
from keyferry.errors import Kind

__all__ = ["API_VERSION", "API_VERSIONS", "KIND", "AllowlistEntry", "Preference", "read_preference"]

GROUP = "kubectl.config.k8s.io"
KIND = "Preference"
API_VERSION = f"{GROUP}/v1beta1"
API_VERSIONS = (API_VERSION, f"{GROUP}/v1alpha1")


class AllowlistEntry(WireValue):
    """A program that may run: its *command*, which Kubernetes 1.35 called *name*.

    *sha256* is an extension of keyferry: kubectl warns about it and ignores it.
    """

    command: str = wire("command", text, default="")
    name: str = wire("name", text, default="")
    sha256: str = wire("sha256", text, default="")


class Preference(WireValue):
    """The policy for credential plugins; an absent allowlist is None, which differs from an empty one."""

    defaults: object = wire("defaults", anything, default=None)
    overrides: object = wire("overrides", anything, default=None)
    aliases: object = wire("aliases", anything, default=None)
    credential_plugin_policy: str = wire("credentialPluginPolicy", text, default="")
    credential_plugin_allowlist: tuple[AllowlistEntry, ...] | None = wire(
        "credentialPluginAllowlist", list_of(object_of(AllowlistEntry)), default=None
    )


def read_preference(document: object, reader: Reader) -> Preference:
    """Return the Preference, of either version, in *document*; *reader* collects the problems."""
    preference = Preference.from_document(document, reader)
    for at, entry in enumerate(preference.credential_plugin_allowlist or ()):
        if entry.command and entry.name and entry.command != entry.name:
            message = "command and name differ, expected only command: name is the former name of this field"
            reader.note(("credentialPluginAllowlist", at), message, message, Kind.OTHER)
    return preference
