"""Why a context works or does not, for people and for programs; no secret is in either."""

from collections.abc import Sequence

from keyferry._core.reasons import Reason
from keyferry._core.secrets import printable
from keyferry.clusters.why.diagnosis import Diagnosis
from keyferry.show.documents import make_document, reason_document
from keyferry.show.text import sections
from keyferry.show.writer import Lines, style

__all__ = ["document", "render"]

_TITLES = (
    ("kubeconfig", ("file",)),
    ("context", ("context", "cluster", "user")),
    ("program", ("program", "policy")),
    ("what it answered", ("plugin",)),
    ("what the server says", ("server",)),
    ("beware", ("trap",)),
)
_BAD = ("failed", "denied", "refused", "not-found", "missing")
_GOOD = ("read", "chosen", "found", "allowed", "answered", "accepted", "answers")


def render(reasons: Sequence[Reason]) -> Lines:
    """The whole explanation, in sections."""
    return sections(
        (title, [_line(reason) for reason in reasons if reason.stage in stages]) for title, stages in _TITLES
    )


def document(diagnosis: Diagnosis, reasons: Sequence[Reason]) -> dict[str, object]:
    """The same as JSON or YAML, with stable fields."""
    answer = diagnosis.review
    return make_document(
        "ClusterExplanation",
        context=diagnosis.config.context,
        decision=_decision(diagnosis),
        username=answer.username if answer is not None else "",
        traps=[reason_document(reason) for reason in reasons if reason.stage == "trap"],
        reasons=[reason_document(reason) for reason in reasons if reason.stage != "trap"],
    )


def _decision(diagnosis: Diagnosis) -> str:
    if diagnosis.error is not None:
        return f"failed-at-{diagnosis.stage}"
    if diagnosis.review is None:
        return "not-run"
    return "accepted" if diagnosis.is_accepted else "refused"


def _line(reason: Reason) -> str:
    text = printable(reason.text)
    if reason.stage == "trap":
        return style("! ", "yellow", "bold") + text
    mark = style("-", "red", "bold") if reason.outcome in _BAD else " "
    mark = style("+", "green", "bold") if reason.outcome in _GOOD else mark
    named = reason.stage in ("file", "context", "cluster", "user", "server")
    subject = f"{reason.stage} {printable(reason.subject)}: " if named else ""
    return f"{mark} {subject}{text}"
