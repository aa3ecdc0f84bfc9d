"""A path below a host root is found where the kernel finds it after ``chroot``."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyferry._core.host_root import on_host, use_host_root
from support.parts import root
from support.plugins import exit_code_in_fork

NAMES = ["a", "b", "c", "etc"]
WORDS = st.sampled_from([*NAMES, *NAMES, "..", "."])
PATHS = st.builds(
    lambda slash, words, end: slash + "/".join(words) + end,
    st.sampled_from(["/", "/", "", "//"]),
    st.lists(WORDS, min_size=1, max_size=6),
    st.sampled_from(["", "", "/"]),
)


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """Folders, files and links, each with its path and its target."""
    kinds = st.sampled_from(["folder", "folder", "file", "link", "link", "link"])
    return draw(st.lists(st.tuples(kinds, PATHS, PATHS), max_size=12))


@root
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(trees(), st.lists(PATHS, min_size=1, max_size=8), st.booleans())
def test_it_is_where_the_kernel_finds_it(
    tree: list[tuple[str, str, str]], paths: list[str], follows: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder, "root")
        top.mkdir()
        # What leads out finds this, which has the same names.
        for name in NAMES:
            Path(folder, name).write_text("outside")
        told = Path(folder, "told").open("w+", encoding="utf-8")  # noqa: SIM115 - the child writes to it
        with told:

            def look() -> None:
                os.chroot(top)
                os.chdir("/")
                for kind, path, target in tree:
                    make(kind, path, target)
                json.dump([identity(f"/{path}", follows=follows) for path in paths], told)
                told.flush()

            assert exit_code_in_fork(look) == 0
            told.seek(0)
            expected = json.load(told)
        with use_host_root(str(top)):
            assert [found(path, follows=follows) for path in paths] == expected


def make(kind: str, path: str, target: str) -> None:
    try:
        if kind == "folder":
            os.makedirs(path)
        elif kind == "file":
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        else:
            os.symlink(target, path)
    except OSError:
        pass  # its place is taken, or is none


def identity(path: str, *, follows: bool) -> int:
    """Return the number of the file at *path*, 0 if there is none."""
    try:
        return os.stat(path, follow_symlinks=follows).st_ino
    except OSError:
        return 0


def found(path: str, *, follows: bool) -> int:
    # A slash at the end follows a link, and wants a folder.
    try:
        return identity(on_host(path, follows=follows), follows=False)
    except OSError:
        return 0
