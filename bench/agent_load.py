"""Load the node agent from separate client processes: a steady rate, and then what may happen to an agent meanwhile.

64 connections of several processes send at the same instants, so that as many requests are under way at once. Every
answer is compared with the password of its image. It exits with 1 if a request failed or got another credential, or if
the agent grew, and never for a time: what the percentiles show on a busy machine is mostly how long a client waited for
a processor.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench.agent_clients import Outcome, Task
from bench.agent_place import PLUGIN, AgentPlace, image_of, write_plugin
from bench.measure import ROOT, SOURCES
from bench.report import aligned, load

_CLIENTS = 4
_CONNECTIONS = 64
_RATE = 2000.0
_RELOADS, _TAKE_OVERS, _KILLS = 100, 10, 5
# Requests a second of clients that connect for each, of shims and of docker's helper, which are new processes each.
_FRESH_RATE, _SHIM_RATE, _HELPER_RATE = 100.0, 20.0, 2.0
_DOWN_SECONDS = 0.3
# Clients ask for at least this long before something happens, and after it.
_AROUND_SECONDS = 0.5
_MAX_GROWTH_MB = 4.0
_SHARES = (50.0, 99.0, 99.9)
_HEADER = ("part", "requests", "failed", "fell back", "under way", *(f"p{share:g}" for share in _SHARES))
_Clients = list[tuple[Task, "subprocess.Popen[bytes]"]]


@dataclass(frozen=True)
class Part:
    """One part of the load: its name, and what became of its requests."""

    name: str
    outcomes: Sequence[Outcome]

    @property
    def errors(self) -> list[str]:
        """What went wrong, once for each request."""
        return [error for outcome in self.outcomes for error in outcome.errors]

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(len(outcome.late) for outcome in self.outcomes)

    def cells(self) -> tuple[str, ...]:
        """Return its line of the table."""
        late = sorted(each for outcome in self.outcomes for each in outcome.late)
        times = [f"{percentile(late, share) * 1000:.1f} ms" for share in _SHARES]
        fell_back = sum(outcome.fell_back for outcome in self.outcomes)
        spans = [span for outcome in self.outcomes for span in outcome.spans]
        counts = (self.requests, len(self.errors), fell_back, most_at_once(spans))
        return (self.name, *(f"{count:,}" for count in counts), *times)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the figure that *share* percent of all do not exceed; 0 for none."""
    return ordered[min(int(len(ordered) * share / 100), len(ordered) - 1)] if ordered else 0.0


def most_at_once(spans: Sequence[Sequence[float]]) -> int:
    """Return how many spans overlap at most; one that ends when another begins does not overlap with it."""
    turns = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, turn in turns:
        now += turn
        most = max(most, now)
    return most


