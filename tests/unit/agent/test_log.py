"""What the agent logs of errors: a line with their class and place, no text of theirs, and not often."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import resource
import time

import pytest

from keyferry.agent.log import AgentLog, LogLevel, loop_error_logger, place_of, take_asyncio_log
from keyferry.agent.lookups import read_question
from keyferry.images.reference import parse_image


def logged(*contexts: dict[str, object]) -> list[str]:
    stream = io.StringIO()
    write = loop_error_logger(AgentLog(stream=stream))
    loop = asyncio.new_event_loop()
    try:
        for context in contexts:
            write(loop, context)
    finally:
        loop.close()
    return [line.partition(" ")[2] for line in stream.getvalue().splitlines()]


def raised(error: Exception) -> dict[str, object]:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - whatever is given
        return {"message": "made-up-secret", "exception": caught}


@pytest.mark.parametrize("is_json", [False, True])
def test_what_others_have_named_moves_no_cursor_and_forges_no_line(*, is_json: bool) -> None:
    stream = io.StringIO()
    name = "a\x1b[2Jb\rc\nd\u202ee\x9bf"
    AgentLog(is_json=is_json, stream=stream).write(LogLevel.INFO, f"ready {name}", socket=name, path=[name])
    [line] = stream.getvalue().splitlines()
    assert line.isprintable()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the log sees; its one item can be changed."""
    held = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: held[0])
    return held


def test_of_many_events_in_a_second_the_first_and_the_last_are_written(now: list[float]) -> None:
    """With the number of those between; other events are not held back."""
    stream = io.StringIO()
    log = AgentLog(stream=stream)

    def lines() -> list[str]:
        return [line.partition(" ")[2] for line in stream.getvalue().splitlines()]

    for number in range(5):
        log.write_seldom(LogLevel.WARNING, "a", "a failed", number=number)
    log.write_seldom(LogLevel.WARNING, "b", "b failed")
    log.sweep()
    assert lines() == ["warning a failed number=0", "warning b failed"]
    now[0] += 1
    log.sweep()
    assert lines()[2:] == ["warning a failed number=4 left_out=3"]
    log.write_seldom(LogLevel.WARNING, "a", "a failed", number=5)
    now[0] += 1
    log.write_seldom(LogLevel.WARNING, "a", "a failed", number=6)
    assert lines()[3:] == ["warning a failed number=6 left_out=1"]
    log.write_seldom(LogLevel.WARNING, "a", "a failed", number=7)
    log.sweep(is_last=True)
    log.sweep(is_last=True)
    assert lines()[4:] == ["warning a failed number=7"]


def test_what_asyncio_logs_is_in_this_log_and_format() -> None:
    """Without its values, and not once for every write."""
    stream, logger = io.StringIO(), logging.getLogger("asyncio")
    before = logger.handlers, logger.propagate
    try:
        take_asyncio_log(AgentLog(is_json=True, stream=stream))
        for _ in range(1000):
            logger.warning("%s raised exception", "secret-word")
        logger.info("nothing of interest")
    finally:
        logger.handlers, logger.propagate = before
    [event] = map(json.loads, stream.getvalue().splitlines())
    assert (event["level"], event["event"], event["message"]) == (
        *("warning", "asyncio"),
        "%s raised exception",
    )
    assert event["place"].startswith("test_log.py:")


def test_descriptors_that_run_out_are_one_line_with_the_limit() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    lines = logged(*[raised(OSError(errno.EMFILE, "Too many open files"))] * 50)
    assert lines == [
        f"warning no descriptor is free: the limit of this process is reached; clients wait limit={limit}"
    ]


def test_descriptors_of_the_machine_that_run_out_are_one_line() -> None:
    lines = logged(raised(OSError(errno.ENFILE, "Too many open files in system")))
    assert lines == ["warning no descriptor is free: the limit of this machine is reached; clients wait"]


@pytest.mark.parametrize("error", [ValueError("made-up-secret"), OSError(errno.EIO, "made-up-secret")])
def test_another_error_is_one_line_with_its_class_and_place(error: Exception) -> None:
    (line,) = logged(raised(error), raised(error))
    assert line.startswith(f"error unexpected error error={type(error).__name__} place=test_log.py:")


def test_a_context_without_an_error_is_one_line() -> None:
    assert logged({"message": "made-up-secret"}) == ["error unexpected error"]


def test_the_place_of_an_error_is_the_last_one_in_our_own_code() -> None:
    """Whoever was called from there, and whoever called."""
    try:
        parse_image(5)  # type: ignore[arg-type] # what is to fail
    except Exception as error:  # noqa: BLE001 - any
        name, _, line = place_of(error).partition(":")
        assert name.startswith("images/")
        assert line.isdigit()
    else:
        raise AssertionError


def test_an_error_of_other_code_has_its_file_alone() -> None:
    try:
        json.loads("secret")
    except ValueError as error:
        assert place_of(error).partition(":")[0] == "decoder.py"
    assert place_of(ValueError("never raised")) == ""
    assert read_question(b'{"image": "r.example/app"}').provider == ""
