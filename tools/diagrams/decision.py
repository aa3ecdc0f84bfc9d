"""Whether a pod may use an image that is on the node: the kubelet's questions in order, with keyferry's rule words."""

from __future__ import annotations

from diagrams.drawing import Arrow, Box, Picture

_WIDTH, _LEFT, _RIGHT = 540, 20, 372
_ROW, _STEP = 66, 88
# Each question: its heading, what counts, the answer that ends the questions, and how it ends.
_QUESTIONS = (
    ("Is the image on the node?", "Pull policy Always does not ask.", "no", "Pull", "absent"),
    ("Can its record be read?", "This counts for every policy.", "no", "Pull", "unreadable"),
    ("Does the policy verify it?", "By default, if the kubelet pulled it.", "no", "Use it", "policy"),
    ("Is this name in the record?", "As the pod writes it, without the tag.", "no", "Pull", "no-record ..."),
    ("Is it for every pod?", "It was pulled without a pod's own login.", "yes", "Use it", "everybody"),
    ("Has the pod a recorded login?", "Only now plugins may run.", "yes", "Use it", "same-secret ..."),
)
_KINDS = {"Pull": "care", "Use it": "good"}


def _boxes() -> dict[str, Box]:
    boxes = {}
    for at, (heading, line, _, end, rule) in enumerate(_QUESTIONS):
        y = 20 + at * _STEP
        boxes[f"question {at}"] = Box(_LEFT, y, 290, _ROW, heading, (line,))
        boxes[f"end {at}"] = Box(_RIGHT, y, 148, _ROW, end, (), rule, _KINDS[end])
    below = 20 + len(_QUESTIONS) * _STEP
    boxes["pull"] = Box(
        _LEFT,
        below,
        500,
        102,
        "Pull, with the pod's credentials in order",
        (
            "Until one works. With no credential at all: once, anonymously.",
            "Pull policy Never fails here, as if the image were not present.",
        ),
        "stranger",
        "care",
    )
    boxes["record"] = Box(
        _LEFT,
        below + 124,
        500,
        84,
        "Record who may use it from now on",
        (
            "The secret or the service account of the credential that worked;",
            "every pod, if it was the node's credential or none.",
        ),
    )
    return boxes


def _arrows() -> tuple[Arrow, ...]:
    last = len(_QUESTIONS) - 1
    out = (Arrow(f"question {at}", f"end {at}", each[2]) for at, each in enumerate(_QUESTIONS))
    down = (
        Arrow(f"question {at}", f"question {at + 1}", "no" if each[2] == "yes" else "yes")
        for at, each in enumerate(_QUESTIONS[:last])
    )
    return (*out, *down, Arrow(f"question {last}", "pull", "no"), Arrow("pull", "record"))


PICTURE = Picture(
    "decision.svg",
    "How the kubelet decides whether a pod may use an image that is on the node: six questions, each of which may"
    " end in using the image or in pulling it again; a pull that succeeds records who may use the image",
    _WIDTH,
    20 + len(_QUESTIONS) * _STEP + 124 + 84 + 20,
    _boxes(),
    _arrows(),
)
