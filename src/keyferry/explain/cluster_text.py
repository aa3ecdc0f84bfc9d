"""Why a context works or does not, for people and for programs; no secret is in either."""

from collections.abc import Callable, Iterator, Sequence

from keyferry._core.secrets import printable
from keyferry.explain.cluster import Inquiry
from keyferry.images.why.reasons import Reason

__all__ = ["document", "render"]

Style = Callable[..., str]
API_VERSION = "keyferry.dev/v1alpha1"
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


def render(reasons: Sequence[Reason], style: Style) -> str:
    """The whole explanation, in sections."""
    blocks = []
    for title, stages in _TITLES:
        lines = [_line(reason, style) for reason in reasons if reason.stage in stages]
        if lines:
            body = "\n".join("  " + line for line in lines)
            blocks.append(f"{style(title.upper(), 'bold')}\n{body}")
    return "\n\n".join(blocks)


def document(inquiry: Inquiry, reasons: Sequence[Reason]) -> dict[str, object]:
    """The same as JSON or YAML, with stable fields."""
    answer = inquiry.review
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterExplanation",
        "context": inquiry.config.context,
        "decision": _decision(inquiry),
        "username": answer.username if answer is not None else "",
        "traps": list(_reasons(reasons, is_trap=True)),
        "reasons": list(_reasons(reasons, is_trap=False)),
    }


def _decision(inquiry: Inquiry) -> str:
    if inquiry.error is not None:
        return f"failed-at-{inquiry.stage}"
    if inquiry.review is None:
        return "not-run"
    is_answered = not inquiry.review.status or 200 <= inquiry.version_status < 300
    return "accepted" if is_answered else "refused"


def _line(reason: Reason, style: Style) -> str:
    text = printable(reason.text)
    if reason.stage == "trap":
        return style("! ", "yellow", "bold") + text
    mark = style("-", "red", "bold") if reason.outcome in _BAD else " "
    mark = style("+", "green", "bold") if reason.outcome in _GOOD else mark
    named = reason.stage in ("file", "context", "cluster", "user", "server")
    subject = f"{reason.stage} {printable(reason.subject)}: " if named else ""
    return f"{mark} {subject}{text}"


def _reasons(reasons: Sequence[Reason], *, is_trap: bool) -> Iterator[dict[str, object]]:
    for reason in reasons:
        if (reason.stage == "trap") is is_trap:
            yield {
                "stage": reason.stage,
                "subject": reason.subject,
                "outcome": reason.outcome,
                "text": reason.text,
                "facts": reason.facts,
            }
