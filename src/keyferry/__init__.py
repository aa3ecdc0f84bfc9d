"""Kubernetes exec credential plugins: a client that runs them, and an SDK to write them.

Importing this package loads no other module: each public name is imported on first use.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = [
    "AllowlistEntry",
    "Answer",
    "Attempt",
    "AttemptResult",
    "BackOff",
    "ClusterAuthError",
    "ClusterSession",
    "ConfigError",
    "ContainerRuntimeError",
    "Credential",
    "Decision",
    "DecisionRule",
    "Detail",
    "DocumentError",
    "DurationError",
    "EnvironmentProblem",
    "ExecInfo",
    "Failure",
    "Fault",
    "HttpError",
    "ImageName",
    "ImageNameError",
    "ImagePullError",
    "KeyferryError",
    "Kind",
    "KubeconfigError",
    "KubeletReason",
    "MatchError",
    "Node",
    "NodeAudienceError",
    "Platform",
    "PluginError",
    "PluginExitError",
    "PluginNotFoundError",
    "PluginOutputError",
    "PluginPolicy",
    "PluginProtocolError",
    "PluginStartError",
    "PluginTimeoutError",
    "Pod",
    "PodCredentials",
    "PolicyError",
    "Problem",
    "Progress",
    "ProvideError",
    "Providers",
    "PullAction",
    "PullOptions",
    "PullOutcome",
    "PullSecret",
    "PullSecretError",
    "PullSettings",
    "PullTarget",
    "Puller",
    "Reason",
    "ReasonStage",
    "RecordError",
    "Records",
    "RegistryError",
    "RegistryRoute",
    "ServiceAccount",
    "ServiceAccountError",
    "ServiceAccounts",
    "Source",
    "SourceKind",
    "StaticAccount",
    "StoredImage",
    "TimeError",
    "TokenRequest",
    "UnusableCertificateError",
    "VerificationPolicy",
    "check_registry",
    "check_registry_async",
    "cluster_metrics_collector",
    "load_cluster",
    "load_exec_info",
    "load_providers",
    "load_records",
    "metrics_collector",
    "open_target",
    "parse_image",
    "pull",
    "pull_async",
    "pull_metrics_collector",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import api as api
    from . import errors as errors
    from . import sdk as sdk
    from ._core.reasons import Reason as Reason
    from ._core.reasons import ReasonStage as ReasonStage
    from .clusters.exec_info import ExecInfo as ExecInfo
    from .clusters.exec_info import load_exec_info as load_exec_info
    from .clusters.load import load_cluster as load_cluster
    from .clusters.session import ClusterSession as ClusterSession
    from .errors import ClusterAuthError as ClusterAuthError
    from .errors import ConfigError as ConfigError
    from .errors import ContainerRuntimeError as ContainerRuntimeError
    from .errors import Detail as Detail
    from .errors import DocumentError as DocumentError
    from .errors import DurationError as DurationError
    from .errors import EnvironmentProblem as EnvironmentProblem
    from .errors import Fault as Fault
    from .errors import HttpError as HttpError
    from .errors import ImageNameError as ImageNameError
    from .errors import ImagePullError as ImagePullError
    from .errors import KeyferryError as KeyferryError
    from .errors import Kind as Kind
    from .errors import KubeconfigError as KubeconfigError
    from .errors import KubeletReason as KubeletReason
    from .errors import MatchError as MatchError
    from .errors import NodeAudienceError as NodeAudienceError
    from .errors import PluginError as PluginError
    from .errors import PluginExitError as PluginExitError
    from .errors import PluginNotFoundError as PluginNotFoundError
    from .errors import PluginOutputError as PluginOutputError
    from .errors import PluginProtocolError as PluginProtocolError
    from .errors import PluginStartError as PluginStartError
    from .errors import PluginTimeoutError as PluginTimeoutError
    from .errors import PolicyError as PolicyError
    from .errors import Problem as Problem
    from .errors import ProvideError as ProvideError
    from .errors import PullSecretError as PullSecretError
    from .errors import RecordError as RecordError
    from .errors import RegistryError as RegistryError
    from .errors import ServiceAccountError as ServiceAccountError
    from .errors import TimeError as TimeError
    from .errors import UnusableCertificateError as UnusableCertificateError
    from .images.answer import Answer as Answer
    from .images.answer import Failure as Failure
    from .images.dockerconfig import PullSecret as PullSecret
    from .images.keyring import Credential as Credential
    from .images.keyring import Source as Source
    from .images.keyring import SourceKind as SourceKind
    from .images.load import load_providers as load_providers
    from .images.lookup import Providers as Providers
    from .images.node.settings import Node as Node
    from .images.provider.accounts import Pod as Pod
    from .images.provider.accounts import ServiceAccount as ServiceAccount
    from .images.provider.accounts import ServiceAccounts as ServiceAccounts
    from .images.provider.accounts import StaticAccount as StaticAccount
    from .images.provider.accounts import TokenRequest as TokenRequest
    from .images.reference import ImageName as ImageName
    from .images.reference import parse_image as parse_image
    from .invoke.policy import AllowlistEntry as AllowlistEntry
    from .invoke.policy import PluginPolicy as PluginPolicy
    from .metrics.collectors import cluster_metrics_collector as cluster_metrics_collector
    from .metrics.collectors import metrics_collector as metrics_collector
    from .metrics.collectors import pull_metrics_collector as pull_metrics_collector
    from .pulls.layout.meter import Progress as Progress
    from .pulls.platform import Platform as Platform
    from .pulls.puller.backoff import BackOff as BackOff
    from .pulls.puller.outcome import PullAction as PullAction
    from .pulls.puller.outcome import PullOutcome as PullOutcome
    from .pulls.puller.puller import Puller as Puller
    from .pulls.puller.puller import PullOptions as PullOptions
    from .pulls.puller.puller import PullSettings as PullSettings
    from .pulls.puller.puller import open_target as open_target
    from .pulls.puller.puller import pull as pull
    from .pulls.puller.puller import pull_async as pull_async
    from .pulls.puller.target import PullTarget as PullTarget
    from .pulls.records.decision import Decision as Decision
    from .pulls.records.decision import DecisionRule as DecisionRule
    from .pulls.records.decision import PodCredentials as PodCredentials
    from .pulls.records.load import load_records as load_records
    from .pulls.records.policy import VerificationPolicy as VerificationPolicy
    from .pulls.records.records import Records as Records
    from .pulls.registry.check import check_registry as check_registry
    from .pulls.registry.check import check_registry_async as check_registry_async
    from .pulls.registry.route import RegistryRoute as RegistryRoute
    from .pulls.stored_image import StoredImage as StoredImage
    from .pulls.trial import Attempt as Attempt
    from .pulls.trial import AttemptResult as AttemptResult
else:
    # Public subpackages, available as attributes after "import keyferry".
    _DOORS = ("api", "errors", "sdk")
    _HOMES = {
        "AllowlistEntry": "invoke.policy",
        "Answer": "images.answer",
        "Attempt": "pulls.trial",
        "AttemptResult": "pulls.trial",
        "BackOff": "pulls.puller.backoff",
        "ClusterAuthError": "errors",
        "ClusterSession": "clusters.session",
        "ConfigError": "errors",
        "ContainerRuntimeError": "errors",
        "Credential": "images.keyring",
        "Decision": "pulls.records.decision",
        "DecisionRule": "pulls.records.decision",
        "Detail": "errors",
        "DocumentError": "errors",
        "DurationError": "errors",
        "EnvironmentProblem": "errors",
        "ExecInfo": "clusters.exec_info",
        "Failure": "images.answer",
        "Fault": "errors",
        "HttpError": "errors",
        "ImageName": "images.reference",
        "ImageNameError": "errors",
        "ImagePullError": "errors",
        "KeyferryError": "errors",
        "Kind": "errors",
        "KubeconfigError": "errors",
        "KubeletReason": "errors",
        "MatchError": "errors",
        "NodeAudienceError": "errors",
        "Node": "images.node.settings",
        "Platform": "pulls.platform",
        "PluginError": "errors",
        "PluginExitError": "errors",
        "PluginNotFoundError": "errors",
        "PluginOutputError": "errors",
        "PluginPolicy": "invoke.policy",
        "PluginProtocolError": "errors",
        "PluginStartError": "errors",
        "PluginTimeoutError": "errors",
        "Pod": "images.provider.accounts",
        "PodCredentials": "pulls.records.decision",
        "PolicyError": "errors",
        "Problem": "errors",
        "Progress": "pulls.layout.meter",
        "ProvideError": "errors",
        "Providers": "images.lookup",
        "PullAction": "pulls.puller.outcome",
        "PullOptions": "pulls.puller.puller",
        "PullOutcome": "pulls.puller.outcome",
        "PullSecret": "images.dockerconfig",
        "PullSecretError": "errors",
        "PullSettings": "pulls.puller.puller",
        "PullTarget": "pulls.puller.target",
        "Puller": "pulls.puller.puller",
        "Reason": "_core.reasons",
        "ReasonStage": "_core.reasons",
        "RecordError": "errors",
        "Records": "pulls.records.records",
        "RegistryError": "errors",
        "RegistryRoute": "pulls.registry.route",
        "ServiceAccount": "images.provider.accounts",
        "ServiceAccountError": "errors",
        "ServiceAccounts": "images.provider.accounts",
        "Source": "images.keyring",
        "SourceKind": "images.keyring",
        "StaticAccount": "images.provider.accounts",
        "StoredImage": "pulls.stored_image",
        "TimeError": "errors",
        "TokenRequest": "images.provider.accounts",
        "UnusableCertificateError": "errors",
        "VerificationPolicy": "pulls.records.policy",
        "check_registry": "pulls.registry.check",
        "check_registry_async": "pulls.registry.check",
        "cluster_metrics_collector": "metrics.collectors",
        "load_cluster": "clusters.load",
        "load_exec_info": "clusters.exec_info",
        "load_providers": "images.load",
        "load_records": "pulls.records.load",
        "metrics_collector": "metrics.collectors",
        "open_target": "pulls.puller.puller",
        "parse_image": "images.reference",
        "pull": "pulls.puller.puller",
        "pull_async": "pulls.puller.puller",
        "pull_metrics_collector": "metrics.collectors",
    }

    def __getattr__(name):
        # Not importlib, which would import warnings.
        import sys

        if name not in _HOMES and name not in _DOORS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = f"{__name__}.{_HOMES.get(name, name)}"
        __import__(home)
        return sys.modules[home] if name in _DOORS else getattr(sys.modules[home], name)

    def __dir__():
        return sorted({*globals(), *_HOMES, *_DOORS})
