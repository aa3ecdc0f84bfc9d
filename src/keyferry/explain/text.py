"""Explanations as text for a terminal: the verdict with its cause, cures, at most three notes; wide, all stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.secrets import masked, printable, redact
from keyferry._core.values import replace
from keyferry.explain.explanation import Cure, Explanation, Facts, PullVerdict
from keyferry.images.answer import Answer, MissingInput, ProvisionOutcome
from keyferry.images.keyring import SourceKind
from keyferry.images.match import MatchRule
from keyferry.images.reasons.nearness import find_misses
from keyferry.show.text import Mark, Whole, fold, mark, sections
from keyferry.show.writer import Lines, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.explain.gather import ExplainedImage, ExplainedPod
    from keyferry.pulls.records.decide import Decision

_MAX_NOTES = 3
_MAX_KEYS = 3
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


def render(
    explanation: Explanation, *, is_wide: bool = False, subject: str = "", is_last: bool = True
) -> Lines:
    """Return the explanation, with *is_wide* with every event, provider, pattern and key.

    *subject* tells what it is about: the image or, of a pod, the containers. Only the last of several names the wide
    form.
    """
    notes = [*explanation.notes, *(reason.text for reason in _traps(explanation)), *_others(explanation)]
    shown = notes if is_wide else notes[:_MAX_NOTES]
    half = explanation.facts.half
    head = head_lines(explanation.verdict, explanation.text, subject)
    told = () if half is None else fold(style(printable(str(half)), "dim"), "  ", "  ")
    blocks = ["\n".join((*head, *told))]
    if explanation.cures:
        blocks.append("\n".join(line for cure in explanation.cures for line in cure_lines(cure)))
    if shown:
        blocks.append("\n".join(line for note in shown for line in note_lines(note)))
    if is_wide:
        blocks.append(sections(_stages(explanation)))
    elif is_last or len(notes) > len(shown):
        left = len(notes) - len(shown)
        more = f", and {left} more note{'' if left == 1 else 's'}" if left else ""
        blocks.append(style(f"-o wide shows how it was found{more}", "dim"))
    return Lines("\n\n".join(filter(None, blocks)))


def render_pods(pods: Sequence[ExplainedPod], *, is_wide: bool = False) -> Lines:
    """Return the explanations of all images of *pods*, those that fail first in each pod."""
    return Lines("\n\n".join(block for pod in pods for block in _pod_blocks(pod, is_wide=is_wide)))


def _pod_blocks(pod: ExplainedPod, *, is_wide: bool) -> Iterator[str]:
    yield from () if pod.inputs is None else banner_blocks(pod.inputs.banner)
    yield from _image_blocks(pod, is_wide=is_wide)
    about = [*([f"{pod.pod}: {pod.problem}"] if pod.problem else []), *pod.notes]
    if about:
        yield "\n".join(line for each in about for line in note_lines(each))


def _image_blocks(pod: ExplainedPod, *, is_wide: bool) -> Iterator[str]:
    """Yield the explanation of each image; images of which the same is told are one block."""
    order = (PullVerdict.NO, PullVerdict.UNKNOWN, PullVerdict.YES)
    groups: dict[tuple[object, ...], list[ExplainedImage]] = {}
    for each in sorted(pod.images, key=lambda image: order.index(image.verdict)):
        # The wide form shows the stages of each image.
        groups.setdefault((*each.told, each.image if is_wide else ""), []).append(each)
    place = f" on node {pod.pod.node_name}" if pod.pod.node_name else " on no node"
    notes: tuple[str, ...] = ()
    for number, group in enumerate(groups.values(), 1):
        titles = (f"{', '.join(map(str, each.containers))}: {each.image}" for each in group)
        subject = f"{pod.pod}{place}, {'; '.join(titles)}"
        explanation = group[0].explanation
        if explanation is None:
            yield "\n".join(head_lines(PullVerdict.NO, group[0].problem, subject))
            continue
        # What is noted of one image is not noted again of the next.
        new = tuple(note for note in explanation.notes if note not in notes)
        notes += new
        is_last = number == len(groups)
        yield render(replace(explanation, notes=new), is_wide=is_wide, subject=subject, is_last=is_last)


def banner_blocks(banner: Sequence[str]) -> tuple[str, ...]:
    """Return the problems of a config with which a kubelet does not start, as one block of text; none without any."""
    lines = [line for each in banner for line in fold(printable(each), "", "  ")]
    return ("\n".join(style(line, "bold", "red") for line in lines),) if lines else ()


def head_lines(verdict: PullVerdict, text: str, subject: str = "") -> Iterator[str]:
    """Yield the verdict after its mark, then what it is about."""
    sign, colour = _VERDICTS[verdict]
    for number, line in enumerate(fold(printable(text), "  ", "  ")):
        yield f"{' ' if number else mark(sign)} {style(line.lstrip(), colour, 'bold')}"
    if subject:
        yield from fold(style(printable(subject), "dim"), "  ", "  ")


def cure_lines(cure: Cure) -> Iterator[str]:
    """Yield what to do, then the lines to paste."""
    yield from marked_lines(Mark.NEXT, f"{printable(cure.text)}{':' if cure.lines else ''}")
    yield from (Whole(f"    {style(printable(line), 'cyan')}") for line in cure.lines)


def note_lines(note: str) -> Iterator[str]:
    """Yield a note after its mark."""
    return marked_lines(Mark.WARNING, printable(note))


def marked_lines(sign: Mark, text: str) -> Iterator[str]:
    """Yield the lines of a text after its mark."""
    return fold(text, f"{mark(sign)} ", "  ")


def _traps(explanation: Explanation) -> Iterator[Reason]:
    """Yield the traps that the verdict does not tell."""
    miss = explanation.miss
    told = {miss.pattern, miss.source.name} if miss is not None else set()
    for reason in (*_of(explanation.facts.answer, ReasonStage.TRAP), *explanation.facts.traps):
        if reason.subject not in told and reason.text != explanation.cause:
            yield reason


def _others(explanation: Explanation) -> Iterator[str]:
    """Yield one line for all providers that the verdict does not tell of, and one for each other source.

    Beside a provider or a key that matches, they do not matter.
    """
    answer = explanation.facts.answer
    if answer.credentials or answer.provisions or explanation.verdict is not PullVerdict.NO:
        return
    told_of = None if explanation.miss is None else explanation.miss.source
    others = [each for each in find_misses(answer) if each.source != told_of]
    number = len({each.source for each in others if each.source.kind == SourceKind.PROVIDER})
    if number:
        yield (
            "one provider is for other images" if number == 1 else f"{number} providers are for other images"
        )
    rest = [each for each in others if each.source.kind != SourceKind.PROVIDER]
    for source in dict.fromkeys(each.source for each in rest):
        keys = [repr(each.pattern) for each in rest if each.source == source]
        more = ", ..." if len(keys) > _MAX_KEYS else ""
        yield f"{source} is for other images: {', '.join(keys[:_MAX_KEYS])}{more}"


# The wide form: every stage, in the order in which it happens.


def _stages(explanation: Explanation) -> tuple[tuple[str, Iterable[str]], ...]:
    facts = explanation.facts
    answer = facts.answer
    # Nothing is tried for an image that is used without a pull.
    stages = () if facts.may_use else (ReasonStage.DECISION,)
    decisions = (printable(reason.text) for reason in _of(answer, *stages))
    return (
        ("what happened", _seen(facts)),
        ("what a kubelet that reads these files now does", decisions),
        ("image", _image(answer)),
        ("sources", map(printable, facts.where)),
        ("providers", _providers(answer)),
        ("auth keys found", _keys(answer)),
        ("credentials, in trial order", _credentials(answer)),
        ("the image on the node", _access(facts)),
        ("the registry's response to each", _responses(facts)),
    )


def _seen(facts: Facts) -> Iterator[str]:
    """Yield the states of the containers and the events, newest last, in the kubelet's words."""
    evidence = facts.evidence
    for state in evidence.states:
        words = ": ".join(
            filter(None, (f"{state.role} {state.name} is {state.kind}", state.reason, state.message))
        )
        yield printable(words)
    events = sorted((*evidence.events, *evidence.pod_events), key=lambda event: event.at or 0.0)
    yield from (printable(str(event)) for event in dict.fromkeys(events))


