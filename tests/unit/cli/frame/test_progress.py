"""Progress, on a terminal and elsewhere."""

import io

import pytest

from keyferry.cli.frame.progress import ProgressBar, size_text
from keyferry.pulls.layout.blobs import Progress


class Terminal(io.StringIO):
    """Something that says it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_a_terminal_gets_a_bar_that_leaves_no_trace() -> None:
    stream = Terminal()
    with ProgressBar("app:v1", stream) as bar:
        bar(Progress(0, 1000))
        bar(Progress(1000, 1000))
    lines = stream.getvalue().split("\r")
    assert lines[1] == "app:v1 [..............................]   0 % of 1000 B"
    assert lines[2].rstrip() == "app:v1 [##############################] 100 % of 1000 B"
    assert lines[3].strip() == lines[4] == ""


def test_elsewhere_a_few_plain_lines_are_all() -> None:
    stream = io.StringIO()
    with ProgressBar("app:v1", stream) as bar:
        for done in range(5001):
            bar(Progress(done, 5000))
    shown = stream.getvalue().splitlines()
    assert [line.split()[1] for line in shown] == ["0", "25", "50", "75", "100"]
    assert shown[0] == "app:v1: 0 % of 4.9 KiB"


def test_an_image_without_bytes_is_done() -> None:
    stream = io.StringIO()
    with ProgressBar("empty", stream) as bar:
        bar(Progress(0, 0))
    assert stream.getvalue() == "empty: 100 % of 0 B\n"


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 B"), (2048, "2.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert size_text(size) == text
