"""Kubernetes exec credential plugins, from both ends of the pipe.

Importing this loads nothing: every name is fetched from its home when it is first used.
"""

__version__ = "0.1.0"

__all__ = [
    "AllowlistEntry",
    "Answer",
    "ClusterSession",
    "Credential",
    "Decision",
    "ExecInfo",
    "Failure",
    "PluginPolicy",
    "Pod",
    "PodCredentials",
    "Providers",
    "PullSecret",
    "Reason",
    "Records",
    "ServiceAccount",
    "ServiceAccounts",
    "Source",
    "StaticAccount",
    "TokenRequest",
    "VerificationPolicy",
    "cluster_metrics_collector",
    "load_cluster",
    "load_exec_info",
    "load_providers",
    "load_records",
    "metrics_collector",
    "pull_metrics_collector",
]

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from .agent.cluster_metrics import cluster_metrics_collector as cluster_metrics_collector
    from .agent.metrics import metrics_collector as metrics_collector
    from .agent.pull_metrics import pull_metrics_collector as pull_metrics_collector
    from .clusters.envinfo import ExecInfo as ExecInfo
    from .clusters.envinfo import load_exec_info as load_exec_info
    from .clusters.load import load_cluster as load_cluster
    from .clusters.session import ClusterSession as ClusterSession
    from .images.accounts import Pod as Pod
    from .images.accounts import ServiceAccount as ServiceAccount
    from .images.accounts import ServiceAccounts as ServiceAccounts
    from .images.accounts import StaticAccount as StaticAccount
    from .images.accounts import TokenRequest as TokenRequest
    from .images.answer import Answer as Answer
    from .images.answer import Failure as Failure
    from .images.dockerconfig import PullSecret as PullSecret
    from .images.keyring import Credential as Credential
    from .images.keyring import Source as Source
    from .images.load import load_providers as load_providers
    from .images.lookup import Providers as Providers
    from .images.reasons import Reason as Reason
    from .invoke.policy import AllowlistEntry as AllowlistEntry
    from .invoke.policy import PluginPolicy as PluginPolicy
    from .pulls.decide import Decision as Decision
    from .pulls.decide import PodCredentials as PodCredentials
    from .pulls.ledger import Records as Records
    from .pulls.policy import VerificationPolicy as VerificationPolicy
    from .pulls.records import load_records as load_records
else:
    _HOMES = {
        "AllowlistEntry": "invoke.policy",
        "Answer": "images.answer",
        "ClusterSession": "clusters.session",
        "Credential": "images.keyring",
        "Decision": "pulls.decide",
        "ExecInfo": "clusters.envinfo",
        "Failure": "images.answer",
        "PluginPolicy": "invoke.policy",
        "Pod": "images.accounts",
        "PodCredentials": "pulls.decide",
        "Providers": "images.lookup",
        "PullSecret": "images.dockerconfig",
        "Reason": "images.reasons",
        "Records": "pulls.ledger",
        "ServiceAccount": "images.accounts",
        "ServiceAccounts": "images.accounts",
        "Source": "images.keyring",
        "StaticAccount": "images.accounts",
        "TokenRequest": "images.accounts",
        "VerificationPolicy": "pulls.policy",
        "cluster_metrics_collector": "agent.cluster_metrics",
        "load_cluster": "clusters.load",
        "load_exec_info": "clusters.envinfo",
        "load_providers": "images.load",
        "load_records": "pulls.records",
        "metrics_collector": "agent.metrics",
        "pull_metrics_collector": "agent.pull_metrics",
    }

    def __getattr__(name):  # noqa: ANN001, ANN202 - the annotations are in the other branch
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f".{_HOMES[name]}", __name__), name)

    def __dir__():  # noqa: ANN202
        return sorted([*globals(), *_HOMES])