def _responses(facts: Facts) -> Iterator[str]:
    if facts.check is None:
        return iter(())
    from keyferry.explain.registry import attempt_lines

    return attempt_lines(facts.check)


def _access(facts: Facts) -> Iterator[str]:
    if facts.decision is None:
        return iter(())
    return _decision_lines(facts.decision, facts.answer.missing)


def _decision_lines(decision: Decision, missing: tuple[MissingInput, ...] = ()) -> Iterator[str]:
    """Yield the decision in one line, then its reasons; the *missing* inputs may change it."""
    from keyferry.pulls.records.access import UseOutcome, judge_use

    if judge_use(decision, missing) is UseOutcome.UNKNOWN:
        why = "; ".join(map(str, missing))
        yield printable(f"cannot tell whether this pod may use the image on the node: {why}")
    else:
        yield _decision_verdict(decision)
    for reason in decision.reasons[:-1]:
        yield f"- {reason.stage} {printable(reason.subject)}: {printable(reason.text)}"


def _decision_verdict(decision: Decision) -> str:
    why = printable(decision.summary)
    if not decision.situation.image_ref:
        return f"the image must be pulled: {why}"
    if decision.error is not None:
        return f"the container does not start: {why}"
    if decision.must_pull:
        return f"the image is on the node, but this pod must pull it to verify its access: {why}"
    return f"the image is on the node, and this pod may use it without a pull: {why}"


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
        user = printable(redact(credential.username)) or "(no user name)"
        login = f"{at}. {user} / {masked(credential.password)}"
        yield f"{login}   {printable(str(credential.source))}, key {printable(repr(credential.key))}"
