"""What every test may ask for."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from itertools import chain, compress, groupby, islice
from pathlib import Path

import pytest
from hypothesis import settings

from support.fault_table import PAGE, Line, Tried, with_lines
from support.kubelets import Processes
from support.plugins import Node

# Tests that run in the background ignore interrupts and hang-ups, and so would every program they start.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# Files and folders that tests make are as on a node: only their owner writes them. Tests of the umask set their own.
os.umask(0o022)

# About noon here: what is shown of the hours before and after is of the same day, whenever tests run.
os.environ["TZ"] = f"NOON{time.gmtime().tm_hour - 12:+d}"
if hasattr(time, "tzset"):
    time.tzset()

# No example is too slow on a busy machine; and where a change is judged, it is judged on the same examples.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-faults", action="store_true", help="write the table of docs/figures.md")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove the folders that shims of containerd make for themselves; no setting puts them anywhere else.

    Not in a worker, since others may still run containers; folders in use are not empty, and stay.
    """
    if not hasattr(session.config, "workerinput"):
        for name in ("s", "fifo", "runc/k8s.io", "runc", ""):
            with contextlib.suppress(OSError):
                Path("/run/containerd", name).rmdir()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each worker begin with its share of the tests that take longest: none of them is waited for at the end.

    xdist cuts the tests into as many parts as there are workers, and each begins with the first of its part.
    """
    workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    is_long = [item.path.parent.name == "e2e" for item in items]
    modules = [list(group) for _, group in groupby(compress(items, is_long), key=lambda item: item.path)]
    others = (item for item, long in zip(items, is_long, strict=True) if not long)
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for module in sorted(modules, key=len, reverse=True):
        min(parts, key=len).extend(module)
    for part in parts:
        part.extend(islice(others, max(len(items) // workers - len(part), 0)))
    items[:] = [*chain.from_iterable(parts), *others]


@pytest.fixture(scope="session")
def _fault_lines(request: pytest.FixtureRequest) -> Iterator[list[Line] | None]:
    """The table of faults, if this run makes it."""
    made: list[Line] | None = [] if request.config.getoption("--write-faults") else None
    yield made
    if made is not None:
        assert not request.session.testsfailed
        PAGE.write_text(with_lines(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")


@pytest.fixture
def tried(request: pytest.FixtureRequest, _fault_lines: list[Line] | None) -> Tried:
    """For tests of faults: tell what was tried and what came of it."""
    return Tried(f"{request.path.parent.name}/{request.path.name}", _fault_lines)


@pytest.fixture
def lax_umask() -> Iterator[None]:
    """The umask of Debian 13's users, whose group may write."""
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """An empty node: a folder for plugins and their config."""
    return Node(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _no_kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A machine on which no kubelet runs and nothing is in the usual places, whatever this one is."""
    folder = tmp_path_factory.mktemp("machine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEYFERRY_PROC", str(Processes(folder / "proc")))
        patch.setenv("KEYFERRY_HOST_ROOT", str(folder))
        yield


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    """The processes of this test alone, for whatever it runs."""
    shown = Processes(tmp_path / "proc")
    monkeypatch.setenv("KEYFERRY_PROC", str(shown))
    return shown
