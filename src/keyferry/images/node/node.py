"""This machine as a node: the kubelets that run on it and what they are set to, looked at once."""

from functools import cached_property

from keyferry.images.node.kubelet import Kubelet, Kubelets, look_for_kubelets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.images.node.settings import KubeletSettings

__all__ = ["Node"]


class Node:
    """What runs here, as it was when it was first asked for; make another one to look again."""

    def __init__(self, proc: str | None = None) -> None:
        """Look in *proc*: the folder that KEYFERRY_PROC names, else ``/proc``."""
        self._proc = proc
        self._read: dict[int, KubeletSettings] = {}

    @cached_property
    def kubelets(self) -> Kubelets:
        """Every kubelet that is seen."""
        return look_for_kubelets(self._proc)

    @property
    def kubelet(self) -> Kubelet | None:
        """The one whose settings are this node's: the first that is believed."""
        return next(iter(self.kubelets.trusted), None)

    @property
    def settings(self) -> "KubeletSettings | None":
        """What that one is set to."""
        return None if self.kubelet is None else self.settings_of(self.kubelet)

    def settings_of(self, kubelet: Kubelet) -> "KubeletSettings":
        """What a kubelet is set to; its files are read once. For those that are believed."""
        if kubelet.pid not in self._read:
            # Only here: files bring their parsers along.
            from keyferry.images.node.settings import read_settings

            self._read[kubelet.pid] = read_settings(kubelet)
        return self._read[kubelet.pid]
