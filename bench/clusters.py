"""Clusters: the time from a process start to its first authenticated response, and the cost of a warm request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from bench.certificate import make_certificate
from bench.measure import CONSOLE_SCRIPT, SOURCES, Row, best, median, seconds_of, skipped, take_turns
from bench.peers import OFFICIAL_CLIENT, find_kubectl
from bench.plugins import compile_program

TOKEN = "bench-token"
_ROUNDS = 12
_WARM_ROUNDS = 15
_WARM_REQUESTS = 100
_BARS = {"keyferry kube raw, JSON kubeconfig": 5.2, "keyferry kube raw, YAML kubeconfig": 6.5}
_HTTPX_BAR = 1.2
_WITH_HTTPX = (
    "import keyferry; s = keyferry.load_cluster(); assert s.httpx_client().get('/version').status_code == 200"
)
_OFFICIAL = "from kubernetes import client, config; config.load_kube_config(); client.VersionApi().get_code()"
# The same job by hand, with nothing but what it needs: the token from the plugin, one request, one answer.
_READ_JSON = "import json, os; document = json.load(open(os.environ['KUBECONFIG']))\n"
_READ_YAML = "import os, yaml; document = yaml.load(open(os.environ['KUBECONFIG']), yaml.CSafeLoader)\n"
_ASK_PLUGIN = """
import json
cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
out, into = os.pipe()
pid = os.posix_spawn(user["exec"]["command"], [user["exec"]["command"]], os.environ,
                     file_actions=[(os.POSIX_SPAWN_DUP2, into, 1)])
token = json.loads(os.read(out, 65536))["status"]["token"]
os.waitpid(pid, 0)
"""
_WITH_SSL = """
import socket, ssl
host, port = cluster["server"].removeprefix("https://").split(":")
context = ssl.create_default_context(cafile=cluster["certificate-authority"])
with context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host) as stream:
    stream.sendall(f"GET /version HTTP/1.1\\r\\nHost: {host}\\r\\nAuthorization: Bearer {token}\\r\\n\\r\\n".encode())
    assert stream.recv(65536).startswith(b"HTTP/1.1 200")
