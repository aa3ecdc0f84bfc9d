"""The cloud config of a node, ``azure.json``: JSON or simple YAML, with keys in any letter case."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import loads
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_BYTES = 1 << 18
_TRUE, _FALSE = ("true", "yes", "on", "y"), ("false", "no", "off", "n", "")


class Config(Value):
    """The settings that the plugin reads from the config; empty if the file does not set them."""

    cloud: str = ""
    tenant_id: str = ""
    resource_manager_endpoint: str = ""
    use_managed_identity: bool = False
    user_assigned_identity: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    certificate_path: str = ""
    certificate_password: str = field(default="", repr=False)
    use_federated_identity: bool = False
    federated_token_file: str = ""
    user_agent: str = ""
    use_backoff: bool = False
    backoff_seconds: float = 0.0
    backoff_retries: int = 0


_TEXTS = {
    "cloud": "cloud",
    "tenant_id": "tenantId",
    "resource_manager_endpoint": "resourceManagerEndpoint",
    "user_assigned_identity": "userAssignedIdentityID",
    "client_id": "aadClientId",
    "client_secret": "aadClientSecret",
    "certificate_path": "aadClientCertPath",
    "certificate_password": "aadClientCertPassword",
    "federated_token_file": "aadFederatedTokenFile",
    "user_agent": "userAgent",
}
_SWITCHES = {
    "use_managed_identity": "useManagedIdentityExtension",
    "use_federated_identity": "useFederatedWorkloadIdentityExtension",
    "use_backoff": "cloudProviderBackoff",
}


def load_config(path: str) -> Config:
    """Read the cloud config; an empty file is an empty config."""
    return parse_config(read_bounded(path, "the cloud config", MAX_BYTES), f"the cloud config {path!r}")


def parse_config(data: bytes, where: str) -> Config:
    """Parse the config in *data*; raise ProvideError, which quotes no value, if it is invalid."""
    fields = {key.lower(): (key, value) for key, value in _read(data, where).items()}
    found: dict[str, Any] = {name: _text(fields, key, where) for name, key in _TEXTS.items()}
    found |= {name: _switch(fields, key, where) for name, key in _SWITCHES.items()}
    return Config(
        **found,
        backoff_seconds=_number(fields, "cloudProviderBackoffDuration", where),
        backoff_retries=int(_number(fields, "cloudProviderBackoffRetries", where)),
    )


def _read(data: bytes, where: str) -> Mapping[str, object]:
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        return {}
    document = _read_json(data) if data.lstrip()[:1] == b"{" else _read_yaml(data)
    # Raised outside the handler: a parser's exception may contain the file, and with it a secret.
    if not isinstance(document, dict):
        raise ProvideError(
            f"{where} is neither a JSON object nor a YAML mapping",
            "the kubelet config's args name the file, on most nodes /etc/kubernetes/azure.json",
        )
    return document


def _read_json(data: bytes) -> object:
    try:
        return loads(data)
    except DocumentError:
        # A flow mapping of YAML also begins with a brace.
        return _read_yaml(data)


def _read_yaml(data: bytes) -> object:
    """Return the top-level scalars of a YAML mapping; nested nodes, aliases and tags are not constructed."""
    import yaml

    try:
        root = yaml.compose(data, yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError):
        return None
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        return None
    pairs = [(key, value) for key, value in root.value if isinstance(key, yaml.ScalarNode)]
    return {
        key.value: _scalar(value.tag, value.value) if isinstance(value, yaml.ScalarNode) else ()
        for key, value in pairs
    }


def _scalar(tag: str, text: str) -> object:
    kind = tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in _TRUE
    if kind not in ("int", "float"):
        return text
    # A number keeps its spelling where a string is expected: an ID may be all digits.
    try:
        return _Figure(amount=float(text.replace("_", "")), text=text)
    except ValueError:
        return text


class _Figure(Value):
    """A YAML number and its spelling."""

    amount: float
    text: str


def _text(fields: Mapping[str, tuple[str, object]], key: str, where: str) -> str:
    _, value = fields.get(key.lower(), (key, None))
    if value is None:
        return ""
    if isinstance(value, _Figure):
        return value.text
    if not isinstance(value, str):
        raise ProvideError(f"{where}: {key} is {_kind(value)}, expected a text")
    return value


def _switch(fields: Mapping[str, tuple[str, object]], key: str, where: str) -> bool:
    _, value = fields.get(key.lower(), (key, None))
    if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    if value is None or isinstance(value, bool):
        return value is True
    raise ProvideError(f"{where}: {key} is {_kind(value)}, expected true or false")


def _number(fields: Mapping[str, tuple[str, object]], key: str, where: str) -> float:
    _, value = fields.get(key.lower(), (key, None))
    amount = value.amount if isinstance(value, _Figure) else value
    if amount is None:
        return 0.0
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < 1e6:  # days
        raise ProvideError(f"{where}: {key} is {_kind(value)}, expected a number that is not negative")
    return float(amount)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float | _Figure):
        return "a number"
    return "a text" if isinstance(value, str) else "an object or a list"