def main() -> int:
    """Run all parts, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "seconds", type=float, nargs="?", default=60.0, metavar="SECONDS", help="(default: 60)"
    )
    seconds = parser.parse_args().seconds
    before = load()
    with tempfile.TemporaryDirectory() as folder:
        place = AgentPlace(folder, "--watch", "false")
        try:
            run = _Run(place, seconds)
            run.all()
        finally:
            place.close()
    print(aligned([_HEADER, *(part.cells() for part in run.parts)]))
    print(*run.notes, sep="\n")
    print(f"load of the machine: {before} before, {load()} after, on {os.cpu_count()} cores")
    for part in run.parts:
        for error in sorted(set(part.errors))[:5]:
            print(f"failed: {part.name}: {part.errors.count(error)} x {error}")
    for problem in run.problems:
        print(f"failed: {problem}")
    return 1 if run.problems or any(part.errors for part in run.parts) else 0


class _Run:
    """All parts, one after the other, on one place."""

    def __init__(self, place: AgentPlace, seconds: float) -> None:
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.problems: list[str] = []
        self._place = place
        self._seconds = seconds

    def all(self) -> None:
        """Run every part."""
        self._place.start()
        self._cold()
        self._steady()
        kept = self._task("kept")
        fresh = replace(self._task("fresh"), rate=_FRESH_RATE, first=_CONNECTIONS)
        self._under(f"{_RELOADS} reloads, every tenth broken", [kept], self._reload_often, 1 / 4)
        self._under(f"{_TAKE_OVERS} take-overs", [kept, fresh], self._take_over_often, 1 / 2)
        self._under(f"{_KILLS} x kill -9 and restart", self._falling_back(), self._kill_often, 1 / 2)

    def _cold(self) -> None:
        """Ask on all connections for one image whose plugin takes half a second: one run, for all of them."""
        write_plugin(self._place.plugin, pause_seconds=0.5)
        runs = self._place.runs()
        # One instant, at which each connection asks once.
        once = replace(self._task("kept"), rate=1.0, seconds=0.5, is_one_image=True)
        self.parts.append(Part("one cold image", _collect(_start(self._divided(once)))))
        write_plugin(self._place.plugin)
        made = self._place.runs() - runs
        if made != 1:
            self.problems.append(f"{_CONNECTIONS} requests at once caused {made} runs of the plugin")

    def _steady(self) -> None:
        place = self._place
        for number in range(_CONNECTIONS + 8):
            place.ask("POST", "/v1/lookup", {"image": image_of(number)})
        # What grows with the first requests, such as the table of connections, is there before it is measured.
        _collect(_start(self._divided(replace(self._task("kept"), seconds=2.0))))
        before = {name: place.memory_mb(name) for name in ("Pss", "Rss")}
        spent = place.cpu_seconds()
        part = Part(f"{_RATE:,.0f} a second", _collect(_start(self._divided(self._task("kept")))))
        spent = place.cpu_seconds() - spent
        self.parts.append(part)
        for name, first in before.items():
            after = place.memory_mb(name)
            self.notes.append(f"{name.upper()}: {first:.1f} MB before, {after:.1f} MB after")
            if after - first > _MAX_GROWTH_MB:
                self.problems.append(f"the agent has grown by {after - first:.1f} MB ({name.upper()})")
        self.notes.append(f"CPU of the agent: {spent / part.requests * 1e6:.1f} µs a request")

    def _under(self, name: str, tasks: Sequence[Task], happens: Callable[[], None], share: float) -> None:
        """Let something happen while clients ask; however long it takes, they ask until after it."""
        seconds = self._seconds * share
        clients = _start([each for task in tasks for each in self._divided(replace(task, seconds=seconds))])
        time.sleep(_AROUND_SECONDS)
        happens()
        time.sleep(_AROUND_SECONDS)
        self.parts.append(Part(name, _collect(clients)))

    def _reload_often(self) -> None:
        good = self._place.config.read_bytes()
        refused = 0
        for number in range(_RELOADS):
            self._place.config.write_bytes(b"{" if number % 10 == 9 else good)
            refused += b'"applied":false' in self._place.ask("POST", "/v1/reload")
        self._place.config.write_bytes(good)
        self.notes.append(f"reloads: {_RELOADS - refused} applied, {refused} refused")
        if refused != _RELOADS // 10:
            self.problems.append(f"{refused} reloads were refused, not {_RELOADS // 10}")

    def _take_over_often(self) -> None:
        for _ in range(_TAKE_OVERS):
            self._place.replace()

    def _kill_often(self) -> None:
        runs = self._place.runs()
        for _ in range(_KILLS):
            time.sleep(0.5)
            self._place.kill()
            time.sleep(_DOWN_SECONDS)
            self._place.start()
        self.notes.append(
            f"kill -9: the plugin ran {self._place.runs() - runs:,} times for agent and clients"
        )

    def _falling_back(self) -> list[Task]:
        """Return every kind of client, all of which fall back."""
        kept, fresh, shim, helper = (
            replace(self._task(kind), falls_back=True) for kind in ("kept", "fresh", "shim", "helper")
        )
        tasks = [kept, replace(fresh, rate=_FRESH_RATE, first=_CONNECTIONS)]
        for number, (program, path) in enumerate(_shims(self._place.folder).items()):
            self.notes.append(f"kill -9: some clients are the shim in {program}")
            tasks.append(replace(shim, rate=_SHIM_RATE, first=_CONNECTIONS + 1 + number, shim=path))
        return [*tasks, replace(helper, rate=_HELPER_RATE, first=_CONNECTIONS + 4)]

    def _task(self, kind: str) -> Task:
        place = self._place
        return Task(kind, place.socket, place.plugin, str(place.config), self._seconds, _RATE / _CONNECTIONS)

    def _divided(self, task: Task) -> list[Task]:
        """Divide the connections that are kept among several processes; other clients are one process each."""
        if task.kind != "kept":
            return [task]
        each = _CONNECTIONS // _CLIENTS
        step = 0 if task.is_one_image else each
        return [replace(task, connections=each, first=number * step) for number in range(_CLIENTS)]


def _shims(folder: str) -> dict[str, str]:
    """Put the shims in front of the plugin, in folders of their own; return their paths by their language."""
    from keyferry.bridge.kubelet_install import python_shim

    programs = {"Python": python_shim()}
    compiler = shutil.which("musl-gcc")
    if compiler is not None:
        built = os.path.join(folder, "built")
        source = os.path.join(ROOT, "native", "shim.c")
        subprocess.run([compiler, "-O2", "-static", "-s", "-o", built, source], check=True)
        with open(built, "rb") as stream:
            programs["C"] = stream.read()
    paths = {}
    for language, program in programs.items():
        bin_dir = os.path.join(folder, f"shim-{language}")
        os.mkdir(bin_dir)
        paths[language] = os.path.join(bin_dir, PLUGIN)
        # Its own copy: a link would write its runs elsewhere too, but a script sees its second name.
        write_plugin(f"{paths[language]}.real")
        with open(paths[language], "wb") as stream:
            stream.write(program)
        os.chmod(paths[language], 0o755)
    return paths


def _start(tasks: Sequence[Task]) -> _Clients:
    """Start all clients; they begin at the same instant, when all of them are ready."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((SOURCES, ROOT))}
    clients: _Clients = []
    for task in tasks:
        words = [sys.executable, "-m", "bench.agent_clients", json.dumps(asdict(task))]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        clients.append((task, process))
    for _, process in clients:
        assert process.stdout is not None
        process.stdout.readline()
    begin = time.perf_counter() + 0.2
    for _, process in clients:
        assert process.stdin is not None
        process.stdin.write(b"%f\n" % begin)
        process.stdin.flush()
    return clients


def _collect(clients: _Clients) -> list[Outcome]:
    """Let all clients end, and return what became of their requests."""
    for _, process in clients:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None  # communicate would write to it
    outcomes = []
    for task, process in clients:
        printed = process.communicate()[0]
        if process.returncode:
            outcomes.append(
                Outcome(errors=[f"a client of the kind {task.kind} ended with {process.returncode}"])
            )
        else:
            outcomes.append(Outcome(**json.loads(printed)))
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
