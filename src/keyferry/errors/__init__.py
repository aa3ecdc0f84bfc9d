"""The exceptions that keyferry raises; each is imported on first use.

The text of an error is for people; programs use its type and its ``kind``. ``kubernetes_text`` is
the message that the kubelet or client-go logs for the same failure, so that people can search for
it. It may quote everything that Kubernetes quotes, including a plugin's standard error, so it is
never printed or logged by default.
"""

from __future__ import annotations

__all__ = [
    "ClusterAuthError",
    "ConfigError",
    "ContainerRuntimeError",
    "Detail",
    "DocumentError",
    "DurationError",
    "EnvironmentProblem",
    "Fault",
    "HttpError",
    "ImageNameError",
    "ImagePullError",
    "KeyferryError",
    "Kind",
    "KubeconfigError",
    "KubeletReason",
    "MatchError",
    "NodeAudienceError",
    "PluginError",
    "PluginExitError",
    "PluginNotFoundError",
    "PluginOutputError",
    "PluginProtocolError",
    "PluginStartError",
    "PluginTimeoutError",
    "PolicyError",
    "Problem",
    "ProvideError",
    "PullSecretError",
    "RecordError",
    "RegistryError",
    "ServiceAccountError",
    "TimeError",
    "UnusableCertificateError",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cluster import ClusterAuthError as ClusterAuthError
    from .document import ConfigError as ConfigError
    from .document import Detail as Detail
    from .document import KubeconfigError as KubeconfigError
    from .document import Problem as Problem
    from .kinds import KeyferryError as KeyferryError
    from .kinds import Kind as Kind
    from .local import EnvironmentProblem as EnvironmentProblem
    from .local import ImageNameError as ImageNameError
    from .local import MatchError as MatchError
    from .local import NodeAudienceError as NodeAudienceError
    from .local import PolicyError as PolicyError
    from .local import PullSecretError as PullSecretError
    from .local import RecordError as RecordError
    from .local import ServiceAccountError as ServiceAccountError
    from .plugin import Fault as Fault
    from .plugin import PluginError as PluginError
    from .plugin import PluginExitError as PluginExitError
    from .plugin import PluginNotFoundError as PluginNotFoundError
    from .plugin import PluginOutputError as PluginOutputError
    from .plugin import PluginProtocolError as PluginProtocolError
    from .plugin import PluginStartError as PluginStartError
    from .plugin import PluginTimeoutError as PluginTimeoutError
    from .plugin import UnusableCertificateError as UnusableCertificateError
    from .provide import HttpError as HttpError
    from .provide import ProvideError as ProvideError
    from .registry import ContainerRuntimeError as ContainerRuntimeError
    from .registry import ImagePullError as ImagePullError
    from .registry import KubeletReason as KubeletReason
    from .registry import RegistryError as RegistryError
    from .syntax import DocumentError as DocumentError
    from .syntax import DurationError as DurationError
    from .syntax import TimeError as TimeError
else:
    _HOMES = {
        "ClusterAuthError": "cluster",
        "ConfigError": "document",
        "KubeconfigError": "document",
        "ContainerRuntimeError": "registry",
        "Detail": "document",
        "DocumentError": "syntax",
        "DurationError": "syntax",
        "EnvironmentProblem": "local",
        "Fault": "plugin",
        "HttpError": "provide",
        "ImageNameError": "local",
        "ImagePullError": "registry",
        "KeyferryError": "kinds",
        "Kind": "kinds",
        "KubeletReason": "registry",
        "MatchError": "local",
        "NodeAudienceError": "local",
        "PluginError": "plugin",
        "PluginExitError": "plugin",
        "PluginNotFoundError": "plugin",
        "PluginOutputError": "plugin",
        "PluginProtocolError": "plugin",
        "PluginStartError": "plugin",
        "PluginTimeoutError": "plugin",
        "PolicyError": "local",
        "Problem": "document",
        "ProvideError": "provide",
        "PullSecretError": "local",
        "RecordError": "local",
        "RegistryError": "registry",
        "ServiceAccountError": "local",
        "TimeError": "syntax",
        "UnusableCertificateError": "plugin",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Not importlib.import_module: a plugin would import importlib for this call alone.
        home = __import__(f"{__name__}.{_HOMES[name]}", fromlist=(name,))
        found = globals()[name] = getattr(home, name)
        return found

    def __dir__():
        return sorted({*globals(), *_HOMES})
