"""Reasons for a decision, as values that every package can use."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value, field


class ReasonStage(StrEnum):
    """The stage at which a decision was made."""

    # The credentials of an image.
    IMAGE = "image"
    MATCH = "match"
    PROVIDER = "provider"
    KEY = "key"
    # The decision about an image that is on the node. The last two also apply to the credentials of an image.
    RECORD = "record"
    CREDENTIAL = "credential"
    DECISION = "decision"
    # The context of a cluster. The policy also applies to a decision about an image.
    FILE = "file"
    CONTEXT = "context"
    PROFILE = "profile"
    CLUSTER = "cluster"
    USER = "user"
    PROGRAM = "program"
    POLICY = "policy"
    PLUGIN = "plugin"
    SERVER = "server"
    # Both: correct but surprising behaviour.
    TRAP = "trap"


class ReasonOutcome(StrEnum):
    """The outcome of a stage that has no enum of its own."""

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
    ADDED = "added"
    IGNORED = "ignored"
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
    STDERR = "stderr"
    ACCEPTED = "accepted"
    ANSWERS = "answers"
    REFUSED = "refused"


class Reason(Value):
    """One decision: its stage, subject and outcome, described in *text* and given as data in *facts*.

    *outcome* is a ReasonOutcome, or a member of the stage's own enum: the source of a provider's answer, the rule of a
    decision, the kind of an error, a trap.
    """

    stage: ReasonStage
    subject: str
    outcome: str
    text: str
    facts: dict[str, object] = field(default_factory=dict)
