"""Whether a cluster's images can be pulled again, as text: a verdict, a block for each reason, then other counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from keyferry._core.secrets import printable
from keyferry._core.values import replace
from keyferry.explain.cluster.examples import mark_examples
from keyferry.explain.cluster.pull_answers import CheckedImage, ClusterPulls, PullDoubt, PullGroup
from keyferry.explain.cluster.text import count_text, names_text, place_text, short_cure, shown_name
from keyferry.explain.explanation import Cure, PullVerdict
from keyferry.explain.text import cure_lines, head_lines, marked_lines, note_lines
from keyferry.show.text import Mark, Whole, fold
from keyferry.show.writer import Lines, style
from keyferry.workloads.listing import PodSelection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.show.reports import Case

__all__ = ["junit_text", "pulls_text", "verdict_text"]

_MAX_IMAGES, _MAX_WIDE = 3, 100
# So many reasons are read at once.
_MAX_GROUPS = 50
# What is said together of all registries; every other doubt has a block of its own.
_COLLECTED = {
    PullDoubt.NODE: (
        "cannot tell from here: no pull secret has a login, and only the nodes know whether a provider has one",
        Cure(text="give what the nodes have with --config FILE and --bin-dir DIR, and --docker-config FILE"),
    ),
    PullDoubt.NOT_ASKED: ("not asked, or not to the end", Cure(text="")),
}


def pulls_text(found: ClusterPulls, *, is_wide: bool = False) -> Lines:
    """Return the verdict, what cannot be pulled and what is unknown by reason; with *is_wide* with all names."""
    own = [each for each in found.groups if each.doubt not in _COLLECTED]
    blocks = ["\n".join(head_lines(found.verdict, verdict_text(found)))]
    shown = own if is_wide else own[:_MAX_GROUPS]
    blocks += ["\n".join(_group(each, is_wide=is_wide)) for each in shown]
    if len(own) > len(shown):
        blocks.append(
            "\n".join(note_lines(f"and {len(own) - len(shown):,} more reasons, which -o wide shows"))
        )
    blocks += ["\n".join(lines) for doubt in _COLLECTED if (lines := list(_collected(found, doubt)))]
    blocks.append("\n".join(line for each in _others(found) for line in each))
    blocks += ["\n".join(note_lines(note)) for note in found.notes]
    if own and not is_wide:
        blocks.append(style("-o wide shows every cure with its commands, and all images", "dim"))
    return Lines("\n\n".join(filter(None, blocks)))


def verdict_text(found: ClusterPulls) -> str:
    """Return how many images can be pulled again, as one sentence without its end."""
    place = place_text(found.selection)
    total, failing = len({each.image for each in found.images}), len(found.names(PullVerdict.NO))
    of = _images(total)
    if failing:
        pods = _share(found.failing_pods, found.pods, "pod", "pods")
        workloads = (
            _share(found.failing_workloads, found.workloads, "workload", "workloads") + " without pods"
        )
        who = " and ".join(
            ([pods] if found.failing_pods else []) + ([workloads] if found.failing_workloads else [])
        )
        need = "needs" if found.failing_pods + found.failing_workloads == 1 else "need"
        which = "the only image" if total == 1 else f"{failing:,} of {of}"
        return f"{who}{place} {need} an image that cannot be pulled again: {which}"
    unknown, of = len(found.names(PullVerdict.UNKNOWN)), of + place
    if unknown:
        which = f"the only image{place}" if total == 1 else f"{unknown:,} of {of}"
        return f"cannot tell of {which} whether {'it' if unknown == 1 else 'they'} can be pulled again"
    but = "" if found.is_complete else ", but not everything was looked at"
    if not total:
        return f"no {_looked_at(found.selection)}{place} needs an image{but}"
    return f"{f'all of {of}' if total > 1 else f'the only image{place}'} can be pulled again{but}"


def _looked_at(selection: PodSelection) -> str:
    """Return what could have needed an image: workloads are on no node, and have other fields than pods."""
    what = "pod" if selection.node or selection.field_selector else "pod or workload"
    return f"{what} that is selected" if selection.label_selector or selection.field_selector else what


def _group(group: PullGroup, *, is_wide: bool) -> Iterator[str]:
    users = _users(group.pods, group.workloads)
    varying = tuple(_varying(group))
    text = f"{users}: {mark_examples(group.text, varying)}"
    yield from head_lines(group.verdict, text, _subject(group, _MAX_WIDE if is_wide else _MAX_IMAGES))
    if not is_wide:
        yield from short_cure(group.cures, group.command, varying)
        return
    for cure in group.cures:
        yield from cure_lines(replace(cure, text=mark_examples(cure.text, varying)))
    yield Whole(f"  {style(printable(group.command), 'cyan')}")


def _varying(group: PullGroup) -> Iterator[str]:
    """Yield the names of the example that are not those of all."""
    if len(group.images) > 1:
        yield group.images[0]
    if len(group.namespaces) > 1:
        yield group.example.partition("/")[0]
    yield from group.secrets


def _subject(group: PullGroup, most: int) -> str:
    count = f"{count_text(group.images)} images: " if len(group.images) > 1 else ""
    places = f"{count_text(group.namespaces)} namespaces: " if len(group.namespaces) > 1 else "namespace "
    return f"{count}{names_text(group.images, most)}, in {places}{names_text(group.namespaces, most)}"


def _collected(found: ClusterPulls, doubt: PullDoubt) -> Iterator[str]:
    """Yield the block of all images of one doubt, by registry or by reason."""
    # Those that cannot be pulled for others have an entry of their own.
    names = sorted(found.names(PullVerdict.UNKNOWN, doubt))
    images = [each for each in found.images if each.doubt is doubt and each.image in names]
    if not images:
        return
    text, cure = _COLLECTED[doubt]
    yield from head_lines(PullVerdict.UNKNOWN, f"{_images(len(names))}: {text}")
    reasons = {
        (each.image, each.message if doubt is PullDoubt.NOT_ASKED else each.registry) for each in images
    }
    counts = Counter(reason for _, reason in sorted(reasons))
    for reason, number in counts.most_common(_MAX_IMAGES):
        yield from fold(
            f"{number:,} {shown_name(reason)}"
            if doubt is PullDoubt.NODE
            else f"{number:,}: {printable(reason)}",
            "  ",
            "    ",
        )
    if len(counts) > _MAX_IMAGES:
        yield f"  and {len(counts) - _MAX_IMAGES:,} more"
    if doubt is PullDoubt.NOT_ASKED:
        yield from fold(names_text(names, _MAX_IMAGES), "  ", "  ")
    if cure.text:
        yield from cure_lines(cure)


def _others(found: ClusterPulls) -> Iterator[Iterator[str]]:
    """Yield a line for each count of what needs no action."""
    good = [each for each in found.images if each.verdict is PullVerdict.YES]
    if found.names(PullVerdict.YES):
        names = found.names(PullVerdict.YES)
        public = len(names & {each.image for each in good if each.is_public})
        anybody = f", {public:,} of them by anybody" if public < len(names) else " by anybody"
        anybody = anybody if public else ""
        yield marked_lines(Mark.YES, f"{_images(len(names))} can be pulled{anybody}")
    if found.never:
        yield marked_lines(
            Mark.SKIPPED,
            f"{_users(found.never, 0)} with an image that is never pulled (imagePullPolicy Never)",
        )
    moved = sorted({each.image for each in good if each.is_moved})
    if moved:
        has = "1 image has" if len(moved) == 1 else f"{len(moved):,} images have"
        what = "another digest at the registry than the one that runs, as after a push to the same tag"
        yield marked_lines(Mark.INFO, f"{has} {what}: {names_text(moved, _MAX_IMAGES)}")
    yield marked_lines(
        Mark.INFO,
        f"{'1 request was' if found.requests == 1 else f'{found.requests:,} requests were'} sent, for "
        f"{_users(found.pods, found.workloads)}",
    )


def _users(pods: int, workloads: int) -> str:
    """Return the numbers of pods and workloads as text."""
    parts = []
    if pods or not workloads:
        parts.append("1 pod" if pods == 1 else f"{pods:,} pods")
    if workloads:
        parts.append(f"{workloads:,} workload{'' if workloads == 1 else 's'} without pods")
    return " and ".join(parts)


def _share(part: int, whole: int, one: str, many: str) -> str:
    """Return how many of all, as text."""
    return f"the only {one}" if part == whole == 1 else f"{part:,} of {whole:,} {many}"


def _images(number: int) -> str:
    return "1 image" if number == 1 else f"{number:,} images"


def junit_text(found: ClusterPulls) -> str:
    """Return one suite as JUnit XML: a case for each image, skipped if it is unknown whether it can be pulled.

    What was not looked at is one more case, which is skipped.
    """
    from keyferry.show.reports import Case, CaseOutcome, to_junit

    unseen = printable("; ".join(found.unseen))
    rest = [Case(group="-", name="not looked at", outcome=CaseOutcome.SKIPPED, message=unseen)]
    # Those who need an image may get several answers for it: then the names of the cases have an example.
    times = Counter(each.image for each in found.images)
    cases = (_case(each, is_only=times[each.image] == 1) for each in found.images)
    return to_junit("keyferry can-pull", (*cases, *(rest if unseen else ())), 0.0)


def _case(image: CheckedImage, *, is_only: bool) -> Case:
    from keyferry.show.reports import Case, CaseOutcome

    outcomes = {
        PullVerdict.YES: CaseOutcome.PASSED,
        PullVerdict.NO: CaseOutcome.FAILED,
        PullVerdict.UNKNOWN: CaseOutcome.SKIPPED,
    }
    places = f"{names_text(image.namespaces, _MAX_IMAGES)}, such as {shown_name(image.example)}"
    users = f"{_users(image.pods, image.workloads)} in {places}"
    message = printable(image.message)
    return Case(
        group=image.registry or "-",
        name=shown_name(image.image) + ("" if is_only else f" ({shown_name(image.example)})"),
        outcome=outcomes[image.verdict],
        message=message,
        kind=image.cause or str(image.doubt or "no"),
        text=f"{users}: {message}" if message else users,
    )
