"""The threat model: who may attack, what stands between, and what is to be protected."""

from __future__ import annotations

from diagrams.drawing import Arrow, Box, Picture, Zone

_WIDTH, _LEFT, _RIGHT = 580, 32, 372
_ROW, _STEP = 44, 58
# The zones, each with its attackers, and what stands between them and the assets.
_ZONES = (
    (
        "On the node",
        (
            ("1  A pod", "user and group, rules"),
            ("2  Another user", "owners and modes"),
            ("3  A web page", "Host, Origin, cookie"),
            ("4  A plugin's output", "limits, strict reading"),
        ),
    ),
    (
        "Elsewhere",
        (
            ("5  A registry", "TLS, where it leads"),
            ("6  Names, objects", "matching, plain text"),
            ("7  An API server", "TLS, bounds"),
        ),
    ),
    ("Before the node", (("8  Packages", "same bytes, hashes"),)),
)
_ASSETS = (
    ("Passwords and tokens", "for registries"),
    ("Tokens and client keys", "for clusters"),
    ("Service account tokens",),
    ("Which programs run,", "and as whom"),
    ("Who may use an image:", "pull records"),
    ("The terminal and the log", "of whoever looks"),
    ("The node's pulls",),
)


def _place() -> tuple[dict[str, Box], list[Arrow], list[Zone], int]:
    boxes, arrows, zones, y = {}, [], [], 20
    for name, attackers in _ZONES:
        height = 30 + len(attackers) * _STEP
        zones.append(Zone(20, y, 204, height, name))
        for at, (attacker, guard) in enumerate(attackers):
            boxes[attacker] = Box(_LEFT, y + 30 + at * _STEP, 180, _ROW, attacker, kind="bad")
            arrows.append(Arrow(attacker, "assets", guard))
        y += height + 14
    lines = tuple(line for asset in _ASSETS for line in ("", *asset, ""))
    boxes["assets"] = Box(_RIGHT, 20, 188, y - 14 - 20, "To be protected", lines, kind="good")
    return boxes, arrows, zones, y + 6


_BOXES, _ARROWS, _FRAMES, _HEIGHT = _place()
PICTURE = Picture(
    "threats.svg",
    "Eight kinds of attackers, numbered as on the page, what stands between each of them and keyferry, and what"
    " is to be protected: credentials, the choice of programs that run, pull records, and the reader's terminal",
    _WIDTH,
    _HEIGHT,
    _BOXES,
    tuple(_ARROWS),
    tuple(_FRAMES),
)