"""
_BARE_HTTPX = """
import httpx, ssl
context = ssl.create_default_context(cafile=cluster["certificate-authority"])
client = httpx.Client(base_url=cluster["server"], headers={"Authorization": f"Bearer {token}"}, verify=context)
assert client.get("/version").status_code == 200
"""


def run(folder: str) -> list[Row]:
    """Return the rows for both, measured against one server."""
    plugin = os.path.join(folder, "instant_exec")
    if not compile_program("instant_exec", plugin):
        return [skipped("first authenticated answer of a cluster", "skipped: no C compiler")]
    with serve_api(folder) as (port, ca):
        document = make_kubeconfig(port, ca, plugin)
        paths = {kind: os.path.join(folder, f"kubeconfig.{kind}") for kind in ("json", "yaml")}
        for kind, path in paths.items():
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(json.dumps(document) if kind == "json" else _as_yaml(document))
        return [*_first_answers(paths), *_warm_requests(paths["yaml"], port, ca)]


def make_kubeconfig(port: int, ca: str, plugin: str) -> dict[str, object]:
    """Return a kubeconfig whose user runs *plugin*."""
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never"}
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": ca}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "users": [{"name": "bench", "user": {"exec": exec_}}],
    }


def _as_yaml(document: dict[str, object]) -> str:
    import yaml

    return str(yaml.safe_dump(document))


@contextmanager
def serve_api(folder: str) -> Iterator[tuple[int, str]]:
    """Run a server for the length of a block; yield its port and the file of its authority."""
    certificate, key = make_certificate(folder)
    command = [
        sys.executable,
        os.path.join(os.path.dirname(__file__), "api_server.py"),
        certificate,
        key,
        TOKEN,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline()), certificate
        finally:
            server.terminate()


def _first_answers(paths: dict[str, str]) -> list[Row]:
    raw = (*CONSOLE_SCRIPT, "kube", "raw", "/version")
    python = (sys.executable, "-c")
    jobs: dict[str, _Job] = {
        "keyferry kube raw, JSON kubeconfig": _Job(raw, paths["json"]),
        "keyferry kube raw, YAML kubeconfig": _Job(raw, paths["yaml"]),
        "smallest script with ssl, JSON kubeconfig": _Job(
            (*python, _READ_JSON + _ASK_PLUGIN + _WITH_SSL), paths["json"]
        ),
        "smallest script with ssl, YAML kubeconfig": _Job(
            (*python, _READ_YAML + _ASK_PLUGIN + _WITH_SSL), paths["yaml"]
        ),
        "keyferry with httpx": _Job((*python, _WITH_HTTPX), paths["json"]),
        "bare httpx": _Job((*python, _READ_JSON + _ASK_PLUGIN + _BARE_HTTPX), paths["json"]),
        "official kubernetes client": _Job((OFFICIAL_CLIENT, "-c", _OFFICIAL), paths["yaml"]),
        "kubectl get --raw": _Job((find_kubectl(), "get", "--raw", "/version"), paths["yaml"]),
    }
    failures = {name: _failure(job) for name, job in jobs.items()}
    contestants = {name: partial(_milliseconds, job) for name, job in jobs.items() if not failures[name]}
    bare = partial(_milliseconds, _Job((*python, "pass"), paths["json"]))
    results = take_turns({"bare": bare, **contestants}, _ROUNDS)
    rows = [
        skipped(f"first answer, {name}", failures[name]) if failures[name] else _first_answer(name, results)
        for name in jobs
    ]
    if "bare httpx" in results and "keyferry with httpx" in results:
        ours, theirs = median(results["keyferry with httpx"]), median(results["bare httpx"])
        what = "first answer, keyferry with httpx, beside bare httpx for the same job"
        rows.append(Row(what, ours, "ms", theirs, "bare httpx", _HTTPX_BAR))
    return rows


class _Job(NamedTuple):
    """A command, and the kubeconfig that it reads."""

    command: tuple[str, ...]
    kubeconfig: str

    def run(self) -> None:
        """Run the command; raise an exception if it fails."""
        environment = {**os.environ, "PYTHONPATH": SOURCES, "KUBECONFIG": self.kubeconfig, "KUBERC": "off"}
        subprocess.run(self.command, env=environment, capture_output=True, check=True)


def _first_answer(name: str, results: dict[str, list[list[float]]]) -> Row:
    note = f"medians of {_ROUNDS} starts each"
    bare = median(results["bare"])
    return Row(
        f"first answer, {name}", median(results[name]), "ms", bare, "python3 -c pass", _BARS.get(name), note
    )


def _failure(job: _Job) -> str:
    """Return why a job cannot be measured; empty if it can."""
    try:
        job.run()
    except OSError:
        return "not installed"
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or [""]
        return f"exit status {error.returncode}: {lines[-1][:200]}"
    return ""


def _milliseconds(job: _Job) -> list[float]:
    return [seconds_of(job.run) * 1e3]


def _warm_requests(kubeconfig: str, port: int, ca: str) -> list[Row]:
    import ssl

    import httpx

    from keyferry import load_cluster

    url = f"https://127.0.0.1:{port}"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    context = ssl.create_default_context(cafile=ca)
    with (
        httpx.Client(base_url=url, headers=headers, verify=context) as bare,
        load_cluster(kubeconfig=kubeconfig).httpx_client() as ours,
    ):
        results = take_turns({"bare": partial(_ask, bare), "ours": partial(_ask, ours)}, _WARM_ROUNDS)
    note = f"best of {_WARM_ROUNDS} x {_WARM_REQUESTS} requests"
    measured, against = best(results["ours"]), best(results["bare"])
    return [Row("warm request through httpx", measured, "µs", against, "bare httpx", note=note)]


def _ask(client: object) -> list[float]:
    get = partial(client.get, "/version")  # type: ignore[attr-defined] # an httpx client

    def requests() -> None:
        for _ in range(_WARM_REQUESTS):
            get().raise_for_status()

    return [seconds_of(requests) / _WARM_REQUESTS * 1e6]
