"""Commands as pip installs them: on files, and with a cluster, beside kubectl and other clients of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.certificate import make_certificate
from bench.measure import Row, run_of, take_turns
from bench.plugins import REGISTRY, compile_program, write_config
from bench.programs import OFFICIAL_CLIENT, find_kubectl, script

TOKEN = "bench-token"
_ROUNDS = 25
_KUBECTL, _BARE = "kubectl", "python -I"
_BARS = {"get, JSON config": 5.5, "get, YAML config": 7.0, "explain": 8.0, "lint": 11.0}
_KUBECTL_BAR, _RAW_BAR, _HTTPX_BAR = 1.5, 1.3, 1.2
_OFFICIAL = "from kubernetes import client, config; config.load_kube_config(); client.VersionApi().get_code()"
_WITH_HTTPX = (
    "import keyferry; s = keyferry.load_cluster(); assert s.httpx_client().get('/version').status_code == 200"
)
# The same job by hand: the token from the plugin, one request, one answer.
_BARE_HTTPX = """
import httpx, json, os, ssl
document = json.load(open(os.environ["KUBECONFIG"]))
cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
out, into = os.pipe()
pid = os.posix_spawn(user["exec"]["command"], [user["exec"]["command"]], os.environ,
                     file_actions=[(os.POSIX_SPAWN_DUP2, into, 1)])
token = json.loads(os.read(out, 65536))["status"]["token"]
os.waitpid(pid, 0)
context = ssl.create_default_context(cafile=cluster["certificate-authority"])
client = httpx.Client(base_url=cluster["server"], headers={"Authorization": f"Bearer {token}"}, verify=context)
assert client.get("/version").status_code == 200
"""


def run(folder: str) -> list[Row]:
    """Return rows for get, explain and lint, for the first answer of a cluster, and for the library with httpx."""
    plugin = os.path.join(folder, "instant")
    exec_plugin = os.path.join(folder, "instant_exec")
    if not (compile_program("instant", plugin) and compile_program("instant_exec", exec_plugin)):
        return [Row(what="commands", why="no C compiler")]
    kubeconfig = os.path.join(folder, "kubeconfig.json")
    with serve_api(folder) as (port, ca):
        with open(kubeconfig, "w", encoding="utf-8") as stream:
            json.dump(make_kubeconfig(f"https://127.0.0.1:{port}", ca, exec_user(exec_plugin)), stream)
        return _rows(folder, kubeconfig)


def _rows(folder: str, kubeconfig: str) -> list[Row]:
    as_json, as_yaml = (
        write_config(os.path.join(folder, f"command.{kind}"), "instant", [REGISTRY])
        for kind in ("json", "yaml")
    )
    environ = {"PATH": os.environ["PATH"], "HOME": folder, "KUBECONFIG": kubeconfig, "KUBERC": "off"}
    keyferry, python, image = script("keyferry"), script("python"), f"{REGISTRY}/team/app:v1"
    commands = {
        _BARE: (python, "-I", "-c", "pass"),
        "get, JSON config": (keyferry, "get", image, "--config", as_json, "--bin-dir", folder),
        "get, YAML config": (keyferry, "get", image, "--config", as_yaml, "--bin-dir", folder),
        "explain": (keyferry, "explain", image, "--config", as_yaml, "--bin-dir", folder),
        "lint": (keyferry, "lint", as_yaml, "--bin-dir", folder),
        _KUBECTL: (find_kubectl(), "get", "--raw", "/version"),
        "kube raw": (keyferry, "kube", "raw", "/version"),
        "official client": (OFFICIAL_CLIENT, "-c", _OFFICIAL),
        "keyferry with httpx": (python, "-c", _WITH_HTTPX),
        "bare httpx": (python, "-c", _BARE_HTTPX),
    }
    results = take_turns({name: run_of(command, environ) for name, command in commands.items()}, _ROUNDS)
    rows = []
    for name, bar in _BARS.items():
        rows.append(results.row(f"keyferry {name}", name, _BARE, most_times=bar))
        if name != "lint":
            rows.append(results.row(f"keyferry {name}", name, _KUBECTL, most_times=_KUBECTL_BAR))
    return [
        *rows,
        results.row("first answer of a cluster, kube raw", "kube raw", _KUBECTL, most_times=_RAW_BAR),
        results.row("first answer of a cluster, kube raw", "kube raw", "official client"),
        results.row(
            "first answer, library with httpx", "keyferry with httpx", "bare httpx", most_times=_HTTPX_BAR
        ),
    ]


def exec_user(plugin: str) -> dict[str, object]:
    """Return the user of a kubeconfig who gets a credential from *plugin*."""
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never"}
    return {"exec": exec_}


def make_kubeconfig(server: str, ca: str, user: dict[str, object]) -> dict[str, object]:
    """Return a kubeconfig for a server whose certificate the file *ca* signs."""
    cluster = {"server": server, "certificate-authority": ca}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "users": [{"name": "bench", "user": user}],
    }


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
