"""The agent's status as text: whether all is well, what is not and what to do, then the providers, the worst first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from keyferry._core.secrets import printable
from keyferry._core.values import Value
from keyferry.api.meta import parse_time
from keyferry.errors import TimeError
from keyferry.images.provider.state import ProviderState
from keyferry.show.folding import display_width, fold_sentence
from keyferry.show.text import Mark, Whole, cut_middle, duration_text, mark, table
from keyferry.show.writer import Lines, style

Json = dict[str, object]
_T = TypeVar("_T")
_SECOND = 1_000_000_000
# The most of each kind that is shown, unless everything is asked for.
_MAX_PROBLEMS, _MAX_PROVIDERS, _MAX_RENEWALS, _MAX_FAILURES, _MAX_CALLERS = 3, 12, 5, 3, 5
_LEVELS = {
    "well": (Mark.YES, "green"),
    "warning": (Mark.WARNING, "yellow"),
    "bad": (Mark.NO, "red"),
    "none": (Mark.SKIPPED, "bold"),
}
# The states, the worst first: a mark and words for each, and their colour.
_STATES = {
    ProviderState.FAILING: (Mark.NO, "failing", "red"),
    ProviderState.RENEWAL_FAILS: (Mark.WARNING, "renewal fails", "yellow"),
    ProviderState.UNSTABLE: (Mark.WARNING, "unstable", "yellow"),
    ProviderState.NO_CREDENTIAL: (Mark.WARNING, "no credential", "yellow"),
    ProviderState.WELL: (Mark.YES, "well", "green"),
    ProviderState.UNUSED: (Mark.SKIPPED, "not used yet", "dim"),
}
_UNKNOWN = (Mark.UNKNOWN, "not known", "yellow")
_HEALTHY = (ProviderState.WELL, ProviderState.UNUSED)
_FEWEST_NAME = 12
_NO_ROOM = "    the command has no room here: leave out --watch"
_NO_COMMANDS = "  its commands are not shown: others than root and you can replace its socket"


class StatusOptions(Value):
    """How the status is shown: within *columns*, with everything or the worst of it, and how the page is opened.

    With *rows*, what has no room on the screen is left out. Without *has_commands*, those that the agent names are not
    shown: who pastes one trusts who wrote it.
    """

    columns: int
    page_command: str = ""
    is_whole: bool = False
    has_commands: bool = True
    rows: int = 0


def is_well(status: Json) -> bool:
    """Return whether the status names no problem."""
    return not _objects(_object(status, "health"), "problems")


def render_status(status: Json, options: StatusOptions, now: float | None = None) -> Lines:
    """Return the text of a status document; *now* is in seconds since 1970."""
    shown = _Status(status, options, time.time() if now is None else now)
    blocks = [*shown.verdict(), "", *shown.problems(), *shown.providers()]
    for part in (shown.renewals(), shown.failures(), shown.callers(), shown.process()):
        lines = list(part)
        blocks += ["", *lines] if lines else []
    lines = [
        line for block in blocks for line in ([block] if isinstance(block, Whole) else block.split("\n"))
    ]
    return Lines("\n".join(_on_screen(lines, options) if options.rows else lines))


def _on_screen(lines: list[str], options: StatusOptions) -> Iterator[str]:
    """Yield as many lines as there is room for; none takes two rows, and the last row stays empty."""
    room = max(options.rows - 1, 2)
    kept = lines if len(lines) <= room else lines[: room - 1]
    for line in kept:
        if display_width(line) <= options.columns:
            yield line
        else:
            # Of a command a part would look like one.
            has_command = isinstance(line, Whole)
            yield style(_NO_ROOM, "dim") if has_command else cut_middle(_plain(line), options.columns)
    if len(kept) < len(lines):
        yield style(f"and {len(lines) - len(kept)} more lines", "dim")


def _plain(line: str) -> str:
    """Return a line without keyferry's own colours, which could be cut in their middle."""
    return (
        line if "\033" not in line else "".join(part.partition("m")[2] for part in f"m{line}".split("\033"))
    )


