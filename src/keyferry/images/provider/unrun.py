"""Providers whose plugins are not run: an image is matched with them, and their answer is unknown."""

from __future__ import annotations

from keyferry.images.missing import LookupInput, MissingInput
from keyferry.images.provider.accounts import NotApplicable, NotGivenError, Pod, identify
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.provision import Provision, ProvisionOutcome

__all__ = ["UnrunProvider"]


class UnrunProvider(Provider):
    """A provider that is never run; it is skipped for the pods that it does not apply to, as in the kubelet."""

    def provide(
        self,
        image: str,  # noqa: ARG002 - the answer is unknown for every image
        pod: Pod | None = None,
        timeout_seconds: float | None = None,  # noqa: ARG002 - nothing takes time
        *,
        waited_seconds: float = 0.0,  # noqa: ARG002 - as above
    ) -> Provision:
        """Return an unknown answer that names the plugin as missing, and the other inputs that it would need."""
        missing: tuple[MissingInput, ...] = ()
        try:
            identify(self.config.token_attributes, self._accounts, pod)
        except NotApplicable as skip:
            return Provision(self.name, ProvisionOutcome.SKIPPED, skipped=str(skip), lacking=skip.lacking)
        except NotGivenError as untold:
            missing = tuple(each for each in untold.missing if each.input is LookupInput.POD)
        plugin = MissingInput(LookupInput.PLUGIN, self.name)
        return Provision(self.name, ProvisionOutcome.UNKNOWN, missing=(*missing, plugin))

    def recall(self, image: str, pod: Pod | None = None) -> Provision:
        """Return what ``provide`` returns."""
        return self.provide(image, pod)
