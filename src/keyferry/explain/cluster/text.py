"""The pods that wait for an image as text: a verdict, then one block for each cause; and what changed between two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keyferry._core.secrets import printable
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import replace
from keyferry.explain.cluster.causes import CommonCause, WaitingPods
from keyferry.explain.cluster.examples import mark_examples
from keyferry.explain.cluster.questions import MAX_NAMES
from keyferry.explain.explanation import Cure, PullVerdict
from keyferry.explain.text import cure_lines, head_lines, note_lines
from keyferry.show.text import Whole, duration_text, sections
from keyferry.show.writer import Lines, style
from keyferry.workloads.listing import PodSelection

__all__ = [
    "change_lines",
    "count_text",
    "names_text",
    "place_text",
    "render_waiting",
    "short_cure",
    "shown_name",
    "verdict_text",
]

_MAX_SHORT, _MAX_WIDE = 3, 20
# Names of Kubernetes and of images are shorter; what is longer is foreign.
_MAX_NAME = 255


def render_waiting(found: WaitingPods, *, is_wide: bool = False) -> Lines:
    """Return the verdict and the causes; with *is_wide*, of each all cures, namespaces, nodes, images and pods."""
    blocks = ["\n".join(head_lines(found.verdict, verdict_text(found)))]
    blocks += ["\n".join(_cause(each, found, is_wide=is_wide)) for each in found.causes]
    blocks += ["\n".join(note_lines(note)) for note in found.notes]
    if found.causes and not is_wide:
        blocks.append(style("-o wide shows every cure with its commands, and the pods", "dim"))
    return Lines("\n\n".join(blocks))


def verdict_text(found: WaitingPods) -> str:
    """Return how many pods wait, and where, as one sentence without its end."""
    selection, place = found.selection, place_text(found.selection)
    if not found.total:
        selectors = selection.label_selector or selection.field_selector
        return f"no pod{' that is selected' if selectors else ''} runs or waits{place}"
    if not found.waiting:
        return f"{_pods(found.total)}{place}: none waits for an image"
    causes = "one cause" if len(found.causes) == 1 else f"{len(found.causes)} causes"
    verb = "waits" if found.waiting == 1 else "wait"
    return f"{found.waiting:,} of {_pods(found.total)}{place} {verb} for an image, by {causes}"


def _cause(cause: CommonCause, found: WaitingPods, *, is_wide: bool) -> Iterator[str]:
    verdict = PullVerdict.NO if cause.is_sure else PullVerdict.UNKNOWN
    text = mark_examples(cause.text, cause.varying) if is_wide else cause.summary
    yield from head_lines(verdict, f"{_pods(cause.pods)}: {text}", _subject(cause, found))
    if is_wide:
        for cure in cause.cures:
            yield from cure_lines(replace(cure, text=mark_examples(cure.text, cause.varying)))
        yield Whole(f"  {style(printable(cause.command), 'cyan')}")
        yield ""
        yield from sections(_details(cause)).split("\n")
        return
    yield from short_cure(cause.cures, cause.command, cause.varying)


def short_cure(cures: Sequence[Cure], command: str, varying: Iterable[str]) -> Iterator[str]:
    """Yield the first cure without its lines, then the command that shows the rest, or that the cure itself has."""
    for cure in cures[:1]:
        yield from cure_lines(Cure(text=mark_examples(cure.brief.text, varying)))
        command = next((line for line in cure.lines if line.startswith(command)), command)
    yield Whole(f"  {style(printable(command), 'cyan')}")


def _subject(cause: CommonCause, found: WaitingPods) -> str:
    parts = [_images(cause)]
    if cause.since is not None:
        # The first of the two units: others of the pods wait for less.
        number, unit, *_ = duration_text(max(1.0, found.now - cause.since)).split()
        parts.append(f"for {number} {unit}")
    if len(cause.namespaces) > 1:
        parts.append(
            f"in {count_text(cause.namespaces)} namespaces: {names_text(cause.namespaces, _MAX_SHORT)}"
        )
    if len(cause.nodes) == 1 and cause.nodes[0] and cause.pods > 1:
        parts.append(f"all on node {shown_name(cause.nodes[0])}")
    return ", ".join(parts)


def _images(cause: CommonCause) -> str:
    if len(cause.images) == 1:
        return shown_name(cause.images[0])
    of = f"of {shown_name(cause.registry)}" if cause.registry else "of several registries"
    return f"{count_text(cause.images)} images {of}"


def _details(cause: CommonCause) -> tuple[tuple[str, Iterator[str]], ...]:
    """Return the names behind the numbers, and the words of the kubelet."""
    return (
        ("the kubelet says", iter([printable(cause.said)])),
        ("images", _names(cause.images)),
        ("nodes", _names(cause.nodes)),
        ("namespaces", _names(cause.namespaces)),
        ("pods", _names(cause.examples, cause.pods)),
    )


def _names(names: tuple[str, ...], number: int = 0) -> Iterator[str]:
    """Yield the first names, then how many there are beside them."""
    shown = [shown_name(each) for each in names[:_MAX_WIDE] if each]
    left = max(number, len(names)) - len(shown)
    if shown:
        yield ", ".join([*shown, *([f"and {left:,} more"] if left else [])])


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number:,} pods"


def place_text(selection: PodSelection) -> str:
    """Return the namespace and the node of which pods are meant, each after a space; empty for all."""
    place = f" in namespace {shown_name(selection.namespace)}" if selection.namespace else ""
    return f"{place} on node {shown_name(selection.node)}" if selection.node else place


def names_text(names: Sequence[str], most: int) -> str:
    """Return the first names of the cluster, and how many there are beside them."""
    shown, left = ", ".join(map(shown_name, names[:most])), len(names) - most
    return f"{shown} and {left:,} more" if left > 0 else shown


def count_text(names: Sequence[str]) -> str:
    """Return the number of names, of which no more than ``MAX_NAMES`` are kept."""
    return f"{len(names):,}{'' if len(names) < MAX_NAMES else ' or more'}"


def shown_name(name: str) -> str:
    """Return a name of the cluster as it is shown: harmless, without user info, and cut if it is too long."""
    return printable(hide_user_info(name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."))


def change_lines(before: WaitingPods, after: WaitingPods) -> Iterator[str]:
    """Yield a line for each cause that is new, gone, or about another number of pods, and the new verdict."""
    old = {each.id: each for each in before.causes}
    new = {each.id: each for each in after.causes}
    for id_, cause in new.items():
        was = old[id_].pods if id_ in old else 0
        if was != cause.pods:
            yield f"{_pods(cause.pods)}{f' ({was:,} before)' if was else ' (new)'}: {cause.summary}; {_images(cause)}"
    yield from (
        f"no pod ({each.pods:,} before): {each.summary}" for id_, each in old.items() if id_ not in new
    )
    if before.waiting != after.waiting:
        yield verdict_text(after)
