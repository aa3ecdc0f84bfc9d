"""Problems of the agent's config: title, reason, correction; refusals first."""

from __future__ import annotations

REFUSED_AGENT: dict[str, tuple[str, str, str]] = {
    "KF501": (
        "the agent's config is not valid YAML or JSON",
        "the agent does not start with it; a running agent keeps its old config",
        "correct the syntax at the given position",
    ),
    "KF502": (
        "the file is not an AgentConfig of a known version",
        "only AgentConfig of keyferry.dev/v1alpha1 is read",
        "correct apiVersion and kind",
    ),
    "KF503": ("a value has the wrong type", "nothing is converted", "use the expected type"),
    "KF504": (
        "unknown field",
        "a misspelled setting or rule would have no effect",
        "correct the spelling or remove the field",
    ),
    "KF505": ("a key is given more than once", "only one of the values could count", "keep one of them"),
    "KF510": (
        "the value of a setting is out of range",
        "the agent could not work with it",
        "use a value in the range of the message",
    ),
    "KF511": (
        "a rule names no user, or no registry",
        "such a rule has no effect, which is not what its author intended",
        "add uids or gids, and registries or everyRegistry",
    ),
    "KF512": (
        "a rule has both registries and everyRegistry",
        "one of them would have no effect",
        "keep one of them",
    ),
    "KF513": (
        "a registry of a rule is not a valid pattern",
        "it matches no image",
        "use a pattern as in matchImages of a provider config",
    ),
}

SUSPECT_AGENT: dict[str, tuple[str, str, str]] = {
    "KF550": (
        "other users can write the agent's config",
        "a user who can write it decides who gets the node's credentials",
        "run chmod go-w on the file",
    ),
    "KF551": (
        "a rule names the overflow user or group, 65534",
        "every user of a foreign user namespace has this id, and so do many services that run as nobody",
        "run the client as a user of its own and name that",
    ),
    "KF552": (
        "a rule gives every registry to a user who is not root",
        "this user gets the node's credentials for each registry, also those of later providers",
        "list the registries, if not all are meant",
    ),
}
