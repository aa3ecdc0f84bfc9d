"""An explanation as text for a terminal: the verdict first, then the cause, the cure, and how it was found."""

from collections.abc import Iterable, Iterator

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.secrets import masked, printable
from keyferry.explain.cures import LikelyCause, describe_miss, find_cause
from keyferry.explain.explanation import Explanation
from keyferry.explain.registry import PullVerdict, attempt_lines
from keyferry.explain.verdict import Verdict, find_verdict
from keyferry.images.answer import Answer, LookupOutcome
from keyferry.images.credential import SourceKind
from keyferry.images.match.rules import MatchRule
from keyferry.images.provider.provision import ProvisionOutcome
from keyferry.images.why.nearness import Miss, find_misses
from keyferry.show.marks import Mark, mark
from keyferry.show.text import Whole, fold, sections
from keyferry.show.writer import Lines, style

__all__ = ["render", "summary"]

_MOST_NAMES = 3
_COLOURS: dict[str, str] = {ProvisionOutcome.FAILED: "red", ProvisionOutcome.UNKNOWN: "yellow"}
_VERDICTS = {
    PullVerdict.YES: (Mark.YES, "green"),
    PullVerdict.NO: (Mark.NO, "red"),
    PullVerdict.UNKNOWN: (Mark.UNKNOWN, "yellow"),
}
# Nearest miss first: a pattern whose last rule failed needs the smallest change to match.
_NEARNESS = (
    MatchRule.LABEL,
    MatchRule.PATH_PREFIX,
    MatchRule.BAD_GLOB,
    MatchRule.LABEL_COUNT,
    MatchRule.PORT,
    MatchRule.IMAGE_UNPARSABLE,
    MatchRule.PATTERN_UNPARSABLE,
)
_Parts = tuple[tuple[str, Iterable[str]], ...]


def summary(explanation: Explanation, title: str) -> str:
    """Return *title* and the verdict's first words in one line, with the verdict's mark."""
    verdict = find_verdict(explanation)
    sign, colour = _VERDICTS[verdict.outcome]
    short = verdict.text.partition(": ")[0].partition("; ")[0]
    return f"{mark(sign)} {printable(title)}: {style(printable(short), colour)}"


def render(explanation: Explanation, *, is_wide: bool = False, same_as: str = "") -> Lines:
    """Return the explanation, with *is_wide* with every provider, pattern and key.

    *same_as* names what has the same cause and cure, and is shown in their place.
    """
    finding = find_cause(explanation)
    parts: _Parts = (
        ("likely cause", () if same_as else _cause(finding)),
        ("what to do", (f"the same as for {printable(same_as)}",) if same_as else _cures(finding)),
        ("what the kubelet does", _next_step(explanation, is_wide=is_wide)),
        *(_all_of(explanation) if is_wide else _most_of(explanation, finding)),
    )
    return _with_head(find_verdict(explanation), parts)


def _with_head(verdict: Verdict, parts: _Parts) -> Lines:
    head = "\n".join(_head(verdict))
    return Lines(f"{head}\n\n{sections(parts)}")


def _head(verdict: Verdict) -> Iterator[str]:
    sign, colour = _VERDICTS[verdict.outcome]
    for number, line in enumerate(fold(printable(verdict.text), "  ", "  ")):
        yield f"{' ' if number else mark(sign)} {style(line.lstrip(), colour, 'bold')}"


def _cause(finding: LikelyCause) -> Iterator[str]:
    if finding.cause:
        yield printable(finding.cause)


def _cures(finding: LikelyCause) -> Iterator[str]:
    for cure in finding.cures:
        yield f"{mark(Mark.NEXT)} {printable(cure.text)}{':' if cure.lines else ''}"
        yield from (Whole(f"    {style(printable(line), 'cyan')}") for line in cure.lines)


def _next_step(explanation: Explanation, *, is_wide: bool) -> Iterator[str]:
    if explanation.unreadable is not None or explanation.is_never_pulled:
        return  # it does not pull, as the verdict says
    for reason in _of(explanation.answer, ReasonStage.DECISION):
        if is_wide or reason.outcome is not LookupOutcome.UNKNOWN:  # which is in the verdict
            yield printable(reason.text)


# The short form.


def _most_of(explanation: Explanation, finding: LikelyCause) -> _Parts:
    answer = explanation.answer
    misses = find_misses(answer)
    # Beside a provider or a key that matches, what nearly matches does not matter.
    is_matched = bool(answer.credentials or answer.provisions)
    near = [] if is_matched else [miss for miss in misses if miss.is_near and miss != finding.miss]
    told = {finding.miss.pattern, finding.miss.source.name} if finding.miss is not None else set()
    told |= {miss.pattern for miss in near}
    traps = (
        reason
        for reason in _all_traps(explanation)
        if reason.subject not in told and reason.text != finding.cause
    )
    return (
        ("credentials, in trial order", _credentials(answer) if _several(answer) else ()),
        ("the registry's response to each", _responses(explanation)),
        ("the image on the node", _access(explanation)),
        ("nearly right" if near else "not used", (*_near(near), *_others(misses, is_matched=is_matched))),
        ("beware", _traps(traps)),
        ("how it was found", _found(explanation, finding)),
    )


def _several(answer: Answer) -> bool:
    return len(answer.credentials) > 1


def _near(misses: list[Miss]) -> Iterator[str]:
    for miss in misses:
        yield f"{mark(Mark.NO)} {printable(describe_miss(miss))}"


