"""Rewrite a kubeconfig's Azure users so that they obtain tokens from this plugin."""

from __future__ import annotations

import os

from keyferry._core.values import Value
from keyferry.sdk import ProvideError
from keyferry.sdk.flags import Flag
from keyferry_plugins.azure.options import FLAGS as LOGIN_FLAGS
from keyferry_plugins.azure.options import LOGINS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yaml import MappingNode, Node

    from keyferry.sdk.flags import Flags

__all__ = ["ABOUT", "FLAGS", "convert_kubeconfig"]

ABOUT = """\
Rewrite the users of a kubeconfig that have the auth provider 'azure', or run kubelogin, to run this program. The old
file is kept beside it, with the suffix .before-keyferry."""
FLAGS = (
    Flag("kubeconfig", "the file (default $KUBECONFIG, which must then be one file, or ~/.kube/config)"),
    Flag("context", "only the user of this context"),
    Flag("azure-config-dir", "azurecli: AZURE_CONFIG_DIR for the plugin"),
    *LOGIN_FLAGS,
)
_PROGRAMS = ("kubelogin", "keyferry-aks")
_SECRETS = ("client-secret", "client-certificate-password", "password")
_CARRIED = ("client-id", "tenant-id", "environment")
# The flags of each login besides the server; those in the first column are also kept from the old entry.
_BY_LOGIN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "devicecode": (_CARRIED, ("cache-dir",)),
    "interactive": (_CARRIED, ("cache-dir", "redirect-url", "login-hint")),
    "spn": (_CARRIED, ("client-certificate", "client-certificate-password", "client-secret")),
    "ropc": (_CARRIED, ("username", "password", "cache-dir")),
    "msi": ((), ("client-id", "identity-resource-id")),
    "azurecli": ((), ("tenant-id", "subscription")),
    "azd": ((), ("tenant-id",)),
    "workloadidentity": ((), ("client-id", "tenant-id", "authority-host", "federated-token-file")),
    "azurepipelines": (("tenant-id",), ("client-id", "azure-pipelines-service-connection-id")),
}
_NEEDED = {
    **dict.fromkeys(("devicecode", "interactive", "spn", "ropc"), ("client-id", "tenant-id")),
    "azurepipelines": ("tenant-id",),
}
_POP = ("spn", "ropc", "interactive")


class ExistingEntry(Value):
    """The present values of an entry by flag name, and whether it is an auth provider with the old audience."""

    values: Mapping[str, str]
    is_legacy: bool = False


def convert_kubeconfig(flags: Flags, environ: Mapping[str, str]) -> str:
    """Rewrite the file, keep a copy of the old one beside it, and return a summary."""
    from keyferry.sdk.files import read_bounded, write_private
    from keyferry_plugins.azure.kubeconfig_nodes import parse, serialize

    if flags.text("login") not in LOGINS:
        raise ProvideError(f"login {flags.text('login')[:40]!r} is not one of {', '.join(LOGINS)}")
    path = _find(flags, environ)
    data = read_bounded(path, "the kubeconfig")
    root = parse(data, f"the kubeconfig {path!r}")
    changed = [name for name, user in _users(root, flags.text("context")) if _convert(name, user, flags)]
    if not changed:
        return f"{path}: no user has the auth provider 'azure' or runs {' or '.join(_PROGRAMS)}; nothing is changed"
    if not write_private(f"{path}.before-keyferry", data) or not write_private(path, serialize(root)):
        raise ProvideError(f"{path!r} or its backup copy cannot be written", "nothing is changed")
    note = ""
    withheld = [f"--{name}" for name in _SECRETS if flags.text(name) and not flags.is_on("compat")]
    if withheld:
        note = (
            f"\n{', '.join(withheld)} is not written to the file; set AZURE_CLIENT_SECRET or its like instead"
        )
    return f"{path}: changed {', '.join(changed)}; the old file is {path}.before-keyferry{note}"


