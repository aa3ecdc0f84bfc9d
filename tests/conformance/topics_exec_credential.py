"""The topic exec_credential: what a cluster's plugin is told and answers, who may run, how it fails."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.layout import content_of, lay_out_programs, write_program
from conformance.topics_authenticator import expiry, roundtrip, update_transport
from keyferry._core.json import dumps, loads
from keyferry._core.values import replace
from keyferry.api.clientauthentication.v1 import ClusterInfo, encode_exec_info
from keyferry.api.kubeconfig.v1 import ExecConfig, ExecEnvVar
from keyferry.api.meta import format_instant
from keyferry.clusters.auth.pem import parse_key_pair
from keyferry.clusters.auth.plugin_environment import EXEC_INFO, merge_entries, plugin_entries
from keyferry.clusters.auth.runner import ExecRunner, HintLimiter, is_interactive
from keyferry.clusters.exec_info import ExecInfo, load_exec_info, read_exec_info
from keyferry.errors import KeyferryError, PluginProtocolError
from keyferry.invoke.policy import AllowlistEntry, PluginPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from keyferry.clusters.auth.credential import ClusterCredential

Json = dict[str, object]


class _Record:
    """Every call and decision, in order."""

    def __init__(self) -> None:
        self.calls: list[list[object]] = []
        self.decisions: list[str] = []

    def called(self, code: int, call_status: str) -> None:
        self.calls.append([code, call_status])

    def decided(self, outcome: str) -> None:
        self.decisions.append(outcome)


class _Clock:
    def __init__(self) -> None:
        self.now_ns = 1

    def __call__(self) -> int:
        return self.now_ns


def exec_credential(given: Json) -> Json:
    """Put one case to the code that its op names."""
    return _OPS[str(given["op"])](given)


def _config(given: Json, **defaults: str) -> ExecConfig:
    settings = given.get("exec") or {}
    assert isinstance(settings, dict)
    return ExecConfig(
        command=settings.get("command", defaults.get("command", "")),
        args=tuple(settings["args"]) if settings.get("args") else None,
        env=tuple(ExecEnvVar(name=each["name"], value=each["value"]) for each in settings.get("env") or ()),
        api_version=settings.get("apiVersion", ""),
        install_hint=settings.get("installHint", ""),
        provide_cluster_info=settings.get("provideClusterInfo", False),
        interactive_mode=settings.get("interactiveMode", "Never"),
    )


def _unavailable(given: Json) -> tuple[bool, str]:
    settings = given["exec"]
    assert isinstance(settings, dict)
    return bool(settings.get("stdinUnavailable")), str(settings.get("stdinUnavailableMessage") or "")


def _policy(given: Json) -> PluginPolicy:
    settings = given.get("policy") or {}
    assert isinstance(settings, dict)
    entries = settings.get("allowlist")
    listed = None if entries is None else tuple(AllowlistEntry(command=entry["command"]) for entry in entries)
    return PluginPolicy(policy_type=settings.get("policyType", ""), allowlist=listed)


def _printer(folder: Path, stdout: bytes) -> Path:
    """A plugin that prints *stdout*, and leaves a trace."""
    (folder / "stdout").write_bytes(stdout)
    here = shlex.quote(str(folder))
    return write_program(folder / "plugin", f'#!/bin/sh\necho "$0" >>{here}/ran\nexec cat {here}/stdout\n')


def _get_creds(given: Json) -> Json:
    with tempfile.TemporaryDirectory() as name:
        plugin = _printer(Path(name), content_of(given["stdout"]))
        try:
            runner = ExecRunner(_config(given, command=str(plugin)), recorder=_Record())
        except KeyferryError as error:
            return {"stage": "config", "error": error.kubernetes_text}
        try:
            return _shown(runner.credential())
        except KeyferryError as error:
            return {"stage": "credentials"} | _refused(error)


def _refused(error: KeyferryError) -> Json:
    error_class = error.document_kind if isinstance(error, PluginProtocolError) else "other"
    told: Json = {"error": error.kubernetes_text}
    return told if error_class == "other" else told | {"error_class": error_class}


def _shown(credential: ClusterCredential) -> Json:
    return {
        "error": None,
        "token": credential.token,
        "expiration": None if credential.expires_ns is None else format_instant(credential.expires_ns),
        "cert": _certificate(credential),
    }


def _certificate(credential: ClusterCredential) -> Json | None:
    if not credential.certificate_pem:
        return None
    pair = parse_key_pair(credential.certificate_pem, credential.key_pem)
    return {
        "chain": pair.chain_length,
        "subject": pair.subject,
        "notAfter": format_instant(pair.not_after_ns),
    }


def _cluster(given: Json) -> ClusterInfo | None:
    settings = given.get("cluster")
    if settings is None:
        return None
    assert isinstance(settings, dict)
    return ClusterInfo(
        server=settings.get("server", ""),
        tls_server_name=settings.get("tlsServerName", ""),
        insecure_skip_tls_verify=settings.get("insecureSkipTLSVerify", False),
        certificate_authority_data=base64.b64decode(settings.get("certificateAuthorityData", "")),
        proxy_url=settings.get("proxyURL", ""),
        disable_compression=settings.get("disableCompression", False),
        config=settings.get("config"),
    )


def _exec_info(given: Json) -> Json:
    """What a plugin finds in its environment, and beside it what the encoder alone gives."""
    config = _config(given)
    cluster = _cluster(given)
    try:
        text = encode_exec_info(
            config.api_version,
            cluster if config.provide_cluster_info else None,
            interactive=bool(given["interactive"]),
        )
    except KeyferryError as error:
        return {"error": error.kubernetes_text}
    return {"error": None, EXEC_INFO: text}


def _environment(given: Json) -> Json:
    """What a real program sees; variables without a name, which Python cannot pass, are left out."""
    environ = [b"PATH=/usr/bin:/bin", *(str(entry).encode() for entry in given["environ"])]  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name, "environ")
        config = replace(
            _config(given), command=shutil.which("cp") or "/bin/cp", args=("/proc/self/environ", str(copy))
        )
        runner = ExecRunner(config, environ=lambda: environ, recorder=_Record())
        try:
            runner.credential()
        except PluginProtocolError:
            passed = copy.read_bytes().removesuffix(b"\0").split(b"\0")  # it ran; it prints no response
        except KeyferryError as error:
            return {"error": error.kubernetes_text}
    info = encode_exec_info(config.api_version, None, interactive=False)
    merged = merge_entries(plugin_entries(environ, ((each.name, each.value) for each in config.env), info))
    assert [entry for entry in merged if entry.rpartition(b"=")[0] or b"=" not in entry] == passed
    return {"error": None, "environ_in_order": [entry.decode() for entry in merged]}


def _is_interactive(given: Json) -> Json:
    unavailable, message = _unavailable(given)
    try:
        answer = is_interactive(
            _config(given).interactive_mode,
            terminal=bool(given["terminal"]),
            stdin_unavailable=unavailable,
            message=message,
        )
    except KeyferryError as error:
        return {"error": error.kubernetes_text, "interactive": False}
    return {"error": None, "interactive": answer}


def _interactive_creds(given: Json) -> Json:
    unavailable, message = _unavailable(given)
    with tempfile.TemporaryDirectory() as name, open(os.devnull, "rb") as empty:
        plugin = _printer(Path(name), content_of(given["stdout"]))
        runner = ExecRunner(
            _config(given, command=str(plugin)),
            stdin_unavailable=unavailable,
            stdin_unavailable_message=message,
            terminal=lambda: bool(given["terminal"]),
            stdin_fd=empty.fileno(),
            recorder=_Record(),
        )
        try:
            runner.credential()
            error = None
        except KeyferryError as problem:
            error = problem.kubernetes_text
        return {"error": error, "executed": Path(name, "ran").exists()}


def _run_error(given: Json) -> Json:
    record, clock = _Record(), _Clock()
    errors: list[object] = []
    with tempfile.TemporaryDirectory() as name, _silence() as quiet_fd:
        folder = Path(name)
        if given.get("script") is not None:
            write_program(folder / "plugin", given["script"], given.get("mode"))
        runner = ExecRunner(
            _config(_placed(given, {"$DIR": name})),
            recorder=record,
            hints=HintLimiter(clock=clock),
            stderr_fd=quiet_fd,
        )
        for advance in given.get("calls") or [0]:  # type: ignore[attr-defined] # a list of numbers
            clock.now_ns += advance
            try:
                runner.credential()
                errors.append(None)
            except KeyferryError as error:
                errors.append(error.kubernetes_text)
        answer: Json = {"errors": errors, "call_metrics": record.calls, "policy_metrics": record.decisions}
        return _placed(answer, {name: "$DIR"})


@contextmanager
def _silence() -> Iterator[int]:
    with open(os.devnull, "wb") as sink:
        yield sink.fileno()


def _placed(value: object, names: dict[str, str]) -> Json:
    """Replace the names the vectors use by this machine's paths, or the other way round."""
    text = dumps(value)
    for before, after in names.items():
        text = text.replace(before, after)
    loaded = loads(text)
    assert isinstance(loaded, dict)
    return loaded


