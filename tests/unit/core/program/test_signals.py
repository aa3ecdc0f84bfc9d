"""Signals that are held back while a program is started."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from keyferry._core.program.signals import HeldSignals
from support.plugins import exit_code_in_fork

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals to itself")

USUAL, OTHER = signal.SIGUSR1, signal.SIGUSR2


@pytest.fixture
def came() -> Iterator[list[int]]:
    """What handlers of two signals were told, in order; the first of them raises."""
    told: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        told.append(number)

    def note_and_raise(number: int, _: FrameType | None) -> None:
        told.append(number)
        raise InterruptedError

    before = signal.signal(USUAL, note_and_raise), signal.signal(OTHER, note)
    yield told
    signal.signal(USUAL, before[0])
    signal.signal(OTHER, before[1])


def test_a_handler_runs_at_the_end(came: list[int]) -> None:
    """What comes meanwhile is neither handled at once nor lost."""
    handlers = signal.getsignal(USUAL), signal.getsignal(OTHER)
    with HeldSignals():
        signal.raise_signal(OTHER)
        assert came == []
    assert came == [OTHER]
    assert (signal.getsignal(USUAL), signal.getsignal(OTHER)) == handlers


def test_a_handler_raises_at_the_end(came: list[int]) -> None:
    """And keeps no other from being run, nor from being put back."""
    handlers = signal.getsignal(USUAL), signal.getsignal(OTHER)
    done = []

    def raise_both() -> None:
        with HeldSignals():
            signal.raise_signal(USUAL)
            signal.raise_signal(OTHER)
            done.append("all of it")

    with pytest.raises(InterruptedError):
        raise_both()
    assert done == ["all of it"]
    assert came == [USUAL, OTHER]
    assert (signal.getsignal(USUAL), signal.getsignal(OTHER)) == handlers


def test_what_ends_the_block_comes_out(came: list[int]) -> None:
    """An error inside puts handlers back as well."""
    with pytest.raises(KeyError), HeldSignals():
        raise KeyError
    signal.raise_signal(OTHER)
    assert came == [OTHER]


def test_in_another_thread_there_is_nothing_to_hold_back(came: list[int]) -> None:
    """Handlers run in the main thread, which is not held up."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with HeldSignals():
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(20)
    signal.raise_signal(OTHER)
    assert came == [OTHER]
    leave.set()
    thread.join()


def test_in_a_forked_child_nothing_is_held_back(came: list[int]) -> None:
    """Another thread may fork while the main thread starts a program, and its child must not be deaf for ever."""

    def work() -> None:
        signal.raise_signal(OTHER)
        assert came == [OTHER]

    with HeldSignals():
        assert exit_code_in_fork(work) == 0
    assert came == []
