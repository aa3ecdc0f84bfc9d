"""The normal request in other environments: variables, directories, no network, several at once."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from functools import cache

from keyferry._core.values import replace
from keyferry.kit.lab.experiments import Experiment, Family

__all__ = ["SIMULTANEOUS_RUNS", "isolation", "simultaneous_runs", "variations"]

SIMULTANEOUS_RUNS = 8
_NO_HOME = "/dev/null/no-home"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def variations(good: Experiment) -> Iterator[Experiment]:
    """Yield the normal request in other environments."""
    good = replace(good, is_sampled=False, family=Family.OTHER)
    yield replace(good, name="bare environment", is_bare=True)
    yield replace(good, name="no home", unset=("HOME",))
    yield replace(good, name="home that is no folder", env=(*good.env, ("HOME", _NO_HOME)))
    for name, locale in (("locale C", "C"), ("locale Latin-1", "en_US.ISO-8859-1")):
        variables = (("LC_ALL", locale), ("LANG", locale))
        yield replace(good, name=name, env=(*good.env, *variables), family=Family.LOCALE)
    yield replace(good, name="working directory /", cwd="/")
    yield replace(good, name="no reader", has_reader=False)
    proxy = f"http://127.0.0.1:{_closed_port()}"
    proxies = ((name, proxy) for name in _PROXIES)
    yield replace(
        good,
        name="no network",
        env=(*good.env, *proxies),
        unset=("NO_PROXY", "no_proxy"),
        prefix=isolation(),
        is_patient=True,
    )


def simultaneous_runs(good: Experiment) -> tuple[Experiment, ...]:
    """Return copies of the normal request, to be run at once."""
    return tuple(
        replace(good, name=f"at once {number}", is_sampled=False, family=Family.SIMULTANEOUS)
        for number in range(1, SIMULTANEOUS_RUNS + 1)
    )


@cache
def isolation() -> tuple[str, ...]:
    """Return the words that run a program in a network of its own without connections; none if that is not possible."""
    program = shutil.which("unshare")
    for flags in ("-rn", "-n") if program else ():
        words = (program or "", flags)
        done = subprocess.run([*words, "true"], capture_output=True, check=False)
        if done.returncode == 0:
            return words
    return ()


def _closed_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
