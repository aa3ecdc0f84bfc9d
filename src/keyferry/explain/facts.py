"""What is known about one image before it is explained: inputs, the answer of the lookup, evidence, checks."""

from __future__ import annotations

from keyferry._core.reasons import Reason
from keyferry._core.values import Value, field
from keyferry.explain.evidence import Evidence
from keyferry.pulls.mirrors.endpoints import Mirrors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.explain.registry import RegistryCheck
    from keyferry.images.answer import Answer
    from keyferry.images.dockerconfig import PullSecret
    from keyferry.images.keyring import Credential
    from keyferry.images.provider.accounts import Pod
    from keyferry.pulls.records.decide import Decision
    from keyferry.workloads.pods import PodContainer
    from keyferry.workloads.secrets import UnusedSecret

__all__ = ["Facts"]


class Facts(Value):
    """The answer of a lookup for one image, what was seen of the image, and the facts beside them.

    *check* has the registry's responses, if it was asked; *mirrors* tells where the container runtime goes for the
    image, if a file says so; *decision* whether the image on the node may be used, if that is known. *containers* are
    those of the pod that use the image. *config* describes the config and the sources
    for programs, *where* for people. *notes* are about inputs that the kubelet does not use, *unused* are the secrets
    that it takes no login from. *traps* are added to those of the answer. *hints* name the options that supply missing
    inputs. *pod* is the pod, if it is known, *node_name* its node, *secret_names* are the pull secrets that it lists,
    and *account_secrets* those of its service account, None if they are not known. *is_replaced* tells that another
    object replaces the pod when it is deleted, and *is_static* that a kubelet runs it from a file of its node.
    *pull_secrets* are those that the kubelet reads. *ignored_settings* are those of the kubelet's config that no
    kubelet reads. *command* is the command line that asked, to which options can be added; *try_command* is the one
    that tries the way of a token that is refused. *account_lines* add the service account to the file with the pod.
    """

    answer: Answer
    evidence: Evidence = Evidence()
    check: RegistryCheck | None = None
    mirrors: Mirrors | None = None
    decision: Decision | None = None
    containers: tuple[PodContainer, ...] = ()
    config: dict[str, object] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    traps: tuple[Reason, ...] = ()
    hints: tuple[str, ...] = ()
    pod: Pod | None = None
    node_name: str = ""
    secret_names: tuple[str, ...] = ()
    account_secrets: tuple[str, ...] | None = None
    is_replaced: bool = False
    is_static: bool = False
    pull_secrets: tuple[PullSecret, ...] = ()
    unused: tuple[UnusedSecret, ...] = ()
    ignored_settings: tuple[str, ...] = ()
    command: str = ""
    try_command: str = ""
    account_lines: tuple[str, ...] = ()

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """The credentials that are found, each once; the kubelet tries those of a secret that is listed twice twice."""
        return tuple(dict.fromkeys(self.answer.credentials))

    @property
    def unreadable(self) -> UnusedSecret | None:
        """The first pull secret whose content cannot be read; the kubelet then pulls no image of the pod."""
        return next((each for each in self.unused if each.error is not None), None)

    @property
    def is_never_pulled(self) -> bool:
        """Whether the pod permits no pull of the image."""
        return bool(self.containers) and all(each.is_never_pulled for each in self.containers)

    @property
    def is_always_pulled(self) -> bool:
        """Whether the image is pulled even if it is on the node."""
        return any(each.is_always_pulled for each in self.containers)

    def is_mirror(self, host: str) -> bool:
        """Return whether the container runtime asks *host* in the place of the image's registry."""
        return self.mirrors is not None and any(each.host == host for each in self.mirrors.others)

    @property
    def config_path(self) -> str:
        """The path of the provider config, empty if there is none."""
        return str(self.config.get("path") or "")

    @property
    def bin_dir(self) -> str:
        """The folder of the plugins, empty if it is not known."""
        return str(self.config.get("binDir") or "")
