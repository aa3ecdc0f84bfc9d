"""What an answer depends on and keyferry was not told: a value, so that unknown is never taken for no."""

from enum import StrEnum

from keyferry._core.values import Value

__all__ = ["LookupInput", "MissingInput", "distinct", "missing_documents"]


class LookupInput(StrEnum):
    """Something that a kubelet knows, and that somebody who asks about it must give."""

    POD = "pod"
    PULL_SECRET = "pull-secret"  # noqa: S105 - a word for one
    DOCKER_CONFIG = "docker-config"
    SERVICE_ACCOUNT = "service-account"
    SERVICE_ACCOUNT_TOKEN = "service-account-token"  # noqa: S105 - a word for one
    IMAGES = "images"


class MissingInput(Value):
    """An input that was not given; *name* says which, where there can be several.

    *instead* is what is wrong with the one that was given in its place.
    """

    input: LookupInput
    name: str = ""
    instead: str = ""

    def __str__(self) -> str:
        text = _TEXTS[self.input].format(name=self.name)
        return f"{text}: {self.instead}" if self.instead else text


_TEXTS = {
    LookupInput.POD: "the pod was not given, so its pull secrets and its service account are not known",
    LookupInput.PULL_SECRET: "pull secret {name!r}, which the pod lists, was not given",
    LookupInput.DOCKER_CONFIG: "the node's docker config {name!r} was not given",
    LookupInput.SERVICE_ACCOUNT: "the service account {name!r} was not given, so its annotations and UID are not known",
    LookupInput.SERVICE_ACCOUNT_TOKEN: "a token of the service account {name!r} was not given",
    LookupInput.IMAGES: "the node's images were not given, so it is not known whether {name!r} is there",
}


def distinct(*groups: tuple[MissingInput, ...]) -> tuple[MissingInput, ...]:
    """All of them, in order, each once."""
    return tuple(dict.fromkeys(missing for group in groups for missing in group))


def missing_documents(missing: tuple[MissingInput, ...]) -> list[dict[str, object]]:
    """What was not given, with stable fields."""
    return [{"input": str(each.input), "name": each.name, "text": str(each)} for each in missing]
