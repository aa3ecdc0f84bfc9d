"""The health of a node as it tells it from afar; the verdict is made here, of the lines that the node gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyferry._core.secrets import redact
from keyferry._core.values import replace
from keyferry.doctor.health import HealthLevel, HealthLine, HealthSection, NodeHealth, make_line
from keyferry.errors import EnvironmentProblem
from keyferry.workloads.node_reply import NodeReply, ReplyPart, Through
from keyferry.workloads.on_node import NodeQuestion, ask_node, plan_debug_pod
from keyferry.workloads.request import Request

__all__ = ["examine_node", "health_debug_pod"]

Announce = Callable[[str], None]

_KIND = "NodeHealth"
_MAX_SECTIONS, _MAX_LINES, _MAX_TEXT, _MAX_COUNT = 50, 2000, 2048, 1_000_000
# What the pod of a node agent sees of its node.
_SEEN_BY_AGENT = ("provider config", "plugins", "patterns", "node agent")
_UNSEEN = "kubelet, container runtime, mirrors, pull records, proxies, disk"


def examine_node(request: Request, announce: Announce) -> NodeHealth:
    """Ask the node ``request.on_node`` for its health; *announce* is told of a pod that is made for that.

    Raise EnvironmentProblem if it cannot be asked or what it says is not understood, and ClusterAuthError.
    """
    (reply,) = ask_node(request.open_session(), _question(request), announce)
    if reply.problem:
        raise EnvironmentProblem(reply.problem)
    document = ReplyPart(reply.document, f"the answer of {reply.through.noun} {reply.pod}")
    document.check(document.text("kind") == _KIND, "kind", f"expected {_KIND}")
    sections = tuple(_sections(document, reply))
    return NodeHealth(
        sections=sections,
        is_node=document.is_true("isNode"),
        told_by=f"node {reply.node!r}, by {reply.through.noun} {reply.pod}",
    )


def _question(request: Request) -> NodeQuestion:
    """Return what the node is asked."""
    command = ("doctor", "-o", "json")
    return NodeQuestion(node=request.on_node, commands=(command,), debug_commands=(command,), request=request)


def health_debug_pod(request: Request) -> dict[str, object]:
    """Return the debug pod that would be made; raise EnvironmentProblem if none would be."""
    return plan_debug_pod(request.open_session(), _question(request)).document()


def _sections(document: ReplyPart, reply: NodeReply) -> Iterator[HealthSection]:
    is_agent = reply.through is Through.AGENT
    for part in document.parts("sections", _MAX_SECTIONS):
        title = part.text("title")
        if not is_agent or title in _SEEN_BY_AGENT:
            yield HealthSection(title=title, lines=tuple(map(_line, part.parts("lines", _MAX_LINES))))
    if is_agent:
        text = f"{_UNSEEN}: the node agent's pod does not see them, a debug pod does"
        yield HealthSection(
            title="not seen", lines=(make_line(HealthLevel.UNKNOWN, "the rest of the node", text),)
        )


def _line(part: ReplyPart) -> HealthLine:
    """Return a line without its command: it has the node's paths, and would be pasted on the caller's machine."""
    word, count = part.text("level"), part.number("count")
    part.check(word in tuple(HealthLevel), "level", "expected the level of a line")
    part.check(count is None or 0 <= count <= _MAX_COUNT, "count", "expected a number of findings")
    line = make_line(HealthLevel(word), part.text("subject"), redact(part.text("text", _MAX_TEXT)))
    return replace(line, count=1 if count is None else int(count))
