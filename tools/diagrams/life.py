"""The life of a registry credential: its stages, where it is held at each, and how its life ends."""

from itertools import pairwise

from diagrams.drawing import Arrow, Bar, Box, Picture, Text

_WIDTH, _LEFT, _MIDDLE = 600, 20, 200
_ROW, _STEP = 56, 72
# Each stage, and where the credential is then.
_STAGES = (
    ("1  Request", "Standard input of one process:", "the image; perhaps a service account's token"),
    ("2  Plugin", "A program of the node, without a shell:", "at most 60 s; then its whole group is killed"),
    ("3  Response", "A buffer of at most 4 MiB, read strictly,", "then dropped; no message quotes it"),
    ("4  Cache", "Memory of this process, at most 10,000 answers:", "by image, by registry or for all"),
    (
        "5  Keyring",
        "Memory, as long as the answer: keys beside those",
        "of secrets and docker config, in trial order",
    ),
    ("6  Use", "A header, once the registry has asked for it,", "or the container runtime's pull request"),
)
_BELOW = 20 + len(_STAGES) * _STEP
_BAR = _BELOW + 34


def _boxes() -> dict[str, Box]:
    boxes = {
        heading: Box(_LEFT, 20 + at * _STEP, 140, _ROW, heading) for at, (heading, *_) in enumerate(_STAGES)
    }
    end = _BAR + 62
    boxes["refused"] = Box(
        _LEFT,
        end,
        176,
        102,
        "Refused",
        ("evicted; the plugin", "runs again, once", "in 30 s for a key"),
        "",
        "bad",
    )
    boxes["renewed"] = Box(
        212,
        end,
        176,
        102,
        "Renewed",
        ("by the agent; the new", "answer takes the place", "of the old"),
        "",
        "good",
    )
    boxes["expired"] = Box(
        404,
        end,
        176,
        102,
        "Expired",
        ("never served again;", "dropped at a lookup,", "or by a sweep"),
        "",
        "care",
    )
    return boxes


def _arrows() -> tuple[Arrow, ...]:
    names = [heading for heading, *_ in _STAGES]
    return tuple(Arrow(start, end) for start, end in pairwise(names))


def _texts() -> tuple[Text, ...]:
    rows = tuple(
        Text(_MIDDLE, 20 + at * _STEP + 24 + 18 * line, text)
        for at, (_, *lines) in enumerate(_STAGES)
        for line, text in enumerate(lines)
    )
    return (
        *rows,
        Text(_LEFT, _BELOW + 18, "The life of a cached answer, set by cacheDuration", "h"),
        Text(310, _BAR + 16, "an agent renews it here"),
        Text(_LEFT, _BAR + 42, "response", "s"),
        Text(286, _BAR + 42, "50 %", "s"),
        Text(508, _BAR + 42, "90 %", "s"),
        Text(552, _BAR + 42, "end", "s"),
    )


PICTURE = Picture(
    "credential-life.svg",
    "The life of a registry credential: request, plugin, response, cache, keyring and use, with the place where it is"
    " held at each; it ends when a registry refuses it, when an agent renews it, or when it expires",
    _WIDTH,
    _BAR + 62 + 102 + 20,
    _boxes(),
    _arrows(),
    bars=(Bar(_LEFT, _BAR, 560, 50, 90),),
    texts=_texts(),
)
