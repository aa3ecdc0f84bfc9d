"""Live updates of the page: server-sent events with the parts of a view that have changed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from keyferry.agent.message import EventSink

__all__ = ["EventHub", "EventStream"]

MOST_STREAMS = 32
_UPDATE_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0
_HEARTBEAT = b"event: alive\ndata: {}\n\n"
_GONE = b"event: gone\ndata: {}\n\n"

Sections = dict[str, str]


class EventStream:
    """One client that follows a view; *is_allowed* tells whether it still may."""

    def __init__(self, view: str, sink: EventSink, is_allowed: Callable[[], bool], now: float) -> None:
        self.view = view
        self.is_allowed = is_allowed
        self._sink = sink
        self._sent: Sections = {}
        self._last_at = now

    def update(self, sections: Sections, now: float) -> None:
        """Send what differs from what was sent before; a client that does not read gets nothing meanwhile."""
        changed = {name: html for name, html in sections.items() if self._sent.get(name) != html}
        if changed:
            data = json.dumps(changed).encode()
            if self._sink.write(b"event: sections\ndata: %b\n\n" % data):
                self._sent, self._last_at = sections, now
        elif now - self._last_at >= _HEARTBEAT_SECONDS and self._sink.write(_HEARTBEAT):
            self._last_at = now

    def end(self) -> None:
        """Say that the agent stops, and close."""
        self._sink.write(_GONE)
        self._sink.close()

    def cut(self) -> None:
        """Close without a word: the client asks again, and is told why not."""
        self._sink.close()


class EventHub:
    """All streams. Nothing is rendered while there is none, and equal views are rendered once."""

    def __init__(
        self,
        render: Callable[[str], Awaitable[Sections | None]],
        *,
        clock: Callable[[], float] = time.monotonic,
        pause_seconds: float = _UPDATE_SECONDS,
    ) -> None:
        self._render = render
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._streams: dict[EventStream, None] = {}
        self._wake = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether there are as many streams as there may be."""
        return len(self._streams) >= MOST_STREAMS

    def __len__(self) -> int:
        return len(self._streams)

    def follow(self, view: str, sink: EventSink, is_allowed: Callable[[], bool]) -> Callable[[], None]:
        """Take in a stream; return what to call when its client has gone."""
        stream = EventStream(view, sink, is_allowed, self._clock())
        self._streams[stream] = None
        self._wake.set()
        return lambda: self._drop(stream)

    def end(self) -> None:
        """Tell all that the agent stops."""
        for stream in list(self._streams):
            stream.end()
        self._streams.clear()

    async def run(self) -> None:
        """Update all streams once a second, until cancelled."""
        while True:
            await self._wake.wait()
            await self.update()
            await asyncio.sleep(self._pause_seconds)

    async def update(self) -> None:
        """Render each view that is followed, and send what has changed."""
        for stream in [each for each in self._streams if not each.is_allowed()]:
            self._drop(stream)
            stream.cut()
        by_view: dict[str, list[EventStream]] = {}
        for stream in self._streams:
            by_view.setdefault(stream.view, []).append(stream)
        for view, streams in by_view.items():
            sections = await self._render(view)
            for stream in streams:
                if sections is not None and stream in self._streams:
                    stream.update(sections, self._clock())

    def _drop(self, stream: EventStream) -> None:
        self._streams.pop(stream, None)
        if not self._streams:
            self._wake.clear()
