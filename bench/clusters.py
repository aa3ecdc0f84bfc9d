"""Clusters: from the start of a process to the first authenticated answer, and what a warm request costs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.measure import CONSOLE_SCRIPT, SOURCES, Row, best, median, seconds_of, skipped, take_turns
from bench.plugins import compile_program

_TOKEN = "bench-token"
_ROUNDS = 12
_WARM_ROUNDS = 15
_WARM_REQUESTS = 100
_BARS = {"keyferry kube raw": 6.0, "keyferry with httpx": 12.0}
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: bench
clusters: [{{name: bench, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: {ca}}}}}]
contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]
users:
- name: bench
  user:
    exec: {{apiVersion: client.authentication.k8s.io/v1, command: {plugin}, interactiveMode: Never}}
"""
_WITH_HTTPX = (
    "import keyferry; s = keyferry.load_cluster(); assert s.httpx_client().get('/version').status_code == 200"
)
_OFFICIAL = "from kubernetes import client, config; config.load_kube_config(); client.VersionApi().get_code()"


def run(folder: str) -> list[Row]:
    """Both, against one server."""
    plugin = os.path.join(folder, "instant_exec")
    if not compile_program("instant_exec", plugin):
        return [skipped("first authenticated answer of a cluster", "skipped: no C compiler")]
    with _serve(folder) as (port, ca):
        path = os.path.join(folder, "kubeconfig")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(_KUBECONFIG.format(port=port, ca=ca, plugin=plugin))
        return [*_first_answers(path), *_warm_requests(path, port, ca)]


@contextmanager
def _serve(folder: str) -> Iterator[tuple[int, str]]:
    certificate, key = _make_certificate(folder)
    command = [
        sys.executable,
        os.path.join(os.path.dirname(__file__), "api_server.py"),
        certificate,
        key,
        _TOKEN,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline()), certificate
        finally:
            server.terminate()


def _first_answers(kubeconfig: str) -> list[Row]:
    kubectl = shutil.which("kubectl") or ""
    commands = {
        "keyferry kube raw": (*CONSOLE_SCRIPT, "kube", "raw", "/version"),
        "keyferry with httpx": (sys.executable, "-c", _WITH_HTTPX),
        "official kubernetes client": (sys.executable, "-c", _OFFICIAL),
        "kubectl get --raw": (kubectl, "get", "--raw", "/version"),
    }
    environment = {**os.environ, "PYTHONPATH": SOURCES, "KUBECONFIG": kubeconfig, "KUBERC": "off"}
    works = {name: _works(command, environment) for name, command in commands.items()}
    start = partial(_milliseconds, environment)
    contestants = {name: partial(start, command) for name, command in commands.items() if works[name]}
    results = take_turns({"bare": partial(start, (sys.executable, "-c", "pass")), **contestants}, _ROUNDS)
    return [
        _first_answer(name, results) if works[name] else skipped(f"first answer, {name}", "not available")
        for name in commands
    ]


def _first_answer(name: str, results: dict[str, list[list[float]]]) -> Row:
    note = f"medians of {_ROUNDS} starts each"
    bare = median(results["bare"])
    return Row(
        f"first answer, {name}", median(results[name]), "ms", bare, "python3 -c pass", _BARS.get(name), note
    )


def _works(command: tuple[str, ...], environment: dict[str, str]) -> bool:
    if not command[0]:
        return False
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def _milliseconds(environment: dict[str, str], command: tuple[str, ...]) -> list[float]:
    quiet = partial(subprocess.run, command, env=environment, capture_output=True, check=True)
    return [seconds_of(quiet) * 1e3]


def _warm_requests(kubeconfig: str, port: int, ca: str) -> list[Row]:
    import ssl

    import httpx

    from keyferry import load_cluster

    url = f"https://127.0.0.1:{port}"
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    context = ssl.create_default_context(cafile=ca)
    with (
        httpx.Client(base_url=url, headers=headers, verify=context) as bare,
        load_cluster(kubeconfig=kubeconfig).httpx_client() as ours,
    ):
        results = take_turns({"bare": partial(_ask, bare), "ours": partial(_ask, ours)}, _WARM_ROUNDS)
    note = f"best of {_WARM_ROUNDS} x {_WARM_REQUESTS} requests"
    measured, against = best(results["ours"]), best(results["bare"])
    return [Row("warm request through httpx", measured, "µs", against, "bare httpx", note=note)]


def _ask(client: "object") -> list[float]:
    get = partial(client.get, "/version")  # type: ignore[attr-defined] # an httpx client

    def requests() -> None:
        for _ in range(_WARM_REQUESTS):
            get().raise_for_status()

    return [seconds_of(requests) / _WARM_REQUESTS * 1e6]
