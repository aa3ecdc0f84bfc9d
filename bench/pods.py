"""``keyferry explain -A`` of clusters with up to 150,000 pods, beside kubectl, which lists the same pods.

``can-pull -A`` reads the largest cluster too; its registry is never reached.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from bench.clusters import TOKEN, make_kubeconfig, serve_api
from bench.measure import Contestant, Results, Row, take_turns
from bench.programs import find_kubectl, script

_ROUNDS = 3
_BESIDE_KUBECTL, _LARGEST = (1_000, 10_000), 150_000
_CHECK = f"can-pull -A, {_LARGEST:,} pods"
_TIME_BAR, _GROWTH_BAR = 1.0, 1.5
# Of few pods, the memory is that of Python alone.
_MEMORY_BARS = {10_000: 0.1}
# The exit codes of keyferry for pods that wait, and for what it cannot tell.
_FOUND = (1, 6)
# In the unit that the operating system counts in.
_BYTES_OF_A_UNIT = 1 if sys.platform == "darwin" else 1024


def run(folder: str) -> list[Row]:
    """Return rows for the time and the peak of the memory."""
    peaks: dict[str, list[float]] = {}
    with serve_api(folder) as (port, ca):
        contestants: dict[str, Contestant] = {}
        for count in (*_BESIDE_KUBECTL, _LARGEST):
            environ = _environ(folder, f"https://127.0.0.1:{port}/clusters/{count}", ca)
            for name, command in (
                (_ours(count), (script("keyferry"), "explain", "-A")),
                (_kubectls(count), (find_kubectl(), "get", "pods", "-A", "-o", "json")),
            ):
                contestants[name] = _job(peaks.setdefault(name, []), command, environ)
        largest = contestants.pop(_ours(_LARGEST))
        # kubectl would want some 25 GB for that.
        del contestants[_kubectls(_LARGEST)]
        check = _job(peaks.setdefault(_CHECK, []), (script("keyferry"), "can-pull", "-A"), environ)
        results = take_turns(contestants, _ROUNDS)
        figures = {**results.figures, _ours(_LARGEST): largest(), _CHECK: check()}
        results = Results(figures, results.failures)
    return _rows(results, Results(peaks, results.failures))


def _rows(times: Results, peaks: Results) -> list[Row]:
    rows = []
    for count in _BESIDE_KUBECTL:
        what, names = f"explain -A, {count:,} pods", (_ours(count), _kubectls(count))
        rows.append(times.row(what, *names, unit="s", most_times=_TIME_BAR))
        rows.append(peaks.row(f"{what}, peak memory", *names, unit="MB", most_times=_MEMORY_BARS.get(count)))
    what, names = f"explain -A, {_LARGEST:,} pods", (_ours(_LARGEST), _ours(_BESIDE_KUBECTL[-1]))
    rows.append(times.row(what, names[0], unit="s"))
    rows.append(peaks.row(f"{what}, peak memory", *names, unit="MB", most_times=_GROWTH_BAR))
    rows.append(times.row(_CHECK, _CHECK, unit="s"))
    rows.append(peaks.row(f"{_CHECK}, peak memory", _CHECK, unit="MB"))
    return rows


def _ours(count: int) -> str:
    return f"{count:,} pods"


def _kubectls(count: int) -> str:
    return f"kubectl get pods -A -o json, {count:,}"


def _environ(folder: str, server: str, ca: str) -> dict[str, str]:
    path = os.path.join(folder, f"{server.rpartition('/')[2]}.json")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(make_kubeconfig(server, ca, {"token": TOKEN}), stream)
    no_registry = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    return {"PATH": os.environ["PATH"], "HOME": folder, "KUBECONFIG": path, "KUBERC": "off", **no_registry}


def _job(peaks: list[float], command: Sequence[str], environ: Mapping[str, str]) -> Contestant:
    """Return a contestant that runs a command; its figures are seconds, and *peaks* gets megabytes."""

    def job() -> list[float]:
        before = time.perf_counter()
        process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - before
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, *_FOUND):
            raise subprocess.CalledProcessError(process.returncode, command)
        peaks.append(usage.ru_maxrss * _BYTES_OF_A_UNIT / 1e6)
        return [seconds]

    return job
