"""Kubernetes exec credential plugins: a client that runs them, and an SDK to write them.

Importing this package loads no other module: each public name is imported on first use.
"""

from __future__ import annotations

__version__ = "0.1.0"

# The public names, by the module that has them.
_NAMES = {
    "_core.reasons": ("Reason", "ReasonStage"),
    "clusters.exec_info": ("ExecInfo", "load_exec_info"),
    "clusters.options": ("ClusterOptions",),
    "clusters.profile": ("fetch_cluster_profile", "load_cluster_profile"),
    "clusters.session": ("ClusterSession", "load_cluster"),
    "errors": (
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
    ),
    "explain.cluster.pull_answers": ("CheckedImage", "ClusterPulls", "PullDoubt", "PullGroup"),
    "explain.cluster.pulls": ("check_cluster",),
    "explain.cluster.causes": ("CommonCause", "WaitingPods", "explain_cluster"),
    "explain.evidence": ("Evidence",),
    "explain.explanation": ("Cure", "Explanation", "Outcome", "PullVerdict"),
    "explain.gather": ("ExplainedImage", "ExplainedPod", "explain_image", "explain_pods"),
    "images.answer": ("Answer", "Failure"),
    "images.keyring": ("Credential", "Source", "SourceKind"),
    "images.dockerconfig": ("PullSecret",),
    "images.load": ("load_providers",),
    "images.lookup": ("Providers",),
    "images.node.settings": ("Node",),
    "images.provider.accounts": ("Pod", "ServiceAccount", "ServiceAccounts", "StaticAccount", "TokenRequest"),
    "images.reference": ("ImageName", "parse_image"),
    "invoke.policy": ("AllowlistEntry", "PluginPolicy"),
    "metrics.collectors": ("cluster_metrics_collector", "metrics_collector", "pull_metrics_collector"),
    "pulls.manifest": ("Platform", "StoredImage"),
    "pulls.operation": ("BackOff",),
    "pulls.puller": ("Puller", "open_target", "pull", "pull_async"),
    "pulls.records.decide": ("Decision", "DecisionRule", "PodCredentials"),
    "pulls.records.policy": ("VerificationPolicy",),
    "pulls.records.records": ("Records", "load_records"),
    "pulls.registry.check": ("check_registry", "check_registry_async"),
    "pulls.registry.transport": ("RegistryRoute",),
    "pulls.request": ("Progress", "PullAction", "PullOptions", "PullOutcome", "PullTarget"),
    "pulls.trial": ("Attempt", "AttemptResult"),
    "workloads.inputs": ("Inputs", "resolve_inputs"),
    "workloads.request": ("NodeAccess", "RecordOptions", "RegistryOptions", "Request"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
# Packages that are attributes after "import keyferry".
_PACKAGES = ("api", "errors", "sdk")
__all__ = tuple(sorted(_HOMES))

# The same names for type checkers, which do not run __getattr__; a test compares them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import api as api
    from . import errors as errors
    from . import sdk as sdk
    from ._core.reasons import Reason as Reason
    from ._core.reasons import ReasonStage as ReasonStage
    from .clusters.exec_info import ExecInfo as ExecInfo
    from .clusters.exec_info import load_exec_info as load_exec_info
    from .clusters.options import ClusterOptions as ClusterOptions
    from .clusters.profile import fetch_cluster_profile as fetch_cluster_profile
    from .clusters.profile import load_cluster_profile as load_cluster_profile
    from .clusters.session import ClusterSession as ClusterSession
    from .clusters.session import load_cluster as load_cluster
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
    from .explain.cluster.causes import CommonCause as CommonCause
    from .explain.cluster.causes import WaitingPods as WaitingPods
    from .explain.cluster.causes import explain_cluster as explain_cluster
    from .explain.cluster.pull_answers import CheckedImage as CheckedImage
    from .explain.cluster.pull_answers import ClusterPulls as ClusterPulls
    from .explain.cluster.pull_answers import PullDoubt as PullDoubt
    from .explain.cluster.pull_answers import PullGroup as PullGroup
    from .explain.cluster.pulls import check_cluster as check_cluster
    from .explain.evidence import Evidence as Evidence
    from .explain.explanation import Cure as Cure
    from .explain.explanation import Explanation as Explanation
    from .explain.explanation import Outcome as Outcome
    from .explain.explanation import PullVerdict as PullVerdict
    from .explain.gather import ExplainedImage as ExplainedImage
    from .explain.gather import ExplainedPod as ExplainedPod
    from .explain.gather import explain_image as explain_image
    from .explain.gather import explain_pods as explain_pods
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
    from .pulls.manifest import Platform as Platform
    from .pulls.manifest import StoredImage as StoredImage
    from .pulls.operation import BackOff as BackOff
    from .pulls.puller import Puller as Puller
    from .pulls.puller import open_target as open_target
    from .pulls.puller import pull as pull
    from .pulls.puller import pull_async as pull_async
    from .pulls.records.decide import Decision as Decision
    from .pulls.records.decide import DecisionRule as DecisionRule
    from .pulls.records.decide import PodCredentials as PodCredentials
    from .pulls.records.policy import VerificationPolicy as VerificationPolicy
    from .pulls.records.records import Records as Records
    from .pulls.records.records import load_records as load_records
    from .pulls.registry.check import check_registry as check_registry
    from .pulls.registry.check import check_registry_async as check_registry_async
    from .pulls.registry.transport import RegistryRoute as RegistryRoute
    from .pulls.request import Progress as Progress
    from .pulls.request import PullAction as PullAction
    from .pulls.request import PullOptions as PullOptions
    from .pulls.request import PullOutcome as PullOutcome
    from .pulls.request import PullTarget as PullTarget
    from .pulls.trial import Attempt as Attempt
    from .pulls.trial import AttemptResult as AttemptResult
    from .workloads.inputs import Inputs as Inputs
    from .workloads.inputs import resolve_inputs as resolve_inputs
    from .workloads.request import NodeAccess as NodeAccess
    from .workloads.request import RecordOptions as RecordOptions
    from .workloads.request import RegistryOptions as RegistryOptions
    from .workloads.request import Request as Request
else:

    def __getattr__(name):
        if name not in _HOMES and name not in _PACKAGES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = import_module(f"{__name__}.{_HOMES.get(name, name)}")
        return module if name in _PACKAGES else getattr(module, name)

    def __dir__():
        return sorted({*globals(), *_HOMES, *_PACKAGES})
