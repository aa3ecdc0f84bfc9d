"""Use keyferry as installed with one extra alone, in a way that needs the extra; run by that environment's Python.

usage: probe.py EXTRA
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import keyferry

TOKEN = "probe"  # noqa: S105 - made up
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [registry.example]
  defaultCacheDuration: 1m
"""
PLUGIN = """\
#!/bin/sh
echo '{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
  "cacheKeyType": "Registry", "auth": {"registry.example": {"username": "u", "password": "p"}}}'
"""
NEW_CERTIFICATE = (
    "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
    "-subj", "/CN=probe", "-addext", "subjectAltName=IP:127.0.0.1",
)  # fmt: skip


class ApiServer(BaseHTTPRequestHandler):
    """A server whose version is what the client authenticated with."""

    def do_GET(self) -> None:
        """Answer as /version does."""
        names = (
            "major",
            "minor",
            "gitCommit",
            "gitTreeState",
            "buildDate",
            "goVersion",
            "compiler",
            "platform",
        )
        version = dict.fromkeys(names, "x") | {"gitVersion": self.headers["Authorization"]}
        body = json.dumps(version).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def cluster(folder: Path) -> Any:
    """Return a session with a server that is made up."""
    certificate, key = str(folder / "server.pem"), str(folder / "server.key")
    subprocess.run([*NEW_CERTIFICATE, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = {"name": "c"}
    target = {"server": f"https://127.0.0.1:{server.server_port}", "certificate-authority": certificate}
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [name | {"cluster": target}],
        "users": [name | {"user": {"token": TOKEN}}],
        "contexts": [name | {"context": {"cluster": "c", "user": "c"}}],
    }  # fmt: skip
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    os.environ["KUBECONFIG"] = str(path)
    return keyferry.load_cluster("c")


def providers(folder: Path) -> tuple[str, str]:
    """Return a provider config and the folder of its plugin."""
    config, plugin = folder / "providers.yaml", folder / "bin" / "plugin"
    config.write_text(CONFIG)
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    return str(config), str(plugin.parent)


def probe_httpx(folder: Path) -> object:
    """Reach a cluster by httpx."""
    with cluster(folder).httpx_client() as client:
        return client.get("/version").json()["gitVersion"]


def probe_requests(folder: Path) -> object:
    """Reach a cluster by requests."""
    import requests

    session = cluster(folder)
    with session.mount_requests(requests.Session()) as client:
        return client.get(f"{session.server}/version").json()["gitVersion"]


def probe_aiohttp(folder: Path) -> object:
    """Reach a cluster by aiohttp."""

    async def ask() -> object:
        async with cluster(folder).aiohttp_session() as client, client.get("/version") as answer:
            return (await answer.json())["gitVersion"]

    return asyncio.run(ask())


def probe_kubernetes(folder: Path) -> object:
    """Reach a cluster by the official client."""
    from kubernetes.client import VersionApi

    return VersionApi(cluster(folder).kubernetes_api_client()).get_code().git_version


def probe_metrics(folder: Path) -> object:
    """Show a lookup in the collectors."""
    from prometheus_client import CollectorRegistry, generate_latest

    found = keyferry.load_providers(*providers(folder))
    found.lookup("registry.example/app")
    registry = CollectorRegistry()
    registry.register(keyferry.metrics_collector(found))
    lines = generate_latest(registry).decode().splitlines()
    return 'keyferry_plugin_runs_total{plugin_name="plugin"} 1.0' in lines and f"Bearer {TOKEN}"


def probe_cri(folder: Path) -> object:
    """Ask a container runtime for its version."""
    import grpc

    from keyferry.pulls.cri import RUNTIME_SERVICE, connect_runtime, message

    def version(_request: bytes, _context: object) -> bytes:
        answer: bytes = message("VersionResponse")(runtime_name=f"Bearer {TOKEN}").SerializeToString()
        return answer

    server = grpc.server(ThreadPoolExecutor(1))
    handlers = {"Version": grpc.unary_unary_rpc_method_handler(version)}
    service = RUNTIME_SERVICE.strip("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_insecure_port(f"unix:{folder / 'cri.sock'}")
    server.start()
    with connect_runtime(str(folder / "cri.sock")) as runtime:
        found = runtime.version().name
    server.stop(None)
    return found


def probe_crypto(_folder: Path) -> object:
    """Sign a token, verify it, and refuse it by another key."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    from keyferry_plugins.signing.jose import sign_jwt, verify_jwt

    key, other = (generate_private_key(65537, 2048) for _ in range(2))
    token = sign_jwt({}, {"sub": f"Bearer {TOKEN}"}, key)
    public, wrong = (
        json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(each.public_key())) for each in (key, other)
    )
    try:
        verify_jwt(token, [wrong], ["RS256"])
    except Exception:  # noqa: BLE001 - any refusal will do
        return verify_jwt(token, [public], ["RS256"])["sub"]
    return "confirmed by another key"


def probe_agent(folder: Path) -> object:
    """Run the agent with its page, ask it for a credential and for its figures."""
    config, bin_dir = providers(folder)
    folder.chmod(0o700)
    socket = folder / "agent.sock"
    program = [sys.executable, "-I", "-m", "keyferry", "agent"]
    options = ["--socket", str(socket), "--config", config, "--bin-dir", bin_dir, "--page", "127.0.0.1:0"]
    with subprocess.Popen([*program, "run", *options], stderr=subprocess.PIPE, text=True) as agent:
        try:
            for _ in range(200):
                if socket.exists() or agent.poll() is not None:
                    break
                time.sleep(0.05)
            done = subprocess.run(
                [*program, "status", "--socket", str(socket), "-o", "json"],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            agent.send_signal(signal.SIGTERM)
            _, log = agent.communicate(timeout=30)
    names = [each["name"] for each in json.loads(done.stdout or "{}").get("providers", [])]
    return f"Bearer {TOKEN}" if names == ["plugin"] and agent.returncode == 0 else log + done.stderr


def main() -> int:
    """Run the probe of the extra that is given."""
    with tempfile.TemporaryDirectory() as folder:
        found = globals()[f"probe_{sys.argv[1]}"](Path(folder))
    if found != f"Bearer {TOKEN}":
        print(found)
    return int(found != f"Bearer {TOKEN}")


if __name__ == "__main__":
    sys.exit(main())
