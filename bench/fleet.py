"""What a fleet of nodes does to a token endpoint: simulate it, and write the tables and pictures of docs/figures.md.

With numbers of nodes, it prints the tables for those, and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from math import ceil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.fleet_model import (
    SECOND,
    UNLIMITED,
    Endpoint,
    Fleet,
    FourFifths,
    HalfLife,
    Keyferry,
    Never,
    Quota,
    Renewals,
)
from bench.fleet_plot import Line, Panel, Plot, bins, draw
from bench.sections import table, with_section

if TYPE_CHECKING:
    from array import array

_ROOT = Path(__file__).resolve().parents[1]
PAGE = _ROOT / "docs" / "figures.md"
PICTURES = _ROOT / "docs" / "pictures"
SIZES = (1_000, 10_000, 100_000)
# What AWS' page about the error says of GetAuthorizationToken, and its published quota.
SMALL, LARGE = Quota(20, 200), Quota(500, 500)
_HOUR = 3600
_BOOT_SECONDS = 6 * _HOUR
# Limits apply when all nodes have a credential; the agents are replaced when a day has passed since then.
_LIMITED, _RENEWED, _ROLLOUT, _END = _HOUR, 13 * _HOUR, 25 * _HOUR, 37 * _HOUR
_ROLLOUT_SECONDS = 600
_BINS = 360
_BOOT_HEAD = (
    *("nodes", "who asks", "all boot within", "quota", "requests", "peak/s", "p99/s", "throttled"),
    *("every node has a credential after", "pulls without one"),
)
_DAY_HEAD = (
    *("nodes", "who asks", "peak/s in 12 h, no quota", "p99/s in 12 h, no quota", "peak/s in 24 h, 20/s"),
    *("throttled in 24 h, 20/s", "pulls without a credential"),
)
_ROLLOUT_HEAD = (
    *("nodes", "who asks", "requests in the first hour", "peak/s", "p99/s", "throttled"),
    *("pulls without a credential", "peak/s in the 11 h after"),
)
RULES: dict[str, Callable[[Random], Renewals]] = {
    "kubelet": Never,
    "80 % of the life": FourFifths,
    "half of the life": HalfLife,
    "keyferry": Keyferry,
}
STYLES = {"kubelet": 0, "80 % of the life": 1, "half of the life": 2, "keyferry": 3}


class Scenario(NamedTuple):
    """One run: the nodes and their rule, the quota, how fast they boot, for how long, and what happens then."""

    nodes: int
    rule: str
    quota: Quota
    boot: int
    seconds: int
    limited_from: int = 0
    # None without a rollout, else whether the caches are handed over.
    hands_over: bool | None = None


class Record(NamedTuple):
    """What happened in each second, and when the last node got its first credential."""

    asked: array[int]
    throttled: array[int]
    failed_pulls: array[int]
    complete: float | None


class Figures(NamedTuple):
    """Figures of some seconds of a record; *peak* and *p99* are requests a second."""

    requests: int
    peak: int
    p99: int
    throttled: float
    failed_pulls: int


def simulate(scenario: Scenario) -> Record:
    """Run a scenario; the same one gives the same record."""
    endpoint = Endpoint(scenario.quota, scenario.seconds, scenario.limited_from * SECOND)
    fleet = Fleet(scenario.nodes, RULES[scenario.rule], endpoint)
    fleet.boot(scenario.boot)
    if scenario.hands_over is not None:
        fleet.restart(_ROLLOUT, _ROLLOUT_SECONDS, hands_over=scenario.hands_over)
    fleet.run()
    complete = None if fleet.complete_at_ns is None else fleet.complete_at_ns / SECOND
    return Record(endpoint.asked, endpoint.throttled, fleet.failed_pulls, complete)


def figures(record: Record, start: int, end: int) -> Figures:
    """Return the figures of the seconds from *start* up to *end*."""
    asked = sorted(record.asked[start:end])
    requests = sum(asked)
    return Figures(
        requests,
        asked[-1],
        asked[ceil(len(asked) * 0.99) - 1],
        sum(record.throttled[start:end]) / requests if requests else 0.0,
        sum(record.failed_pulls[start:end]),
    )


def boot_scenarios(nodes: int) -> list[Scenario]:
    """Every way to boot: within a minute or ten, for both quotas, with the kubelet alone or with the agent."""
    return [
        Scenario(nodes, rule, quota, boot, _BOOT_SECONDS)
        for quota, boot, rule in product((SMALL, LARGE), (60, 600), ("kubelet", "keyferry"))
    ]


def demand_scenarios(nodes: int) -> list[Scenario]:
    """The first renewals by every rule, at an endpoint without a limit."""
    return [Scenario(nodes, rule, UNLIMITED, 60, _RENEWED) for rule in RULES]


def rollout_scenarios(nodes: int) -> list[Scenario]:
    """A day with the small quota, and then all agents are replaced."""
    ways = (("half of the life", False), ("keyferry", False), ("keyferry", True))
    return [Scenario(nodes, rule, SMALL, 60, _END, _LIMITED, over) for rule, over in ways]


def day_scenarios(nodes: int) -> list[Scenario]:
    """A day with the small quota, by every rule; that of an agent goes on with a rollout."""
    half, keyferry, _ = rollout_scenarios(nodes)
    others = [
        Scenario(nodes, rule, SMALL, 60, _ROLLOUT, _LIMITED) for rule in ("kubelet", "80 % of the life")
    ]
    return [*others, half, keyferry]


def scenarios(sizes: Iterable[int]) -> list[Scenario]:
    """Every run, those that take longest first."""
    found = [
        each
        for nodes in sorted(sizes, reverse=True)
        for each in (
            *rollout_scenarios(nodes),
            *day_scenarios(nodes),
            *boot_scenarios(nodes),
            *demand_scenarios(nodes),
        )
    ]
    return list(dict.fromkeys(found))


Records = dict[Scenario, Record]


def tables(records: Records, sizes: Sequence[int]) -> str:
    """Return all tables, each below its heading."""
    boots = [_boot_row(each, records[each]) for nodes in sizes for each in boot_scenarios(nodes)]
    days = [
        _day_row(demand, records[demand], records[limited])
        for nodes in sizes
        for demand, limited in zip(demand_scenarios(nodes), day_scenarios(nodes), strict=True)
    ]
    rollouts = [_rollout_row(each, records[each]) for nodes in sizes for each in rollout_scenarios(nodes)]
    return "\n\n".join(
        (
            "### Boot",
            table([_BOOT_HEAD, *boots]),
            "### A day of renewals",
            table([_DAY_HEAD, *days]),
            "### A rollout",
            table([_ROLLOUT_HEAD, *rollouts]),
        )
    )


def _boot_row(scenario: Scenario, record: Record) -> tuple[str, ...]:
    end = scenario.seconds if record.complete is None else max(ceil(record.complete) + 1, scenario.boot)
    found = figures(record, 0, min(end, scenario.seconds))
    complete = "more than 6 h" if record.complete is None else _duration(record.complete)
    return (
        f"{scenario.nodes:,}",
        scenario.rule,
        _duration(scenario.boot),
        f"{scenario.quota.rate}/s",
        f"{found.requests:,}",
        f"{found.peak:,}",
        f"{found.p99:,}",
        _share(found.throttled),
        complete,
        f"{found.failed_pulls:,}",
    )


def _day_row(scenario: Scenario, demand: Record, limited: Record) -> tuple[str, ...]:
    free, throttled = figures(demand, _LIMITED, _RENEWED), figures(limited, _LIMITED, _ROLLOUT)
    return (
        f"{scenario.nodes:,}",
        scenario.rule,
        f"{free.peak:,}",
        f"{free.p99:,}",
        f"{throttled.peak:,}",
        _share(throttled.throttled),
        f"{throttled.failed_pulls:,}",
    )


def _rollout_row(scenario: Scenario, record: Record) -> tuple[str, ...]:
    hour, later = figures(record, _ROLLOUT, _ROLLOUT + _HOUR), figures(record, _ROLLOUT + _HOUR, _END)
    whole = figures(record, _ROLLOUT, _END)
    return (
        f"{scenario.nodes:,}",
        f"{scenario.rule}, {'with' if scenario.hands_over else 'without'} hand-over",
        f"{hour.requests:,}",
        f"{hour.peak:,}",
        f"{hour.p99:,}",
        _share(whole.throttled),
        f"{whole.failed_pulls:,}",
        f"{later.peak:,}",
    )


def _share(share: float) -> str:
    return "0" if not share else f"{share:.1%}".replace("%", " %")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{ceil(seconds)} s"
    minutes = ceil(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def plots(records: Records, nodes: int) -> dict[str, Plot]:
    """Return the pictures by their names."""
    rollouts = {f"{each.rule} {bool(each.hands_over)}": records[each] for each in rollout_scenarios(nodes)}
    day = Panel(
        "endpoint that answers 20 a second",
        [
            Line(each.rule, STYLES[each.rule], bins(records[each].asked[_LIMITED:_ROLLOUT], _BINS))
            for each in day_scenarios(nodes)
        ],
        _LIMITED / _HOUR,
        _ROLLOUT / _HOUR,
        range(1, 26, 3),
        " h",
    )
    names = {
        "half of the life False": ("half of the life", 2),
        "keyferry False": ("keyferry without hand-over", 0),
        "keyferry True": ("keyferry with hand-over", 3),
    }
    rollout = Panel(
        "agents are replaced within 10 min, from 0 h on",
        [
            Line(name, style, bins(rollouts[key].asked[_ROLLOUT - _HOUR :], _BINS))
            for key, (name, style) in names.items()
        ],
        -1,
        (_END - _ROLLOUT) / _HOUR,
        range(12),
        " h",
    )
    size = f"{nodes:,} nodes"
    what = "Requests a second to the token endpoint, the highest of each part of the time, on a logarithmic scale"
    return {
        "fleet-day": Plot(f"A day of {size}: requests a second", what, [day], SMALL.rate),
        "fleet-rollout": Plot(f"A rollout on {size}: requests a second", what, [rollout], SMALL.rate),
    }


def run(sizes: Sequence[int]) -> Records:
    """Run every scenario, on all processors."""
    todo = scenarios(sizes)
    with ProcessPoolExecutor() as pool:
        return dict(zip(todo, pool.map(simulate, todo), strict=True))


def main() -> int:
    """Run all, and write the page and its pictures; or print the tables for the sizes that are given."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "nodes", type=int, nargs="*", metavar="NODES", help="print the tables for these alone"
    )
    sizes: list[int] = parser.parse_args().nodes
    if sizes:
        print(tables(run(sizes), sizes))
        return 0
    records = run(SIZES)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_section(page, "fleet", tables(records, SIZES)), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for name, plot in plots(records, SIZES[-1]).items():
        (PICTURES / f"{name}.svg").write_text(draw(plot), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
