"""The explanation of one image: everything that was found out about it, as a value."""

from keyferry._core.values import Value, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._core.reasons import Reason
    from keyferry.explain.registry import RegistryCheck
    from keyferry.images.answer import Answer
    from keyferry.images.provider.accounts import Pod
    from keyferry.pulls.records.decision import Decision
    from keyferry.workloads.secrets import UnusedSecret

__all__ = ["Explanation"]


class Explanation(Value):
    """The answer of a lookup for one image, and the facts beside it that explain it.

    *check* has the registry's responses, if it was asked; *decision* whether the image on the node may be used, if
    that was requested. *config* describes the config and the sources for programs, *where* for people. *notes* are
    about inputs that the kubelet does not use, *unused* are the secrets that it takes no login from. *traps* are added
    to those of the answer. *hints* name the options that supply missing inputs. *pod* is the pod, if it is known, and
    *secret_names* are the pull secrets that it lists. *is_never_pulled* says that the pod permits no pull of the image.
    *command* is the command line that made the explanation, to which options can be added; *try_command* is the one
    that tries the way of a token that is refused. *account_lines* add the service account to the file with the pod.
    """

    answer: "Answer"
    check: "RegistryCheck | None" = None
    decision: "Decision | None" = None
    config: "dict[str, object]" = field(default_factory=dict)
    where: "tuple[str, ...]" = ()
    notes: "tuple[str, ...]" = ()
    traps: "tuple[Reason, ...]" = ()
    hints: "tuple[str, ...]" = ()
    pod: "Pod | None" = None
    secret_names: "tuple[str, ...]" = ()
    unused: "tuple[UnusedSecret, ...]" = ()
    is_never_pulled: bool = False
    command: str = ""
    try_command: str = ""
    account_lines: "tuple[str, ...]" = ()

    @property
    def unreadable(self) -> "UnusedSecret | None":
        """The first pull secret whose content cannot be read; the kubelet then pulls no image of the pod."""
        return next((each for each in self.unused if each.error is not None), None)

    @property
    def config_path(self) -> str:
        """The path of the provider config, empty if there is none."""
        return str(self.config.get("path") or "")

    @property
    def bin_dir(self) -> str:
        """The folder of the plugins, empty if it is not known."""
        return str(self.config.get("binDir") or "")
