"""Streams get what has changed for them, views are rendered once for all, and nothing is done for nobody."""

from __future__ import annotations

import asyncio
import json

from keyferry.agent.message import EventSink
from keyferry.agent.page.server import MAX_STREAMS, EventHub


class Sink(EventSink):
    """Keeps what was sent; reads nothing if it is slow."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_slow = self.is_closed = False

    def write(self, data: bytes) -> bool:
        """Keep what is sent."""
        if not self.is_slow:
            self.sent.append(data)
        return not self.is_slow

    def close(self) -> None:
        """Keep that it was closed."""
        self.is_closed = True

    def sections(self) -> dict[str, str]:
        """The last event's data."""
        head, data = self.sent[-1].decode().split("\n", 1)
        assert head == "event: sections"
        found = json.loads(data.removeprefix("data: "))
        assert isinstance(found, dict)
        return found


class World:
    """A hub on a stepped clock, whose views are what a test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.views: dict[str, dict[str, str]] = {"/": {"a": "1", "b": "1"}}
        self.rendered: list[str] = []
        self.hub = EventHub(self._render, clock=lambda: self.now)

    async def _render(self, view: str) -> dict[str, str] | None:
        self.rendered.append(view)
        return self.views.get(view)

    def follow(self, view: str = "/") -> Sink:
        """Add a stream."""
        sink = Sink()
        self.hub.follow(view, sink, lambda: True)
        return sink

    def update(self) -> None:
        """Let a second pass."""
        asyncio.run(self.hub.update())


def test_only_what_has_changed_is_sent() -> None:
    world = World()
    sink = world.follow()
    world.update()
    assert sink.sections() == {"a": "1", "b": "1"}
    world.views["/"] = {"a": "1", "b": "2"}
    world.update()
    assert sink.sections() == {"b": "2"}
    world.update()
    assert len(sink.sent) == 2


def test_equal_views_are_rendered_once_and_late_clients_get_all() -> None:
    world = World()
    first = world.follow()
    world.update()
    second = world.follow()
    world.views["/"] = {"a": "2", "b": "1"}
    world.update()
    assert world.rendered == ["/", "/"]
    assert (first.sections(), second.sections()) == ({"a": "2"}, {"a": "2", "b": "1"})


def test_a_silent_view_has_a_heartbeat() -> None:
    world = World()
    sink = world.follow()
    for _ in range(31):
        world.update()
        world.now += 1
    names = [data.partition(b"\n")[0] for data in sink.sent]
    assert names == [b"event: sections", b"event: alive", b"event: alive"]


def test_who_does_not_read_gets_the_newest_later() -> None:
    """Nothing is kept for it meanwhile."""
    world = World()
    sink = world.follow()
    sink.is_slow = True
    for number in range(5):
        world.views["/"] = {"a": str(number), "b": "1"}
        world.update()
    sink.is_slow = False
    world.update()
    assert (len(sink.sent), sink.sections()) == (1, {"a": "4", "b": "1"})


def test_who_has_gone_or_may_no_more_gets_nothing() -> None:
    world = World()
    gone, refused, is_allowed = Sink(), Sink(), [True]
    leave = world.hub.follow("/", gone, lambda: True)
    world.hub.follow("/", refused, lambda: is_allowed[0])
    leave()
    world.update()
    is_allowed[0] = False
    world.update()
    assert (gone.sent, len(refused.sent), refused.is_closed, len(world.hub)) == ([], 1, True, 0)
    rendered = len(world.rendered)
    world.update()
    assert len(world.rendered) == rendered


def test_the_end_is_told_to_all() -> None:
    world = World()
    sinks = [world.follow() for _ in range(3)]
    world.hub.end()
    assert all(sink.sent == [b"event: gone\ndata: {}\n\n"] and sink.is_closed for sink in sinks)
    assert len(world.hub) == 0


def test_streams_are_counted() -> None:
    world = World()
    for _ in range(MAX_STREAMS):
        assert not world.hub.is_full
        world.follow()
    assert world.hub.is_full


def test_a_view_that_cannot_be_rendered_disturbs_no_other() -> None:
    world = World()
    lost, found = world.follow("/lost"), world.follow()
    world.update()
    assert (lost.sent, len(found.sent)) == ([], 1)
