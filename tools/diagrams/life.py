"""The life of a registry credential: its stages, where it is held at each, and how its life ends."""

from __future__ import annotations

from itertools import pairwise

from diagrams.drawing import Arrow, Bar, Box, Picture, Text

_WIDTH, _LEFT, _MIDDLE = 540, 20, 180
_INNER = _WIDTH - 2 * _LEFT
_ROW, _STEP = 44, 62
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
# Each end, what it means, and how good it is.
_ENDS = (
    ("Refused", ("evicted; the plugin", "runs again, once", "in 30 s for a key"), "bad"),
    ("Renewed", ("by the agent: the", "new answer takes", "its place"), "good"),
    ("Expired", ("never served again;", "dropped at a lookup", "or by a sweep"), "care"),
)
_END_WIDTH, _END_HEIGHT = 156, 102
_BELOW = 20 + len(_STAGES) * _STEP
_BAR = _BELOW + 34
_ENDS_AT = _BAR + 62


def _boxes() -> dict[str, Box]:
    stages = {
        heading: Box(_LEFT, 20 + at * _STEP, 136, _ROW, heading) for at, (heading, *_) in enumerate(_STAGES)
    }
    apart = (_INNER - _END_WIDTH) // (len(_ENDS) - 1)
    ends = {
        heading: Box(_LEFT + at * apart, _ENDS_AT, _END_WIDTH, _END_HEIGHT, heading, lines, kind=kind)
        for at, (heading, lines, kind) in enumerate(_ENDS)
    }
    return {**stages, **ends}


def _arrows() -> tuple[Arrow, ...]:
    names = [heading for heading, *_ in _STAGES]
    return tuple(Arrow(start, end) for start, end in pairwise(names))


def _texts() -> tuple[Text, ...]:
    rows = tuple(
        Text(_MIDDLE, 20 + at * _STEP + 18 + 18 * line, text)
        for at, (_, *lines) in enumerate(_STAGES)
        for line, text in enumerate(lines)
    )
    half, ninety = _LEFT + _INNER // 2, _LEFT + _INNER * 9 // 10
    return (
        *rows,
        Text(_LEFT, _BELOW + 18, "The life of a cached answer, set by cacheDuration", "h"),
        Text(half + 10, _BAR + 16, "an agent renews it here"),
        Text(_LEFT, _BAR + 42, "response", "s"),
        Text(half - 14, _BAR + 42, "50 %", "s"),
        Text(ninety - 20, _BAR + 42, "90 %", "s"),
        Text(_LEFT + _INNER - 22, _BAR + 42, "end", "s"),
    )


PICTURE = Picture(
    "credential-life.svg",
    "The life of a registry credential: request, plugin, response, cache, keyring and use, with the place where it is"
    " held at each; it ends when a registry refuses it, when an agent renews it, or when it expires",
    _WIDTH,
    _ENDS_AT + _END_HEIGHT + 20,
    _boxes(),
    _arrows(),
    bars=(Bar(_LEFT, _BAR, _INNER, 50, 90),),
    texts=_texts(),
)
