"""Why something is as it is, as a value that every room can hand on."""

from keyferry._core.values import Value, field

__all__ = ["Reason"]


class Reason(Value):
    """One decision: at which stage, about what, how it went, in words and as facts.

    The stages of an image's answer are image, match, provider, key, credential, decision and trap; those of a
    cluster's context are file, context, cluster, user, program, policy, plugin, server and trap.
    """

    stage: str
    subject: str
    outcome: str
    text: str
    facts: dict[str, object] = field(default_factory=dict)
