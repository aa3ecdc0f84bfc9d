"""The topic kubeconfig: load, merge, validate and resolve kubeconfigs laid out in a folder."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path
from typing import Any

from conformance.layout import lay_out
from keyferry._core.json import dumps, loads
from keyferry.api.clientauthentication.v1 import ClusterInfo
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, Context, ExecConfig
from keyferry.clusters.kubeconfig.files import LoadedKubeconfig, read_kubeconfigs
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport, clean_install_hint, resolve
from keyferry.clusters.kubeconfig.validate import validate
from keyferry.clusters.options import Overrides
from keyferry.errors import ConfigError

Json = dict[str, object]

_OVERRIDES = {
    "currentContext": "context",
    "tlsServerName": "tls_server_name",
    "insecureSkipTLSVerify": "insecure",
    "certificateAuthority": "certificate_authority",
    "proxyURL": "proxy_url",
    "disableCompression": "disable_compression",
    "clientCertificate": "client_certificate",
    "clientKey": "client_key",
}
# Classes that say what kind of text the error is; of the rest "other" is the recorded one.
_CLASSES = ("wrong-type", "json-syntax", "yaml-syntax", "unknown-type", "missing-apiversion")


def kubeconfig(given: Json) -> Json:
    """Load a kubeconfig and build a client config from it, or clean an install hint."""
    if given["op"] == "clean_hint":
        return {"hint": clean_install_hint(str(given["text"]))}
    with tempfile.TemporaryDirectory() as parent:
        folder = f"{parent}/dir"
        _lay_out(given, folder)
        return _localised(_load(given, folder), folder, parent)


def _lay_out(given: Json, folder: str) -> None:
    os.mkdir(folder)
    lay_out(Path(folder), given.get("files"), {b"$DIR": folder.encode()})


def _load(given: Json, folder: str) -> Json:
    def local(key: str, default: str = "") -> str:
        return str(given.get(key) or default).replace("$DIR", folder)

    environ = {"KUBECONFIG": local("kubeconfig"), "HOME": local("home", "$DIR/home").replace("$DIR", folder)}
    cwd = os.path.join(folder, local("cwd", folder))
    loaded = read_kubeconfigs(local("explicit"), environ=environ, cwd=cwd)
    answer: Json = {"warnings": list(loaded.warnings)} if loaded.warnings else {}
    if loaded.problems:
        text = loaded.kubernetes_text
        failed = next((file.kind for file in loaded.files if file.problems), "other")
        classed = {"load_error_class": failed} if failed in _CLASSES else {}
        return answer | classed | {"load_error": text, "client_config": {"error": text}}
    texts = sorted(problem.kubernetes_text for problem in validate(loaded.config, loaded.files))
    config = _shown_config(loaded)
    return answer | {
        "load_error": None,
        "config": config,
        "validate_errors_sorted": texts,
        "client_config": _client_config(loaded, given, folder),
    }


def _client_config(loaded: LoadedKubeconfig, given: Json, folder: str) -> Json:
    values = given.get("overrides") or {}
    assert isinstance(values, dict)
    local = loads(dumps(values).replace("$DIR", folder))
    assert isinstance(local, dict)
    named: dict[str, Any] = {_OVERRIDES.get(str(key), str(key)): value for key, value in local.items()}
    try:
        config = resolve(loaded, Overrides(**named))
    except ConfigError as error:
        return {"error": error.kubernetes_text}
    shown = {} if config.exec_cluster is None else {"exec_cluster": _cluster_info(config.exec_cluster)}
    return shown | {
        "error": None,
        "host": config.server,
        "bearerToken": config.bearer_token,
        "username": config.username,
        "serverName": config.tls_server_name,
        "insecure": config.insecure,
        "namespace": config.namespace,
        "namespace_overridden": config.namespace_overridden,
        "exec": _exec(config.exec),
        "transport_error": _transport_error(config),
    }


def _transport_error(config: ClientConfig) -> str | None:
    try:
        check_transport(config)
    except ConfigError as error:
        return error.kubernetes_text
    return None


def _shown_config(loaded: LoadedKubeconfig) -> Json:
    config = loaded.config
    return {
        "clusters": {name: _cluster(item) for name, item in config.clusters.items()},
        "users": {name: _user(item) for name, item in config.users.items()},
        "contexts": {name: _context(item) for name, item in config.contexts.items()},
        "current-context": config.current_context,
    }


def _cluster(cluster: Cluster) -> Json:
    return {
        "server": cluster.server,
        "certificateAuthority": cluster.certificate_authority,
        "origin": cluster.origin,
        "extensions": {
            name: "<nil>" if text == "null" else text for name, text in cluster.extensions.items()
        },
    }


def _context(context: Context) -> Json:
    return {"cluster": context.cluster, "user": context.user, "namespace": context.namespace}


def _user(user: AuthInfo) -> Json:
    return {
        "authProvider": user.auth_provider is not None,
        "clientCertificate": user.client_certificate,
        "exec": _exec(user.exec),
        "origin": user.origin,
        "token": user.token,
        "tokenFile": user.token_file,
        "username": user.username,
    }


def _exec(plugin: ExecConfig | None) -> Json | None:
    if plugin is None:
        return None
    return {
        "apiVersion": plugin.api_version,
        "args": None if plugin.args is None else list(plugin.args),
        "command": plugin.command,
        "env": [{"name": item.name, "value": item.value} for item in plugin.env],
        "installHint": plugin.install_hint,
        "interactiveMode": plugin.interactive_mode,
        "provideClusterInfo": plugin.provide_cluster_info,
    }


def _cluster_info(cluster: ClusterInfo) -> Json:
    return {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(cluster.certificate_authority_data).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": cluster.config,
    }


def _localised(answer: Json, folder: str, parent: str) -> Json:
    loaded = loads(dumps(answer).replace(folder, "$DIR").replace(parent, "$PARENT"))
    assert isinstance(loaded, dict)
    return loaded
