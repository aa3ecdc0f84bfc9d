"""Why an answer is what it is, as values; every stage's own facts, put into order and words."""

from dataclasses import dataclass, field

from keyferry.images.answer import Answer


@dataclass(frozen=True, slots=True)
class Reason:
    """One decision: at which stage, about what, how it went, in words and as facts."""

    stage: str
    subject: str
    outcome: str
    text: str
    facts: dict[str, object] = field(default_factory=dict)


def reasons_for(answer: Answer) -> tuple[Reason, ...]:
    return ()