def _validate_policy(given: Json) -> Json:
    try:
        _policy(given).validate()
    except KeyferryError as error:
        return {"error": error.kubernetes_text}
    return {"error": None}


def _run_policy(given: Json) -> Json:
    with tempfile.TemporaryDirectory() as name:
        placed = _placed(given, {"$PARENT": str(Path(name).parent), "$DIR": name})
        ran = Path(name, "ran")
        answer = dumps(
            {"apiVersion": _config(given).api_version, "kind": "ExecCredential", "status": {"token": "t"}}
        )
        script = f"#!/bin/sh\necho \"$0\" >{ran}\necho '{answer}'\n"
        lay_out_programs(Path(name), placed.get("files"), script)
        path = os.pathsep.join(str(each) for each in placed.get("path") or ())  # type: ignore[attr-defined]
        cwd = Path(name, str(placed.get("cwd") or ""))
        cwd.mkdir(parents=True, exist_ok=True)
        with _process_state(path, cwd if "cwd" in placed else None):
            answered = _policy_answer(placed, ran)
    return _placed(answered, {name: "$DIR", str(Path(name).parent): "$PARENT"})


def _policy_answer(given: Json, ran: Path) -> Json:
    record = _Record()
    try:
        runner = ExecRunner(_config(given), policy=_policy(given), recorder=record)
    except KeyferryError as error:
        return {"stage": "config", "error": error.kubernetes_text}
    try:
        runner.credential()
    except KeyferryError as error:
        return {
            "stage": "credentials",
            "error": error.kubernetes_text,
            "executed": ran.exists(),
            "policy_metrics": record.decisions,
        }
    return {"error": None, "policy_metrics": record.decisions, "ran": ran.read_text().removesuffix("\n")}


