"""An answer and its reasons as text for a terminal."""

from collections.abc import Iterable, Iterator

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.secrets import MASK, printable
from keyferry.images.answer import Answer
from keyferry.images.match.rules import MatchRule
from keyferry.images.provider.provision import ProvisionOutcome
from keyferry.show.text import sections
from keyferry.show.writer import Lines, style

_MOST_PATTERNS = 4
_COLOURS: dict[str, str] = {ProvisionOutcome.FAILED: "red", ProvisionOutcome.UNKNOWN: "yellow"}
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
    answer: Answer,
    *,
    where: tuple[str, ...] = (),
    all_patterns: bool = False,
    registry: tuple[str, ...] = (),
    access: tuple[str, ...] = (),
    traps: tuple[Reason, ...] = (),
    hints: tuple[str, ...] = (),
) -> Lines:
    """Return the whole explanation.

    *where* names the config and the sources, *registry* has the registry's responses, *access* the decision whether
    an image on the node may be used. *traps* are added to those of the answer. *hints* name the options that supply
    missing inputs.
    """
    by_stage: dict[ReasonStage, list[Reason]] = {}
    for reason in (*answer.reasons, *traps):
        by_stage.setdefault(reason.stage, []).append(reason)
    parts: tuple[tuple[str, Iterable[str]], ...] = (
        ("image", _image(by_stage)),
        ("sources", map(printable, where)),
        ("providers", _providers(answer, all_patterns=all_patterns)),
        ("auth keys found", _keys(by_stage)),
        ("credentials, in the order they are tried", _credentials(answer)),
        ("what the kubelet does", (printable(reason.text) for reason in by_stage[ReasonStage.DECISION])),
        ("how to find out", map(printable, hints)),
        ("may this pod use the image on the node", iter(access)),
        ("what the registry says to each", iter(registry)),
        ("beware", _traps(by_stage)),
    )
    return sections(parts)


def _image(by_stage: dict[ReasonStage, list[Reason]]) -> Iterator[str]:
    for reason in by_stage[ReasonStage.IMAGE]:
        yield f"{printable(reason.subject)}: {printable(reason.text)}"


def _providers(answer: Answer, *, all_patterns: bool) -> Iterator[str]:
    for reason in answer.reasons:
        if reason.stage not in (ReasonStage.MATCH, ReasonStage.PROVIDER):
            continue
        if reason.stage is ReasonStage.PROVIDER:
            colour = _COLOURS.get(reason.outcome, "green")
            yield "    " + style(printable(reason.text), colour)
        else:
            mark = (
                style("+", "green", "bold") if reason.outcome is ReasonOutcome.MATCHED else style("-", "dim")
            )
            yield f"{mark} {style(printable(reason.subject), 'bold')}: {printable(reason.text)}"
            yield from _misses(reason, all_patterns=all_patterns)


def _misses(reason: Reason, *, all_patterns: bool) -> Iterator[str]:
    patterns = reason.facts.get("patterns")
    if not isinstance(patterns, list):
        return
    ranked = sorted(patterns, key=lambda fact: _NEARNESS.index(MatchRule(fact["rule"])))
    shown = ranked if all_patterns else ranked[:_MOST_PATTERNS]
    for fact in shown:
        yield f"    {printable(repr(fact['pattern']))}: {printable(fact['why'])}"
    if len(ranked) > len(shown):
        yield f"    and {len(ranked) - len(shown)} more, less similar; --all-patterns shows them"


def _keys(by_stage: dict[ReasonStage, list[Reason]]) -> Iterator[str]:
    for reason in by_stage.get(ReasonStage.KEY, []):
        used = reason.outcome in (ReasonOutcome.COVERS, ReasonOutcome.DEFAULT_REGISTRY)
        mark = style("+", "green", "bold") if used else style("-", "dim")
        source = f" ({reason.facts['source']})" if "source" in reason.facts else ""
        yield f"{mark} {printable(repr(reason.subject))}{printable(source)} {printable(reason.text)}"


def _credentials(answer: Answer) -> Iterator[str]:
    for at, credential in enumerate(answer.credentials, 1):
        user = printable(credential.username) or "(no user name)"
        yield f"{at}. {user} / {MASK}   {printable(str(credential.source))}, key {printable(repr(credential.key))}"


def _traps(by_stage: dict[ReasonStage, list[Reason]]) -> Iterator[str]:
    for reason in by_stage.get(ReasonStage.TRAP, []):
        yield style("! ", "yellow", "bold") + printable(reason.text)
