"""Ctrl-C at every moment of a run: whoever presses it leaves no program behind."""

from __future__ import annotations

import sys

import pytest

from support.plugins import run_script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs sleep from its usual place")

# An interrupt is raised where a function is called or returns, and a profiler is told of exactly these moments.
# So a run is made again and again, each time with the interrupt one moment later, until it ends before it comes.
SWEEP = """
import os, signal, sys, threading, time
from keyferry._core.program.kill import collect_stragglers, left_to_collect

ARGV = ("/bin/sleep", "60")
SECONDS = 0.02
signal.signal(signal.SIGINT, signal.default_int_handler)

def is_look(frame):
    while frame is not None and frame.f_code is not interrupt.__code__:
        if frame.f_code is signal.getsignal.__code__:
            return True
        frame = frame.f_back
    return False

class Moment:
    def __init__(self, number):
        self.left, self.where = number, ""
    def __call__(self, frame, event, arg):
        # The run is over; or one look at a handler is like the other sixty.
        if frame.f_code is interrupt.__code__ or arg is callable or is_look(frame):
            return
        if self.left == 0:
            sys.setprofile(None)
            self.where = f"{event} of {getattr(arg, '__name__', frame.f_code.co_name)}"
            signal.raise_signal(signal.SIGINT)
        self.left -= 1

def interrupt(work, number):
    moment = Moment(number)
    sys.setprofile(moment)
    try:
        work()
        if moment.where:
            print(f"an interrupt at the {moment.where} is lost")
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return moment.where

def leftover():
    while left_to_collect:  # killed, and slow to die on a busy machine: the next run collects it
        collect_stragglers()
        time.sleep(0.01)
    try:
        pid, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return ""
    if pid:
        return "a zombie"
    for child in open(f"/proc/self/task/{os.getpid()}/children").read().split():
        os.kill(int(child), signal.SIGKILL)
        os.waitpid(int(child), 0)
    return "a program that runs"

def sweep(work, most):
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    work()
    for number in range(most):
        where = interrupt(work, number)
        os.closerange(3, 64)  # a pipe may be left half made: with each one, a run could take longer
        # A thread that reads what others write closes its pipe, whose number must not be another's by then.
        patience = time.monotonic() + 10
        while threading.active_count() > 1 and time.monotonic() < patience:
            time.sleep(0.001)
        if not where:
            break
        if left := leftover():
            print(f"{left} is left by an interrupt at the {where}")
        if signal.pthread_sigmask(signal.SIG_BLOCK, ()) != blocked:
            print(f"other signals are blocked after one at the {where}")
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            print(f"the handler of interrupts is left replaced by one at the {where}")
            signal.signal(signal.SIGINT, signal.default_int_handler)
    print(number, "moments")
"""

RUNS = {
    "run": """
from keyferry.invoke.run import Limits, run
def work():
    run(ARGV, stdin=b"x", environ={}, limits=Limits(timeout_seconds=SECONDS))
""",
    "with a signal blocked": """
from keyferry.invoke.run import run
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
def work():
    run(("/bin/true",), stdin=b"x", environ={})
""",
    "that ends at once": """
from keyferry.invoke.run import run
def work():
    run(("/bin/true",), stdin=b"x", environ={})
""",
    "with more input than a pipe takes": """
from keyferry.invoke.run import Limits, run
def work():
    run(ARGV, stdin=b"x" * 100_000, environ={}, limits=Limits(timeout_seconds=SECONDS))
""",
    "attached": """
from keyferry.invoke.run import Limits, Tail, run
def work():
    run(ARGV, stdin=None, environ={}, limits=Limits(timeout_seconds=SECONDS), stderr_tail=Tail())
""",
    "attached, on our own input": """
from keyferry.invoke.run import Limits, run
def work():
    # It is given a moment to end by itself, which this one does.
    run((ARGV[0], "0.005"), environ={}, limits=Limits(timeout_seconds=SECONDS), terminal=(0, 2))
""",
    "the kit's": """
from keyferry.invoke.run import Limits
from keyferry.kit.lab.launch import Launch, launch
def work():
    launch(Launch(argv=ARGV, environ={}, stdin=b"x", limits=Limits(timeout_seconds=SECONDS)))
""",
    "the SDK's": """
from keyferry.errors import ProvideError
from keyferry.sdk import Deadline
from keyferry.sdk.process import run_program
def work():
    try:
        run_program(ARGV, deadline=Deadline(SECONDS))
    except ProvideError:
        pass
""",
}
# What follows in the kit's is a long look through /proc.
MAX_MOMENTS = 600


@pytest.mark.parametrize("work", RUNS.values(), ids=RUNS)
def test_no_moment_of_an_interrupt_leaves_a_program(work: str) -> None:
    """The program is dead and collected whenever the interrupt comes, and interrupts are handled as before."""
    done = run_script(f"{SWEEP}{work}\nsweep(work, {MAX_MOMENTS})")
    assert (done.returncode, done.stderr) == (0, "")
    *complaints, count = done.stdout.splitlines()
    assert complaints == [], count
    # Moments are lines of Python.
    assert int(count.split()[0]) > 1
