"""Make the errors of a failed pull, each with keyferry's message and the kubelet's text."""

from __future__ import annotations

from keyferry._core.gotext import quote
from keyferry.api.codec import aggregate
from keyferry.errors import (
    ContainerRuntimeError,
    ImageNameError,
    ImagePullError,
    KeyferryError,
    Kind,
    KubeletReason,
)
from keyferry.pulls.trial import Attempt, kind_of, most_telling

__all__ = ["absent_image_error", "back_off_error", "inspect_error", "invalid_name_error", "pull_error"]

# The beginnings of a runtime's message that replace an error code, and the kubelet's text for each. The CRI has no
# field for them, so the kubelet, too, checks how the message begins.
_MARKS = (
    (KubeletReason.REGISTRY_UNAVAILABLE, "the registry is unavailable"),
    (KubeletReason.SIGNATURE_VALIDATION_FAILED, "the signature validation failed"),
)


def invalid_name_error(image: str, error: ImageNameError) -> ImagePullError:
    """Return the error for an image name that cannot be parsed."""
    text = f"Failed to apply default image tag {quote(image)}: {error.kubernetes_text}"
    return ImagePullError(image, KubeletReason.INVALID_IMAGE_NAME, error.message, text, Kind.NAME, (error,))


def inspect_error(image: str, error: KeyferryError) -> ImagePullError:
    """Return the error for a target that cannot be asked whether it has the image."""
    message = f"cannot determine whether {image!r} is present: {error}"
    # Where the image should be named, the kubelet writes the reference, which is still empty.
    text = f'Failed to inspect image "": {error.kubernetes_text or error}'
    reason = KubeletReason.IMAGE_INSPECT_ERROR
    return ImagePullError(image, reason, message, text, kind_of(error), (error,))


def absent_image_error(image: str) -> ImagePullError:
    """Return the error for an image that is absent, or hidden from the pod, and must not be pulled."""
    text = f"Container image {quote(image)} is not present with pull policy of Never"
    message = f"{image!r} is not present, and the pull policy is Never"
    return ImagePullError(image, KubeletReason.ERR_IMAGE_NEVER_PULL, message, text, Kind.ABSENT)


def back_off_error(image: str, seconds_left: float, before: KeyferryError | None) -> ImagePullError:
    """Return the error for a pull that must wait, because an earlier one failed."""
    message = f"waiting another {seconds_left:.0f} s before {image!r} is pulled again"
    text = f"Back-off pulling image {quote(image)}"
    if before is None:
        return ImagePullError(image, KubeletReason.IMAGE_PULL_BACK_OFF, message, text)
    reason = KubeletReason.ERR_IMAGE_PULL
    failures: tuple[KeyferryError, ...] = (before,)
    if isinstance(before, ImagePullError):
        reason, failures = before.kubelet_reason, before.failures
    text += f": {reason}: {before.kubernetes_text}"
    message += f"; the last error: {before}"
    back_off = KubeletReason.IMAGE_PULL_BACK_OFF
    return ImagePullError(image, back_off, message, text, kind_of(before), failures)


def pull_error(image: str, attempts: tuple[Attempt, ...]) -> ImagePullError:
    """Return the error for a pull in which no attempt succeeded; it contains the response to each."""
    failures = tuple(attempt.error for attempt in attempts if attempt.error is not None)
    said = "; ".join(f"{attempt.who}: {attempt.said}" for attempt in attempts)
    reason, text = _kubelet_words(image, aggregate(map(_kubernetes_text, failures)))
    kind = most_telling(attempts).kind or Kind.ERROR
    return ImagePullError(image, reason, f"cannot pull {image!r}: {said}", text, kind, failures)


def _kubernetes_text(error: KeyferryError) -> str:
    # For a pull, the kubelet leaves out the code UNKNOWN.
    if isinstance(error, ContainerRuntimeError) and error.code == "UNKNOWN":
        return error.message
    return error.kubernetes_text


def _kubelet_words(image: str, text: str) -> tuple[KubeletReason, str]:
    for mark, because in _MARKS:
        if text.startswith(mark):
            return mark, f"image pull failed for {image} because {because}{text.removeprefix(mark)}"
    return KubeletReason.ERR_IMAGE_PULL, text
