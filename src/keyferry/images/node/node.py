"""This machine as a node: the kubelets that run on it and their settings, read once."""

from __future__ import annotations

from functools import cached_property

from keyferry.images.node.kubelet import Kubelet, Kubelets, look_for_kubelets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.images.node.settings import KubeletSettings

__all__ = ["Node"]


class Node:
    """The kubelets of this machine and their settings, read on first use and not again.

    *elsewhere* is the reason why this machine is not the node in question, or empty if it is. A node elsewhere has no
    kubelets and no files here.
    """

    def __init__(self, proc: str | None = None, *, elsewhere: str = "") -> None:
        """Use the processes in *proc*, by default KEYFERRY_PROC or ``/proc``."""
        self.elsewhere = elsewhere
        self._proc = proc
        self._read: dict[int, KubeletSettings] = {}

    @cached_property
    def kubelets(self) -> Kubelets:
        """All visible kubelets."""
        return Kubelets() if self.elsewhere else look_for_kubelets(self._proc)

    @property
    def kubelet(self) -> Kubelet | None:
        """The first trusted kubelet, whose settings are those of this node."""
        return next(iter(self.kubelets.trusted), None)

    @property
    def settings(self) -> KubeletSettings | None:
        """The settings of that kubelet."""
        return None if self.kubelet is None else self.settings_of(self.kubelet)

    def settings_of(self, kubelet: Kubelet) -> KubeletSettings:
        """Return the settings of a trusted kubelet; its files are read once."""
        if kubelet.pid not in self._read:
            # Imported here: it imports the parsers of files.
            from keyferry.images.node.settings import read_settings

            self._read[kubelet.pid] = read_settings(kubelet)
        return self._read[kubelet.pid]
