"""Show why a context works or does not, as text and as a document, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.secrets import printable
from keyferry.clusters.profile_access import RefusedProfile
from keyferry.clusters.why.diagnosis import Diagnosis
from keyferry.clusters.why.verdict import ClusterVerdict, Works, find_verdict
from keyferry.errors import PolicyError
from keyferry.show.documents import make_document, reason_document
from keyferry.show.text import Mark, fold, mark, sections
from keyferry.show.writer import Lines, style

_TITLES = (
    ("kubeconfig", (ReasonStage.FILE,)),
    ("context", (ReasonStage.CONTEXT, ReasonStage.PROFILE, ReasonStage.CLUSTER, ReasonStage.USER)),
    ("program", (ReasonStage.PROGRAM, ReasonStage.POLICY)),
    ("plugin response", (ReasonStage.PLUGIN,)),
    ("server response", (ReasonStage.SERVER,)),
    ("beware", (ReasonStage.TRAP,)),
)
# What the sections are called for a ClusterProfile.
_PROFILE_TITLES = {"kubeconfig": "provider file", "context": "cluster profile"}
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
# The outcomes that are shown without -o wide: what was chosen, what came of it, and what failed.
_TOLD = (
    *_BAD,
    ReasonOutcome.CHOSEN,
    ReasonOutcome.ANONYMOUS,
    ReasonOutcome.IMPERSONATES,
    ReasonOutcome.ADDED,
    ReasonOutcome.IGNORED,
    ReasonOutcome.NOT_RUN,
    ReasonOutcome.ANSWERED,
    ReasonOutcome.CERTIFICATE,
    ReasonOutcome.STDERR,
    ReasonOutcome.ACCEPTED,
    ReasonOutcome.ANSWERS,
)
_MAX_LINES = 24
# The stages whose subject is shown beside the text.
_NAMED = (
    ReasonStage.FILE,
    ReasonStage.CONTEXT,
    ReasonStage.PROFILE,
    ReasonStage.CLUSTER,
    ReasonStage.USER,
    ReasonStage.SERVER,
)


_VERDICTS = {
    Works.YES: (Mark.YES, "green"),
    Works.NO: (Mark.NO, "red"),
    Works.UNKNOWN: (Mark.UNKNOWN, "yellow"),
}


def render(diagnosis: Diagnosis, reasons: Sequence[Reason], *, is_wide: bool = False) -> Lines:
    """Return the explanation as text: the verdict with its cause, what to do, and the steps.

    Unless it *is_wide*, it has only the steps that bear on the verdict, and at most as many lines as a small terminal.
    """
    verdict = find_verdict(diagnosis, _problem(diagnosis, reasons))
    cures = [f"{mark(Mark.NEXT)} {printable(cure)}" for cure in verdict.cures]
    if is_wide:
        names = {} if diagnosis.choice is None else _PROFILE_TITLES
        steps = [
            (names.get(title, title), [_line(each) for each in reasons if each.stage in stages])
            for title, stages in _TITLES
        ]
        return Lines(f"{_head(verdict)}\n\n{sections((('what to do', cures), *steps))}")
    traps = [_line(each) for each in reasons if each.stage is ReasonStage.TRAP]
    told = [_line(each) for each in reasons if each.outcome in _TOLD]
    parts = sections((("what to do", cures), ("steps", told), ("beware", traps)))
    lines = f"{_head(verdict)}\n\n{parts}".split("\n")
    kept = lines if len(lines) <= _MAX_LINES - 2 else [*lines[: _MAX_LINES - 3], "  ..."]
    return Lines("\n".join((*kept, "", "for every step: -o wide")))


def render_refused(found: RefusedProfile) -> Lines:
    """Return why a ClusterProfile cannot be used, as text: the verdict, what to do, and the providers."""
    verdict = _verdict_on(found)
    cures = [f"{mark(Mark.NEXT)} {printable(cure)}" for cure in verdict.cures]
    steps = [_line(each) for each in _reasons_of(found)]
    return Lines(f"{_head(verdict)}\n\n{sections((('what to do', cures), ('steps', steps)))}")


def refused_document(found: RefusedProfile) -> dict[str, object]:
    """Return why a ClusterProfile cannot be used, as a document with the fields of every explanation."""
    verdict = _verdict_on(found)
    return make_document(
        "ClusterExplanation",
        context="",
        clusterProfile=found.profile,
        decision=f"failed-at-{ReasonStage.PROFILE}",
        verdict={"outcome": str(verdict.outcome), "text": verdict.text},
        cause=verdict.cause,
        cure=[{"text": cure, "lines": []} for cure in verdict.cures],
        username="",
        traps=[],
        reasons=[reason_document(each) for each in _reasons_of(found)],
    )


def _verdict_on(found: RefusedProfile) -> ClusterVerdict:
    name, error = found.profile, found.error
    text = f"ClusterProfile {name!r} does not work: no plugin is run for it"
    if isinstance(error, PolicyError):
        cure = (
            "take the variable out of the ClusterProfile; if you trust who wrote it: --allow-loader-variables"
        )
        return ClusterVerdict(outcome=Works.NO, text=text, cause=str(error), cures=(cure,))
    cause = "; ".join(each.message for each in error.problems)
    cure = f"correct provider {found.provider!r} in {found.file}, or what the ClusterProfile has for it"
    if not found.provider:
        cure = f"add a provider that the ClusterProfile has to {found.file}, or give another --provider-file"
    return ClusterVerdict(outcome=Works.NO, text=text, cause=cause, cures=(cure,))


def _reasons_of(found: RefusedProfile) -> Iterator[Reason]:
    facts: dict[str, object] = {"provider": found.provider, "passedOver": list(found.passed_over)}
    before = ", ".join(map(repr, found.passed_over))
    text = f"provider {found.provider!r} of {found.file} is the first that the profile has"
    text += f"; before it the file has {before}, which the profile has not" if before else ""
    outcome = ReasonOutcome.CHOSEN
    if not found.provider:
        outcome, text = (
            ReasonOutcome.NOT_FOUND,
            f"the file has {before or 'no provider'}: the profile has none",
        )
    yield Reason(stage=ReasonStage.PROFILE, subject=found.profile, outcome=outcome, text=text, facts=facts)


def _head(verdict: ClusterVerdict) -> str:
    """Return the verdict with its cause, folded below the text after the mark."""
    sign, colour = _VERDICTS[verdict.outcome]
    cause = f": {printable(verdict.cause)}" if verdict.cause else ""
    text = f"{style(printable(verdict.text), colour, 'bold')}{cause}"
    return "\n".join(fold(text, f"{mark(sign)} ", "  "))


def _problem(diagnosis: Diagnosis, reasons: Sequence[Reason]) -> str:
    """Return the text of the step that failed; empty if none did."""
    stage = diagnosis.stage or ReasonStage.SERVER
    return next((each.text for each in reasons if each.stage is stage and each.outcome in _BAD), "")


def document(diagnosis: Diagnosis, reasons: Sequence[Reason]) -> dict[str, object]:
    """Return the explanation as a document with stable fields."""
    answer = diagnosis.review
    verdict = find_verdict(diagnosis, _problem(diagnosis, reasons))
    return make_document(
        "ClusterExplanation",
        context=diagnosis.config.context,
        clusterProfile=diagnosis.choice.profile if diagnosis.choice is not None else "",
        decision=_decision(diagnosis),
        verdict={"outcome": str(verdict.outcome), "text": verdict.text},
        cause=verdict.cause,
        cure=[{"text": cure, "lines": []} for cure in verdict.cures],
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
    is_bad = reason.outcome in _BAD or reason.facts.get("expired") is True
    sign = mark(Mark.YES) if reason.outcome in _GOOD else ""
    sign = mark(Mark.NO) if is_bad else sign
    named = reason.stage in _NAMED
    subject = f"{reason.stage} {printable(reason.subject)}: " if named else ""
    return f"{sign or ' '} {subject}{text}"
