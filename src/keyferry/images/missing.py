"""Inputs that a lookup depends on and that were not given, so that the answer may be unknown."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value

__all__ = ["LookupInput", "MissingInput", "distinct", "missing_documents"]


class LookupInput(StrEnum):
    """An input of a lookup that a kubelet knows, and that must be given here."""

    POD = "pod"
    PULL_SECRET = "pull-secret"  # noqa: S105 - a word for one
    ACCOUNT_SECRETS = "account-secrets"
    DOCKER_CONFIG = "docker-config"
    SERVICE_ACCOUNT = "service-account"
    SERVICE_ACCOUNT_TOKEN = "service-account-token"  # noqa: S105 - a word for one
    IMAGES = "images"
    NODE = "node"
    PLUGIN = "plugin"


class MissingInput(Value):
    """An input that was not given; *name* identifies it where there can be several.

    *instead* is the problem with an input that was given and cannot be used.
    """

    input: LookupInput
    name: str = ""
    instead: str = ""

    def __str__(self) -> str:
        text = _TEXTS[self.input] if self.name else _TEXTS[self.input].replace(" {name!r}", "")
        text = text.format(name=self.name)
        return f"{text}: {self.instead}" if self.instead else text


# What the ServiceAccount of the pod answers.
ACCOUNT_INPUTS = (LookupInput.ACCOUNT_SECRETS, LookupInput.SERVICE_ACCOUNT)
_TEXTS = {
    LookupInput.POD: "the pod was not given, so its pull secrets and its service account are not known",
    LookupInput.PULL_SECRET: "pull secret {name!r}, which the pod lists, was not given",
    LookupInput.ACCOUNT_SECRETS: "the pull secrets of service account {name!r} are not known",
    LookupInput.DOCKER_CONFIG: "the node's docker config {name!r} was not given",
    LookupInput.SERVICE_ACCOUNT: "the service account {name!r} was not given, so its annotations and UID are not known",
    LookupInput.SERVICE_ACCOUNT_TOKEN: "a token of the service account {name!r} was not given",
    LookupInput.NODE: "the provider config and the docker config of the pod's node are not known",
    LookupInput.PLUGIN: "the plugin {name!r} was not run",
    LookupInput.IMAGES: "the node's images were not given, so it is not known whether {name!r} is among them",
}


def distinct(*groups: tuple[MissingInput, ...]) -> tuple[MissingInput, ...]:
    """Return all missing inputs of *groups*, in order, without duplicates."""
    return tuple(dict.fromkeys(missing for group in groups for missing in group))


def missing_documents(missing: tuple[MissingInput, ...]) -> list[dict[str, object]]:
    """Return missing inputs as documents with stable fields."""
    return [{"input": str(each.input), "name": each.name, "text": str(each)} for each in missing]
