"""A real systemd as process 1 of namespaces of its own, with units of a folder and none of this machine's."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import keyferry
from support.parts import lacking, need
from support.plugins import write_executable

__all__ = ["KEYFERRY", "PLACE", "interpreter", "run_under_systemd"]

# Where the units and their programs find the test's folder and keyferry, whoever may enter the folders above these.
PLACE = Path("/run/place")
KEYFERRY = PLACE / "keyferry"
_SYSTEMD = "/lib/systemd/systemd"
# Units that ours are ordered by; each does nothing.
_TARGETS = ("basic", "multi-user", "network-online", "shutdown", "sockets", "sysinit")
_SCRIPT = """\
[Service]
Type=oneshot
ExecStart=/bin/sh -eu {place}/script
StandardOutput=file:{place}/out
StandardError=file:{place}/err
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
"""
_APART = (
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--uts",
    "--ipc",
    "--net",
    "--cgroup",
    "sh",
    "-euc",
)
# systemd sets the kernel's limits and the machine's id, unless these are read-only.
_GROUPS = """\
mount --make-rprivate /
mount -t proc proc /proc
for place in /proc/sys /etc; do mount --bind $place $place; mount -o remount,bind,ro $place; done
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
"""
_BOOT = """\
mount -t tmpfs tmpfs /run
mkdir /run/systemd
{mounts}
for place in /tmp /var/tmp; do mount -t tmpfs tmpfs $place; done
exec env -i PATH="$PATH" container=test SYSTEMD_UNIT_PATH={units} SYSTEMD_LOG_TARGET=console \\
    {systemd} --system --unit=script.service
"""


def run_under_systemd(
    folder: Path, script: str, timeout_seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a shell script as a service of a systemd that has the units in *folder*/units; all ends with the script."""
    need("systemctl")
    for name in _TARGETS:
        (folder / "units" / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    (folder / "units" / "script.service").write_text(_SCRIPT.format(place=PLACE))
    (folder / "script").write_text(script)
    folder.chmod(0o755)
    _write_program(folder / "keyferry")
    sources = {PLACE: folder, **_python()}
    mounts = "\n".join(
        f"mkdir {to}; mount --bind {shlex.quote(str(source))} {to}" for to, source in sources.items()
    )
    boot = _BOOT.format(mounts=mounts, units=PLACE / "units", systemd=_SYSTEMD)
    with _group() as join:
        if subprocess.run([*join, *_APART, _GROUPS], capture_output=True, check=False).returncode != 0:
            lacking("systemd")
        ended = subprocess.run(
            [*join, *_APART, _GROUPS + boot],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
    texts = [path.read_text() if path.exists() else "" for path in (folder / "out", folder / "err")]
    return subprocess.CompletedProcess(script, ended.returncode, texts[0], texts[1] + ended.stderr)


def interpreter() -> Path:
    """Return where that systemd's services find the interpreter."""
    prefix = Path(sys.base_prefix).resolve()
    return "/run/python" / Path(sys.executable).resolve().relative_to(prefix)


def _python() -> dict[Path, Path]:
    """Return where the interpreter and its packages are mounted, and where they are."""
    # What is tested may be installed apart from the packages that it needs.
    packages = [
        Path(keyferry.__file__).parents[1],
        *(Path(each) for each in sys.path if "site-packages" in each),
    ]
    return {
        Path("/run/python"): Path(sys.base_prefix),
        **{Path(f"/run/packages-{number}"): each for number, each in enumerate(dict.fromkeys(packages))},
    }


def _write_program(path: Path) -> None:
    places = ":".join(str(each) for each in _python() if each.name.startswith("packages-"))
    write_executable(path, f'#!/bin/sh\nPYTHONPATH={places} exec {interpreter()} -m keyferry "$@"\n')


@contextlib.contextmanager
def _group() -> Iterator[list[str]]:
    """Make a control group; yield a command that runs another one in it."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    top = next((Path(place) for _, place, kind, *_ in mounts if kind == "cgroup2"), None)
    group = None if top is None else top / f"keyferry-{os.getpid()}-{time.monotonic_ns()}"
    try:
        if group is None:
            lacking("systemd")
        group.mkdir()
    except OSError:
        lacking("systemd")
    try:
        yield ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group)]
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """Remove a control group whose processes end."""
    until = time.monotonic() + 60
    while group.exists():
        with contextlib.suppress(OSError):
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)
        assert time.monotonic() < until, f"{group} is still in use"
        time.sleep(0.05)
