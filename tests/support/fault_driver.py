"""Runs a job again and again in forked processes, each time with a fault one step later, and tells what came of it.

``python fault_driver.py FAULT JOB FOLDER`` writes a JSON document. The steps are the calls that change files, counted
under the file kit: where it calls ``os``.
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from support.fault_jobs import HALF, JOBS, NEW, OLD, Job

KILL, EIO, EMFILE = "kill", "EIO", "EMFILE"
FULL, READ_ONLY, NO_INODES = "full", "read-only", "no inodes"
_CALLS = (
    *("open", "mkdir", "write", "fsync", "fchmod", "chmod", "fchown", "chown"),
    *("replace", "rename", "link", "symlink", "unlink", "pwrite"),
)
_MAX_STEPS = 200
_DRAFT = re.compile(r"(\.\d+\.[0-9a-f]+|\.tmp|\.\d+)$")


class _Layer:
    """Counts calls, and lets one of them fail, or the process die before it or half-way through it."""

    def __init__(self, fault: str, at: int) -> None:
        self._fault, self._left = fault, at
        self.struck = ""
        self._write = os.write

    def install(self) -> None:
        for name in _CALLS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        setattr(socket.socket, "bind", self._wrapped("bind", socket.socket.bind))  # noqa: B010 - as those above

    def _wrapped(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*words: object, **named: object) -> object:
            self._left -= 1
            if self._left == 0:
                self._strike(name, *words)
            return call(*words, **named)

        return wrapper

    def _strike(self, name: str, *words: object) -> None:
        self.struck = name
        if name == "write":  # half of it is written, whatever happens then
            descriptor, data = words
            assert isinstance(descriptor, int)
            assert isinstance(data, bytes | memoryview)
            self._write(descriptor, data[: len(data) // 2])
        if self._fault == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, self._fault)
        # As the system's own error: it names what the call named, and nothing for a call with a descriptor.
        raise OSError(number, os.strerror(number), *(word for word in words[:1] if isinstance(word, str)))


def _in_child(work: Callable[[], dict[str, str]]) -> tuple[int, dict[str, str]]:
    """Run in a forked process; return its exit status and what it returned."""
    out, into = os.pipe()
    send = os.write
    pid = os.fork()
    if pid == 0:
        _work_and_exit(work, lambda data: send(into, data))
    os.close(into)
    with open(out, "rb") as stream:
        told = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, json.loads(told) if told else {}


def _work_and_exit(work: Callable[[], dict[str, str]], send: Callable[[bytes], object]) -> NoReturn:
    try:
        send(json.dumps(work()).encode())
    finally:
        os._exit(0)


def _attempt(job: Job, root: Path) -> dict[str, str]:
    """Run a job; return what it raised."""
    try:
        job.run(root)
    except Exception as error:  # noqa: BLE001 - the test judges it
        return {"error": str(error), "type": type(error).__name__}
    return {}


def _struck(job: Job, root: Path, fault: str, at: int) -> dict[str, str]:
    layer = _Layer(fault, at)
    layer.install()
    return {**_attempt(job, root), "call": layer.struck}


def _short_of_descriptors(job: Job, root: Path, free: int) -> dict[str, str]:
    following = os.dup(0)
    os.close(following)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (following + free, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    told = _attempt(job, root)
    return {**told, "call": "open" if told else ""}


def _tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def sweep(fault: str, name: str, folder: Path) -> dict[str, object]:
    """Let the fault come at each step in turn, until the job ends before it comes."""
    job = JOBS[name]
    clean = _fresh(job, folder / "clean")
    job.run(clean)
    assert job.state(clean) == NEW
    expected, problems, states, errors = _tree(clean), list[str](), set[str](), set[str]()
    for at in range(1, _MAX_STEPS):
        root = _fresh(job, folder / f"at-{at}")
        if fault == EMFILE:
            status, told = _in_child(lambda: _short_of_descriptors(job, root, at - 1))  # noqa: B023 - used at once
        else:
            status, told = _in_child(lambda: _struck(job, root, fault, at))  # noqa: B023 - used at once
        is_over = status == 0 and not told.get("call")
        where = f"step {at}, {told.get('call') or 'the end'}"
        problems += _judge(job, root, told, where, states)
        if fault == KILL and status not in (0, -signal.SIGKILL):
            problems.append(f"{where}: ended with status {status}")
        errors.add(told.get("error", ""))
        if not job.is_done(root):
            job.run(root)
        if job.state(root) != NEW:
            problems.append(f"{where}: the next run does not succeed")
        left = _tree(root) - expected
        if fault == KILL:
            left = {each for each in left if not _DRAFT.search(each)}
        if left and told.get("call") != "unlink":
            problems.append(f"{where}: left {sorted(left)}")
        shutil.rmtree(root)
        if is_over:
            break
    return {"steps": at, "states": sorted(states), "problems": problems, "errors": sorted(errors - {""})}


def _judge(job: Job, root: Path, told: dict[str, str], where: str, states: set[str]) -> list[str]:
    state = job.state(root)
    states.add(state)
    problems = [f"{where}: half of it is there"] if state == HALF else []
    if told.get("error") and str(root) not in told["error"]:
        problems.append(f"{where}: the error does not name the place: {told['type']}: {told['error']}")
    if told.get("type") == "OSError" and not job.is_low:
        problems.append(f"{where}: a bare OSError: {told['error']}")
    if state == OLD and told.get("call") and not told.get("error"):
        problems.append(f"{where}: nothing was changed, and no error says so")
    return problems


def _fresh(job: Job, root: Path) -> Path:
    root.mkdir()
    job.prepare(root)
    return root


def fill(fault: str, name: str, folder: Path) -> dict[str, object]:
    """Run a job on a real file system, mounted at *folder*, that takes no more; then make room and run it again."""
    job = JOBS[name]
    root = _fresh(job, folder / "root")
    fillers = _fill(fault, folder)
    told = _attempt(job, root)
    if fault == READ_ONLY:
        _remount(folder, "rw")
    for path in fillers:
        path.unlink()
    states: set[str] = set()
    problems = _judge(job, root, {**told, "call": fault}, fault, states)
    if not job.is_done(root):
        job.run(root)
    if job.state(root) != NEW:
        problems.append("the next run does not succeed")
    return {"steps": 1, "states": sorted(states), "problems": problems, "errors": [told.get("error", "")]}


def _fill(fault: str, folder: Path) -> list[Path]:
    fillers: list[Path] = []
    if fault == READ_ONLY:
        _remount(folder, "ro")
    elif fault == FULL:
        fillers.append(folder / "filler")
        with fillers[0].open("wb", buffering=0) as stream:
            try:
                while True:
                    stream.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC
    else:
        try:
            while True:
                fillers.append(folder / f"filler-{len(fillers)}")
                fillers[-1].touch()
        except OSError as error:
            assert error.errno == errno.ENOSPC
            del fillers[-1]
    return fillers


def _remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


def main(fault: str, folder: str) -> None:
    """Write what came of a fault for every job."""
    results = {}
    for number, name in enumerate(JOBS):
        place = Path(folder, str(number))
        place.mkdir()
        if fault in (FULL, READ_ONLY, NO_INODES):
            limit = "size=256k,nr_inodes=64"
            subprocess.run(["mount", "-t", "tmpfs", "-o", limit, "tmpfs", str(place)], check=True)
            results[name] = fill(fault, name, place)
        else:
            results[name] = sweep(fault, name, place)
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
