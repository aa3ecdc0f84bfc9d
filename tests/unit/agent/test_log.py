"""What the agent logs of errors: a line with their class and place, no text of theirs, and not often."""

import asyncio
import errno
import io
import json
import resource

import pytest

from keyferry.agent.log import AgentLog, loop_error_logger, place_of
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
