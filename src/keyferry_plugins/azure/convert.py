"""Rewrite a kubeconfig's Azure users so that they obtain tokens from this plugin.

The file is handled as YAML nodes, so that unchanged parts are written back as they were, except for comments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from keyferry._core.values import Value
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded, write_private
from keyferry.sdk.flags import Flag, Flags, parse_flags
from keyferry_plugins.azure.options import FLAGS as LOGIN_FLAGS
from keyferry_plugins.azure.options import LOGINS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yaml import Node

ABOUT = """\
Rewrite the users of a kubeconfig that have the auth provider 'azure', or run kubelogin, to run this program. The old
file is kept beside it, with the suffix .before-keyferry."""
FLAGS = (
    Flag(
        name="kubeconfig",
        about="the file (default $KUBECONFIG, which must then be one file, or ~/.kube/config)",
    ),
    Flag(name="context", about="only the user of this context"),
    Flag(name="azure-config-dir", about="azurecli: AZURE_CONFIG_DIR for the plugin"),
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
    if flags.text("login") not in LOGINS:
        raise ProvideError(f"login {flags.text('login')[:40]!r} is not one of {', '.join(LOGINS)}")
    path = _find(flags, environ)
    data = read_bounded(path, "the kubeconfig")
    converted, changed = convert_document(data, f"the kubeconfig {path!r}", flags)
    if not changed:
        return f"{path}: no user has the auth provider 'azure' or runs {' or '.join(_PROGRAMS)}; nothing is changed"
    if not write_private(f"{path}.before-keyferry", data) or not write_private(path, converted):
        raise ProvideError(f"{path!r} or its backup copy cannot be written", "nothing is changed")
    note = ""
    withheld = [f"--{name}" for name in _SECRETS if flags.text(name) and not flags.is_on("compat")]
    if withheld:
        note = (
            f"\n{', '.join(withheld)} is not written to the file; set AZURE_CLIENT_SECRET or its like instead"
        )
    return f"{path}: changed {', '.join(changed)}; the old file is {path}.before-keyferry{note}"


def convert_document(data: bytes, where: str, flags: Flags) -> tuple[bytes, list[str]]:
    """Return the kubeconfig in *data* with its Azure users rewritten, and their names.

    Raise ProvideError, which quotes none of it, if it is not a YAML mapping.
    """
    import yaml

    root: Node | None = None
    try:
        root = yaml.compose(data, yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError):
        pass
    if not isinstance(root, yaml.MappingNode):
        raise ProvideError(f"{where} is not a YAML mapping")
    changed = []
    for name, user in _users(root, flags.text("context")):
        entry = _make_entry(name, user, flags)
        if entry is None or user is None:
            continue
        made = yaml.compose(yaml.safe_dump({"exec": entry}, sort_keys=False), yaml.SafeLoader)
        kept = [(key, value) for key, value in user.value if key.value not in ("auth-provider", "exec")]
        user.value = kept + (made.value if made is not None else [])
        changed.append(name)
    if not changed:
        return data, []
    # Without an encoding the result is a str, contrary to the stubs.
    written = str(yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=4096))
    return written.encode(), changed


def _find(flags: Flags, environ: Mapping[str, str]) -> str:
    named = flags.text("kubeconfig") or environ.get("KUBECONFIG", "")
    if os.pathsep in named and not flags.text("kubeconfig"):
        raise ProvideError("KUBECONFIG names several files", "choose the file to rewrite: --kubeconfig FILE")
    # Resolve a symbolic link, which would otherwise be replaced by a file.
    return os.path.realpath(os.path.expanduser(named or "~/.kube/config"))


def _users(root: Node, context: str) -> list[tuple[str, Node | None]]:
    """Return the users by name: all, or those of one context."""
    contexts = _entries(root, "contexts")
    wanted = {_text(entry, "context", "user") for entry in contexts if _text(entry, "name") == context}
    if context and not wanted:
        raise ProvideError(f"the kubeconfig has no context {context!r}")
    found = [(_text(entry, "name"), _get(entry, "user")) for entry in _entries(root, "users")]
    return [(name, user) for name, user in found if not context or name in wanted]


def _make_entry(name: str, user: Node | None, flags: Flags) -> dict[str, object] | None:
    """Return the new exec entry of a user, or None if it is not an Azure user."""
    old = _read_provider(user) if _text(user, "auth-provider", "name") == "azure" else _read_exec(user)
    if old is None:
        return None
    folder = flags.text("azure-config-dir")
    hint = _text(user, "exec", "installHint")
    return {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "kubelogin" if flags.is_on("compat") else "keyferry-aks",
        "args": _args(name, old, flags),
        "env": [{"name": "AZURE_CONFIG_DIR", "value": folder}] if folder else None,
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": False,
        **({"installHint": hint} if hint else {}),
    }


def _read_provider(user: Node | None) -> ExistingEntry:
    config = _get(user, "auth-provider", "config")
    values = {name: _text(config, name) for name in _CARRIED}
    values["server-id"] = _text(config, "apiserver-id")
    return ExistingEntry(values=values, is_legacy=_text(config, "config-mode") in ("", "0"))


def _read_exec(user: Node | None) -> ExistingEntry | None:
    command = _text(user, "exec", "command")
    if not any(program in command for program in _PROGRAMS):
        return None
    args = [str(node.value) for node in _entries(_get(user, "exec"), "args")]
    try:
        given = parse_flags(LOGIN_FLAGS, args)
    except ProvideError as error:
        problem = error.message
    else:
        values = {name: given.text(name) for name in (*_CARRIED, "server-id") if name in given.given}
        return ExistingEntry(values=values, is_legacy=given.is_on("legacy"))
    raise ProvideError(f"an exec entry that runs {command!r} has args that cannot be read: {problem}")


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


def _get(node: Node | None, *names: str) -> Node | None:
    """Return the node under a path of keys, or None."""
    import yaml

    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == name), None)
    return node


def _text(node: Node | None, *names: str) -> str:
    """Return the text of the scalar under a path of keys, as written, or an empty string."""
    import yaml

    found = _get(node, *names)
    is_text = isinstance(found, yaml.ScalarNode) and not found.tag.endswith(":null")
    return str(found.value) if found is not None and is_text else ""


def _entries(node: Node | None, name: str) -> Iterator[Node]:
    """Yield the items of the list under a key."""
    import yaml

    found = _get(node, name)
    if isinstance(found, yaml.SequenceNode):
        yield from found.value