def _others(misses: Iterable[Miss], *, is_matched: bool) -> Iterator[str]:
    """Yield one line for all providers of other hosts, and one for each other source."""
    sign = mark(Mark.SKIPPED)
    others = [miss for miss in misses if not miss.is_near or (is_matched and not miss.is_response)]
    providers = [miss for miss in others if miss.source.kind == SourceKind.PROVIDER]
    what = "image" if any(miss.is_near for miss in providers) else "host"
    if len(providers) == 1:
        yield f"{sign} provider {printable(repr(providers[0].source.name))} is for another {what}"
    elif providers:
        yield f"{sign} {len(providers)} providers are for other {what}s"
    by_source: dict[str, list[str]] = {}
    for miss in others:
        if miss.source.kind != SourceKind.PROVIDER:
            by_source.setdefault(str(miss.source), []).append(miss.pattern)
    for source, keys in by_source.items():
        hosts = "another host" if len(keys) == 1 else "other hosts"
        yield f"{sign} {printable(f'{source} is for {hosts}: {_names(keys)}')}"


def _names(keys: list[str]) -> str:
    more = f" and {len(keys) - _MOST_NAMES} more" if len(keys) > _MOST_NAMES else ""
    return ", ".join(map(repr, keys[:_MOST_NAMES])) + more


def _responses(explanation: Explanation) -> Iterator[str]:
    check = explanation.check
    # A single failure is the cause.
    if check is not None and (check.error is None or len(check.attempts) > 1 or check.mirrors is not None):
        yield from attempt_lines(check)


def _access(explanation: Explanation) -> Iterator[str]:
    if explanation.decision is not None:
        # Imported here because records import many modules that other uses do not need.
        from keyferry.explain.decision import decision_lines

        yield from decision_lines(explanation.decision, explanation.answer.missing)


def _found(explanation: Explanation, finding: LikelyCause) -> Iterator[str]:
    for reason in _of(explanation.answer, ReasonStage.IMAGE):
        if reason.outcome is not ReasonOutcome.AS_IS:
            yield f"image: {printable(reason.text)}"
    yield from map(printable, explanation.where)
    for reason in _of(explanation.answer, ReasonStage.PROVIDER):
        if reason.outcome not in _COLOURS:  # a failure is the cause, and what is unknown is in the verdict
            yield f"provider {printable(repr(reason.subject))}: {_provision(reason)}"
    notes = (note for note in explanation.notes if note != finding.cause)
    yield from (f"{mark(Mark.WARNING)} {printable(note)}" for note in notes)
    yield style("-o wide shows every provider, pattern and key", "dim")


# The wide form: every stage, in the order in which it happens.


def _all_of(explanation: Explanation) -> _Parts:
    answer = explanation.answer
    return (
        ("image", _image(answer)),
        ("sources", map(printable, (*explanation.where, *explanation.notes))),
        ("providers", _providers(answer)),
        ("auth keys found", _keys(answer)),
        ("credentials, in trial order", _credentials(answer)),
        ("the image on the node", _access(explanation)),
        ("the registry's response to each", _responses(explanation)),
        ("beware", _traps(_all_traps(explanation))),
    )


def _of(answer: Answer, *stages: ReasonStage) -> Iterator[Reason]:
    return (reason for reason in answer.reasons if reason.stage in stages)


def _image(answer: Answer) -> Iterator[str]:
    for reason in _of(answer, ReasonStage.IMAGE):
        yield f"{printable(reason.subject)}: {printable(reason.text)}"


def _providers(answer: Answer) -> Iterator[str]:
    for reason in _of(answer, ReasonStage.MATCH, ReasonStage.PROVIDER):
        if reason.stage is ReasonStage.PROVIDER:
            yield "    " + _provision(reason)
        else:
            sign = mark(Mark.YES if reason.outcome is ReasonOutcome.MATCHED else Mark.SKIPPED)
            yield f"{sign} {style(printable(reason.subject), 'bold')}: {printable(reason.text)}"
            yield from _misses(reason)


def _provision(reason: Reason) -> str:
    return style(printable(reason.text), _COLOURS.get(reason.outcome, "green"))


def _misses(reason: Reason) -> Iterator[str]:
    patterns = reason.facts.get("patterns")
    if not isinstance(patterns, list):
        return
    for fact in sorted(patterns, key=lambda fact: _NEARNESS.index(MatchRule(fact["rule"]))):
        yield f"    {printable(repr(fact['pattern']))}: {printable(fact['why'])}"


def _keys(answer: Answer) -> Iterator[str]:
    for reason in _of(answer, ReasonStage.KEY):
        used = reason.outcome in (ReasonOutcome.COVERS, ReasonOutcome.DEFAULT_REGISTRY)
        source = f" ({reason.facts['source']})" if "source" in reason.facts else ""
        sign = mark(Mark.YES if used else Mark.SKIPPED)
        yield f"{sign} {printable(repr(reason.subject))}{printable(source)} {printable(reason.text)}"


def _credentials(answer: Answer) -> Iterator[str]:
    for at, credential in enumerate(answer.credentials, 1):
        user = printable(credential.username) or "(no user name)"
        login = f"{at}. {user} / {masked(credential.password)}"
        yield f"{login}   {printable(str(credential.source))}, key {printable(repr(credential.key))}"


def _all_traps(explanation: Explanation) -> Iterator[Reason]:
    yield from _of(explanation.answer, ReasonStage.TRAP)
    yield from explanation.traps


def _traps(traps: Iterable[Reason]) -> Iterator[str]:
    for reason in traps:
        yield f"{mark(Mark.WARNING)} {printable(reason.text)}"
