"""Programs in processes of their own, forked from one that has loaded them: a run takes milliseconds.

For plugins a pause only moves the clock, so that nobody waits for retries. This file is also the program from which
they are forked.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, SupportsIndex

# What the commands load that tests run so.
_LOADED = (
    "keyferry.cli.main",
    "keyferry.cli.explain",
    "keyferry.cli.doctor",
    "keyferry.cli.records",
    "keyferry.pulls.cri",
)
# Shorter pauses are those of a process that looks again whether a file is still locked by another.
_SHORT_SECONDS = 0.1


def run_forked(
    source: str, name: str, stdin: str, args: Sequence[str], env: Mapping[str, str]
) -> tuple[int, str, str]:
    """Run the module *name* of the plugins in *source*; return the exit status and what it wrote to both streams."""
    argv = [f"keyferry-{name.replace('_', '-')}", *args]
    return _run_forked(_server(source), f"keyferry_plugins.{name}", argv, stdin, env)


def run_keyferry_forked(words: Sequence[str], env: Mapping[str, str]) -> tuple[int, str, str]:
    """Run a command of keyferry, with empty standard input; return the same."""
    return _run_forked(_server(""), "keyferry.cli.main", ["keyferry", *words], "", env)


def _run_forked(
    server: str, module: str, argv: Sequence[str], stdin: str, env: Mapping[str, str]
) -> tuple[int, str, str]:
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
        socket.socket(socket.AF_UNIX) as channel,
    ):
        given.write(stdin.encode())
        given.seek(0)
        channel.connect(server)
        socket.send_fds(channel, [b"\n"], [file.fileno() for file in (given, stdout, stderr)])
        request = {"module": module, "argv": list(argv), "env": dict(env), "folder": str(Path.cwd())}
        channel.sendall(json.dumps(request).encode())
        channel.shutdown(socket.SHUT_WR)
        status = int(_read_all(channel))
        return status, _text_of(stdout), _text_of(stderr)


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _read_all(channel: socket.socket) -> bytes:
    return b"".join(iter(lambda: channel.recv(65536), b""))


@cache
def _server(source: str) -> str:
    """Start the program for the plugins in *source*, or for keyferry; return the path of its socket.

    It ends when its standard input does.
    """
    folder = tempfile.TemporaryDirectory(prefix="forks-")
    path = str(Path(folder.name, "socket"))
    # keyferry is the one that runs here.
    env = {} if source else {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    server = subprocess.Popen(
        [sys.executable, "-I" if source else "-P", __file__, source, path],
        env={"PATH": os.environ["PATH"], **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"

    def stop() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(stop)
    return path


def _serve(source: str, path: str) -> None:
    """Return in the process of a run, or exit in the program itself when whoever started it has gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that have reported
    if source:
        sys.path.insert(0, source)
        _step_clock()
        loaded = [
            f"keyferry_plugins.{file.stem}" for file in Path(source, "keyferry_plugins").glob("[a-z]*.py")
        ]
    else:
        loaded = list(_LOADED)
    for each in loaded:
        import_module(each)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        os.write(1, b"ready\n")
        gone = sys.stdin.fileno()
        while gone not in select.select([listener.fileno(), gone], [], [])[0]:
            channel, _ = listener.accept()
            with channel:
                if os.fork() == 0:
                    listener.close()
                    return _run(channel)
    os._exit(0)


def _run(channel: socket.socket) -> None:
    """Return in the process of the plugin; the other one waits for it and reports its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(channel, 1, 3)
    request = json.loads(_read_all(channel))
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        channel.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    channel.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = request["argv"]
    sys.exit(import_module(request["module"]).main())


def _step_clock() -> None:
    """Let a pause move the clock, and take no time."""
    really_sleep, moved = time.sleep, 0.0
    clocks = {name: getattr(time, name) for name in ("time", "monotonic", "time_ns", "monotonic_ns")}

    def sleep(seconds: float | SupportsIndex, /) -> None:
        nonlocal moved
        if float(seconds) < _SHORT_SECONDS:
            really_sleep(seconds)
        else:
            moved += float(seconds)

    time.sleep = sleep
    time.time = lambda: clocks["time"]() + moved
    time.monotonic = lambda: clocks["monotonic"]() + moved
    time.time_ns = lambda: clocks["time_ns"]() + int(moved * 1e9)
    time.monotonic_ns = lambda: clocks["monotonic_ns"]() + int(moved * 1e9)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