class _Status:
    def __init__(self, status: Json, options: StatusOptions, now: float) -> None:
        self._status = status
        self._options = options
        self._now = now
        self._health = _object(status, "health")
        self._providers = sorted(_objects(status, "providers"), key=_urgency)

    def verdict(self) -> Iterator[str]:
        """Yield whether all is well and for how long, and which process tells it."""
        sign, colour = _LEVELS.get(_text(self._health, "level"), _LEVELS["none"])
        headline = style(printable(_text(self._health, "verdict")), "bold", colour)
        yield f"{mark(sign)} {headline}, for {self._since(_text(self._health, 'since'))}"
        status = self._status
        process = f"version {status.get('version')}, process {status.get('pid')}, user {status.get('uid')}"
        text = f"agent of {process}, running for {self._since(_text(status, 'startedAt'))}"
        yield style(printable(text), "dim")

    def problems(self) -> Iterator[str]:
        """Yield what is not well, why, and the command to type."""
        found = _objects(self._health, "problems")
        shown = self._first(found, _MAX_PROBLEMS)
        for each in shown:
            sign, _ = _LEVELS.get(_text(each, "level"), _LEVELS["warning"])
            since = f", for {self._since(_text(each, 'since'))}"
            yield from self._fold(_text(each, "text") + since, f"{mark(sign)} ", "  ")
            if _text(each, "reason"):
                yield from self._fold(_text(each, "reason"), "    ", "    ")
            if _text(each, "next") and self._options.has_commands:
                yield Whole(f"    try: {style(printable(_text(each, 'next')), 'bold')}")
        yield from self._more(len(found) - len(shown))
        if found and not self._options.has_commands:
            yield style(_NO_COMMANDS, "dim")
        yield from [""] if found else []

    def providers(self) -> Iterator[str]:
        """Yield a line for each provider, the worst first."""
        found = self._providers
        shown = self._first(found, _MAX_PROVIDERS)
        header = ("STATE", "CACHED", "ENDS", "RUNS", "FAILED")
        cells = [self._provider_cells(each) for each in shown]
        names = [printable(_text(each, "name")) for each in shown]
        widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
        room = max(self._options.columns - sum(widths) - 3 * len(widths) - 2, _FEWEST_NAME)
        rows = [[cut_middle(name, room), *row] for name, row in zip(names, cells, strict=True)]
        lines = table(("PROVIDER", *header), rows).split("\n")
        yield f"  {lines[0]}"
        for each, line in zip(shown, lines[1:], strict=True):
            sign, word, colour = _state(each)
            yield f"{mark(sign)} {line.replace(f'   {word}', f'   {style(word, colour)}', 1)}"
        rest = found[len(shown) :]
        troubled = sum(_text(each, "state") not in _HEALTHY for each in rest)
        yield from self._more(len(rest), f", {troubled} of them not well" if troubled else "")

    def _provider_cells(self, provider: Json) -> list[str]:
        cache, failures = _object(provider, "cache"), _object(provider, "failures")
        numbers = (cache.get("entries"), cache.get("tenantEntries"))
        ends = _text(cache, "expiresAt")
        return [
            _state(provider)[1],
            str(sum(each for each in numbers if isinstance(each, int))),
            self._relative(ends) if ends else "-",
            str(provider.get("runs")),
            str(sum(number for number in failures.values() if isinstance(number, int))),
        ]

    def renewals(self) -> Iterator[str]:
        """Yield the next renewals of cached answers."""
        found = _objects(_object(self._status, "refresh"), "next")
        rows = [
            (
                self._relative(_text(each, "at")),
                _text(each, "provider"),
                _text(each, "for"),
                f"{each['failures']} failed" if each.get("failures") else "",
            )
            for each in self._first(found, _MAX_RENEWALS)
        ]
        if rows:
            yield from self._table(("NEXT RENEWAL", "PROVIDER", "FOR", ""), rows)
            yield from self._more(len(found) - len(rows))

    def failures(self) -> Iterator[str]:
        """Yield the last failures of providers that are well again."""
        lasts = [
            (_text(each, "name"), _object(each, "lastFailure"))
            for each in self._providers
            if _text(each, "state") in _HEALTHY
        ]
        found = sorted((last for last in lasts if last[1]), key=lambda each: _text(each[1], "at"))[::-1]
        if found:
            yield "FAILED BEFORE"
        shown = self._first(found, _MAX_FAILURES)
        for name, last in shown:
            text = f"{self._relative(_text(last, 'at'))}, {name}: {_text(last, 'message')}"
            yield from self._fold(text, "", "  ")
        yield from self._more(len(found) - len(shown))

    def callers(self) -> Iterator[str]:
        """Yield who asked, the last one first."""
        found = sorted(_objects(self._status, "callers"), key=lambda each: _text(each, "lastAt"))[::-1]
        rows = [
            (
                str(each.get("uid")),
                str(each.get("requests")),
                str(each.get("refused")),
                self._relative(_text(each, "lastAt")),
            )
            for each in self._first(found, _MAX_CALLERS)
        ]
        if rows:
            yield from self._table(("USER", "REQUESTS", "REFUSED", "LAST"), rows)
            yield from self._more(len(found) - len(rows))

    def process(self) -> Iterator[str]:
        """Yield where the agent listens, what it reads, and how plugins run."""
        status, config = self._status, _object(self._status, "config")
        sockets = status.get("sockets")
        uid, gid = status.get("uid"), status.get("gid")
        told = {
            "socket": " ".join(map(str, sockets if isinstance(sockets, list) else ())),
            "config": f"{config.get('providerConfig')}, loaded {self._relative(_text(config, 'loadedAt'))}",
            "hash": _text(config, "hash"),
            "plugins": f"{config.get('binDir')}, run as user {uid} and group {gid}, in the agent's environment",
            "metrics": f"http://{status.get('metrics')}/metrics" if status.get("metrics") else "",
            "page": f"{status.get('page')}; '{self._options.page_command}' prints a link to it"
            if status.get("page")
            else "",
            "no page": _text(status, "pageProblem"),
        }
        for name, text in told.items():
            if text:
                yield from self._fold(text, f"{name:<8} ", " " * 9)

    def _first(self, found: list[_T], most: int) -> list[_T]:
        return found if self._options.is_whole else found[:most]

    def _more(self, number: int, text: str = "") -> Iterator[str]:
        if number:
            yield style(f"  and {number} more{text}; --all shows them", "dim")

    def _table(self, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
        """Yield a table within the columns; the widest of its columns gives way."""
        cells = [[printable(cell) for cell in row] for row in rows]
        widths = [max(map(display_width, column)) for column in zip(header, *cells, strict=True)]
        room = self._options.columns - 3 * (len(header) - 1)
        while sum(widths) > room and max(widths) > _FEWEST_NAME:
            widths[widths.index(max(widths))] -= 1
        cut = [[cut_middle(cell, width) for cell, width in zip(row, widths, strict=True)] for row in cells]
        yield table(header, cut)

    def _fold(self, text: str, first: str, rest: str) -> Iterator[str]:
        return fold_sentence(printable(text), first, rest, self._options.columns)

    def _since(self, instant: str) -> str:
        return _in_one_unit(max(0.0, self._now - _seconds(instant, self._now)))

    def _relative(self, instant: str) -> str:
        """Return how far away an instant is, in its greatest unit."""
        away = _seconds(instant, self._now) - self._now
        if abs(away) < 1:
            return "now"
        text = _in_one_unit(away)
        return f"in {text}" if away > 0 else f"{text} ago"


def _in_one_unit(seconds: float) -> str:
    return " ".join(duration_text(seconds).split(" ")[:2]) if abs(seconds) >= 1 else "less than a second"


def _seconds(instant: str, default: float) -> float:
    try:
        return parse_time(instant) / _SECOND
    except TimeError:
        return default


def _urgency(provider: Json) -> int:
    states = list(_STATES)
    state = _text(provider, "state")
    return states.index(ProviderState(state)) if state in states else -1


def _state(provider: Json) -> tuple[Mark, str, str]:
    state = _text(provider, "state")
    return _STATES[ProviderState(state)] if state in list(_STATES) else _UNKNOWN


def _text(document: Json, name: str) -> str:
    return str(document.get(name) or "")


def _object(document: Json, name: str) -> Json:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _objects(document: Json, name: str) -> list[Json]:
    value = document.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