@contextmanager
def _process_state(path: str, folder: Path | None) -> Iterator[None]:
    """PATH and the working directory of this process, which decide what is found."""
    old_path, old_folder = os.environ.get("PATH"), os.getcwd()
    try:
        os.environ["PATH"] = path
        if folder is not None:
            os.chdir(folder)
        yield
    finally:
        os.chdir(old_folder)
        os.environ["PATH"] = old_path or ""


def _load_exec_credential(given: Json) -> Json:
    return _loaded(lambda: read_exec_info(str(given["data"]).encode()))


def _load_from_env(given: Json) -> Json:
    environ = {} if given["env"] is None else {EXEC_INFO: str(given["env"])}
    return _loaded(lambda: load_exec_info(environ))


def _loaded(load: Callable[[], ExecInfo]) -> Json:
    try:
        info = load()
    except KeyferryError as error:
        return {"error": error.kubernetes_text}
    cluster = info.cluster
    answer: Json = {
        "error": None,
        "apiVersion": info.api_version,
        "interactive": info.interactive,
        "rest_config": {
            "host": cluster.server,
            "serverName": cluster.tls_server_name,
            "insecure": cluster.insecure_skip_tls_verify,
            "caData_base64": base64.b64encode(cluster.certificate_authority_data).decode(),
            "proxy": cluster.proxy_url or None,
            "disableCompression": cluster.disable_compression,
        },
    }
    if info.config is not None:
        answer["config_raw"] = info.config
    if info.status is not None:
        answer["status_token"] = info.status.token
    return answer


_OPS: dict[str, Callable[[Json], Json]] = {
    "get_creds": _get_creds,
    "exec_info": _exec_info,
    "environment": _environment,
    "is_interactive": _is_interactive,
    "interactive_creds": _interactive_creds,
    "run_error": _run_error,
    "validate_policy": _validate_policy,
    "policy": _run_policy,
    "load_exec_credential": _load_exec_credential,
    "load_from_env": _load_from_env,
    "expiry": expiry,
    "roundtrip": roundtrip,
    "update_transport": update_transport,
}
