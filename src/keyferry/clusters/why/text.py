"""Show why a context works or does not, as text and as a document, without secrets."""

from collections.abc import Sequence

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.secrets import printable
from keyferry.clusters.why.diagnosis import Diagnosis
from keyferry.show.documents import make_document, reason_document
from keyferry.show.marks import Mark, mark
from keyferry.show.text import sections
from keyferry.show.writer import Lines

__all__ = ["document", "render"]

_TITLES = (
    ("kubeconfig", (ReasonStage.FILE,)),
    ("context", (ReasonStage.CONTEXT, ReasonStage.CLUSTER, ReasonStage.USER)),
    ("program", (ReasonStage.PROGRAM, ReasonStage.POLICY)),
    ("plugin response", (ReasonStage.PLUGIN,)),
    ("server response", (ReasonStage.SERVER,)),
    ("beware", (ReasonStage.TRAP,)),
)
_BAD = (
    ReasonOutcome.FAILED,
    ReasonOutcome.DENIED,
    ReasonOutcome.REFUSED,
    ReasonOutcome.NOT_FOUND,
    ReasonOutcome.MISSING,
)
_GOOD = (
    ReasonOutcome.READ,
    ReasonOutcome.CHOSEN,
    ReasonOutcome.FOUND,
    ReasonOutcome.ALLOWED,
    ReasonOutcome.ANSWERED,
    ReasonOutcome.ACCEPTED,
    ReasonOutcome.ANSWERS,
)
# The stages whose subject is shown beside the text.
_NAMED = (
    ReasonStage.FILE,
    ReasonStage.CONTEXT,
    ReasonStage.CLUSTER,
    ReasonStage.USER,
    ReasonStage.SERVER,
)


def render(reasons: Sequence[Reason]) -> Lines:
    """Return the explanation as text, in sections."""
    return sections(
        (title, [_line(reason) for reason in reasons if reason.stage in stages]) for title, stages in _TITLES
    )


def document(diagnosis: Diagnosis, reasons: Sequence[Reason]) -> dict[str, object]:
    """Return the explanation as a document with stable fields."""
    answer = diagnosis.review
    return make_document(
        "ClusterExplanation",
        context=diagnosis.config.context,
        decision=_decision(diagnosis),
        username=answer.username if answer is not None else "",
        traps=[reason_document(reason) for reason in reasons if reason.stage is ReasonStage.TRAP],
        reasons=[reason_document(reason) for reason in reasons if reason.stage is not ReasonStage.TRAP],
    )


def _decision(diagnosis: Diagnosis) -> str:
    if diagnosis.error is not None:
        return f"failed-at-{diagnosis.stage}"
    if diagnosis.review is None:
        return "not-run"
    return "accepted" if diagnosis.is_accepted else "refused"


def _line(reason: Reason) -> str:
    text = printable(reason.text)
    if reason.stage is ReasonStage.TRAP:
        return f"{mark(Mark.WARNING)} {text}"
    sign = mark(Mark.NO) if reason.outcome in _BAD else ""
    sign = mark(Mark.YES) if reason.outcome in _GOOD else sign
    named = reason.stage in _NAMED
    subject = f"{reason.stage} {printable(reason.subject)}: " if named else ""
    return f"{sign or ' '} {subject}{text}"
