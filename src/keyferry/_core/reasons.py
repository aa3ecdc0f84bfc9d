"""Why something is as it is, as a value that every room can hand on."""

from enum import StrEnum

from keyferry._core.values import Value, field

__all__ = ["Reason", "ReasonOutcome", "ReasonStage"]


class ReasonStage(StrEnum):
    """At which stage something was decided."""

    # Of an image's answer.
    IMAGE = "image"
    MATCH = "match"
    PROVIDER = "provider"
    KEY = "key"
    # Of a decision about an image that is on the node; the last two also of an image's answer.
    RECORD = "record"
    CREDENTIAL = "credential"
    DECISION = "decision"
    # Of a cluster's context; the policy is also that of a decision about an image.
    FILE = "file"
    CONTEXT = "context"
    CLUSTER = "cluster"
    USER = "user"
    PROGRAM = "program"
    POLICY = "policy"
    PLUGIN = "plugin"
    SERVER = "server"
    # Of both: what is right, and surprising.
    TRAP = "trap"


class ReasonOutcome(StrEnum):
    """How a stage went, where the stage has no enum of its own for it."""

    # image
    AS_IS = "as-is"
    NORMALISED = "normalised"
    # match and key
    MATCHED = "matched"
    NO_MATCH = "no-match"
    COVERS = "covers"
    DEFAULT_REGISTRY = "default-registry"
    DROPPED = "dropped"
    # credential
    TRIED = "tried"
    FAILED = "failed"
    # record, policy and decision
    INTENT = "intent"
    NONE = "none"
    FOUND = "found"
    VERIFY = "verify"
    FREE = "free"
    PULL = "pull"
    USE = "use"
    # file, context, cluster and user
    MISSING = "missing"
    READ = "read"
    CHOSEN = "chosen"
    ANONYMOUS = "anonymous"
    IMPERSONATES = "impersonates"
    # program and policy
    COMMAND = "command"
    ENVIRONMENT = "environment"
    PROTOCOL = "protocol"
    NOT_FOUND = "not-found"
    DENIED = "denied"
    ALLOWED = "allowed"
    # plugin and server
    NOT_RUN = "not-run"
    ANSWERED = "answered"
    CERTIFICATE = "certificate"
    ACCEPTED = "accepted"
    ANSWERS = "answers"
    REFUSED = "refused"


class Reason(Value):
    """One decision: at which stage, about what, how it went, in words and as facts.

    *outcome* is a ReasonOutcome, or a member of the enum that the stage decides by: how a provider came by its
    answer, the rule of a decision, the kind of an error, a trap.
    """

    stage: ReasonStage
    subject: str
    outcome: str
    text: str
    facts: dict[str, object] = field(default_factory=dict)
