"""The same run where there is no ``posix_spawn``, such as on Windows: slower, with threads on the pipes."""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from threading import Thread
from typing import IO

from keyferry.invoke.process import Ending, Limits, Outcome

_CHUNK = 65536
_DEATH_SECONDS = 0.3


def run_portable(
    argv: tuple[str, ...], stdin: bytes, environ: Mapping[bytes, bytes], limits: Limits
) -> Outcome:
    """Run ``argv[0]`` with *stdin*; every limit holds as in ``run``. Raises OSError or ValueError."""
    if os.name == "nt" and argv[0].lower().endswith((".bat", ".cmd")):
        # A batch file would have its arguments read again by a shell.
        raise OSError(errno.ENOEXEC, "exec format error")
    started = time.monotonic()
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()},
        start_new_session=os.name != "nt",
    ) as process:
        streams = _Streams(process, stdin, limits)
        ending = streams.wait(started + limits.timeout_seconds)
        if ending is not Ending.EXITED:
            _kill_tree(process)
        streams.abandon()
    return Outcome(ending, process.returncode, streams.stdout(), streams.stderr(), time.monotonic() - started)


class _Streams:
    """The three pipes of one run, each with a thread of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", stdin: bytes, limits: Limits) -> None:
        self._process = process
        self._limits = limits
        self._out = bytearray()
        self._err = bytearray()
        self._stopped: Ending | None = None
        self._threads = [
            Thread(target=self._feed, args=(process.stdin, stdin), daemon=True),
            Thread(target=self._read_out, args=(process.stdout,), daemon=True),
            Thread(target=self._read_err, args=(process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, deadline: float) -> Ending:
        """How the run ends: by itself, at a limit, or at the deadline."""
        for thread in self._threads[1:]:
            while thread.is_alive() and self._stopped is None:
                thread.join(min(0.05, max(0.0, deadline - time.monotonic())))
                if time.monotonic() >= deadline:
                    return Ending.TIMED_OUT
        if self._stopped is not None:
            return self._stopped
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return Ending.TIMED_OUT
        return Ending.EXITED

    def abandon(self) -> None:
        """Give the threads a moment; one that another program's hold keeps waiting is left behind."""
        for thread in self._threads:
            thread.join(_DEATH_SECONDS)

    def stdout(self) -> bytes:
        """What was written to standard output."""
        return bytes(self._out)

    def stderr(self) -> bytes:
        """The end of what was written to standard error."""
        return bytes(self._err[-self._limits.stderr_bytes :])

    def _feed(self, pipe: IO[bytes], stdin: bytes) -> None:
        try:
            pipe.write(stdin)
            pipe.close()
        except OSError:
            pass  # the program closed its input early

    def _read_out(self, pipe: IO[bytes]) -> None:
        while chunk := os.read(pipe.fileno(), _CHUNK):
            if len(self._out) + len(chunk) > self._limits.stdout_bytes:
                self._stopped = Ending.STDOUT_LIMIT
                return
            self._out += chunk

    def _read_err(self, pipe: IO[bytes]) -> None:
        seen = 0
        while chunk := os.read(pipe.fileno(), _CHUNK):
            seen += len(chunk)
            self._err = (self._err + chunk)[-self._limits.stderr_bytes :]
            if seen > self._limits.stderr_drained_bytes:
                self._stopped = Ending.STDERR_LIMIT
                return


def _kill_tree(process: "subprocess.Popen[bytes]") -> None:
    """Kill the program and what it started."""
    if os.name == "nt":
        killer = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
        subprocess.run([killer, "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False)
    else:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.kill()