def _find(flags: Flags, environ: Mapping[str, str]) -> str:
    named = flags.text("kubeconfig") or environ.get("KUBECONFIG", "")
    if os.pathsep in named and not flags.text("kubeconfig"):
        raise ProvideError("KUBECONFIG names several files", "choose the file to rewrite: --kubeconfig FILE")
    # Resolve a symbolic link, which would otherwise be replaced by a file.
    return os.path.realpath(os.path.expanduser(named or "~/.kube/config"))


def _users(root: MappingNode, context: str) -> list[tuple[str, MappingNode]]:
    import yaml

    from keyferry_plugins.azure.kubeconfig_nodes import entries, get, text

    wanted = {
        text(entry, "context", "user")
        for entry in entries(root, "contexts")
        if text(entry, "name") == context
    }
    if context and not wanted:
        raise ProvideError(f"the kubeconfig has no context {context!r}")
    found = [(text(entry, "name"), get(entry, "user")) for entry in entries(root, "users")]
    return [
        (name, user)
        for name, user in found
        if isinstance(user, yaml.MappingNode) and (not context or name in wanted)
    ]  # fmt: skip


def _convert(name: str, user: MappingNode, flags: Flags) -> bool:
    """Rewrite one user; return False if it is not an Azure user."""
    from keyferry_plugins.azure.kubeconfig_nodes import get, put, remove, text

    old = _read_provider(user) if text(user, "auth-provider", "name") == "azure" else _read_exec(user)
    if old is None:
        return False
    program = "kubelogin" if flags.is_on("compat") else "keyferry-aks"
    entry: dict[str, object] = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": program,
        "args": _args(name, old, flags),
        "env": _variables(flags),
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": False,
    }
    hint = text(get(user, "exec"), "installHint")
    if hint:
        entry["installHint"] = hint
    remove(user, "auth-provider")
    put(user, "exec", entry)
    return True


def _read_provider(user: Node) -> ExistingEntry:
    from keyferry_plugins.azure.kubeconfig_nodes import get, text

    config = get(user, "auth-provider", "config")
    values = {name: text(config, name) for name in _CARRIED}
    values["server-id"] = text(config, "apiserver-id")
    return ExistingEntry(values, text(config, "config-mode") in ("", "0"))


def _read_exec(user: Node) -> ExistingEntry | None:
    from keyferry.sdk.flags import parse_flags
    from keyferry_plugins.azure.kubeconfig_nodes import entries, get, text

    command = get(user, "exec")
    if not any(program in text(command, "command") for program in _PROGRAMS):
        return None
    args = [str(node.value) for node in entries(command, "args")]
    try:
        given = parse_flags(LOGIN_FLAGS, args)
    except ProvideError as error:
        problem = error.message
    else:
        values = {name: given.text(name) for name in (*_CARRIED, "server-id") if name in given.given}
        return ExistingEntry(values, given.is_on("legacy"))
    raise ProvideError(
        f"an exec entry that runs {text(command, 'command')!r} has args that cannot be read: {problem}"
    )


def _args(name: str, old: ExistingEntry, flags: Flags) -> list[str]:
    login = flags.text("login")
    carried, taken = _BY_LOGIN[login]
    values = {flag: _given(flags, flag) or old.values.get(flag, "") for flag in ("server-id", *carried)}
    values |= {flag: _given(flags, flag) for flag in taken}
    for flag in ("server-id", *_NEEDED.get(login, ())):
        if not values.get(flag):
            raise ProvideError(
                f"user {name!r}: login {login} needs --{flag}, which the old entry does not set", "give it"
            )
    args = ["get-token", "--login", login]
    for flag, value in values.items():
        if value and (flag not in _SECRETS or flags.is_on("compat")):
            args += [f"--{flag}", value]
    if flags.is_on("legacy") or old.is_legacy:
        args.append("--legacy")
    if flags.is_on("pop-enabled") and login in _POP:
        args += ["--pop-enabled", "--pop-claims", flags.text("pop-claims")]
    return args


def _given(flags: Flags, name: str) -> str:
    return flags.text(name) if name in flags.given else ""


def _variables(flags: Flags) -> Sequence[Mapping[str, str]] | None:
    folder = flags.text("azure-config-dir")
    return [{"name": "AZURE_CONFIG_DIR", "value": folder}] if folder else None
