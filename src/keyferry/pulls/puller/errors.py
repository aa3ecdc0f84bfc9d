"""Why a pod does not get its image, in our words and in the kubelet's."""

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

# What a runtime may say first, in place of an error code, and how the kubelet puts it. The CRI has these words for
# it and no field, so the kubelet too looks at how the text begins.
_MARKS = (
    (KubeletReason.REGISTRY_UNAVAILABLE, "the registry is unavailable"),
    (KubeletReason.SIGNATURE_VALIDATION_FAILED, "the signature validation failed"),
)


def invalid_name_error(image: str, error: ImageNameError) -> ImagePullError:
    """The image's name cannot be parsed."""
    text = f"Failed to apply default image tag {quote(image)}: {error.kubernetes_text}"
    return ImagePullError(image, KubeletReason.INVALID_IMAGE_NAME, error.message, text, Kind.NAME, (error,))


def inspect_error(image: str, error: KeyferryError) -> ImagePullError:
    """It cannot be found out whether the image is there."""
    message = f"cannot find out whether {image!r} is there: {error}"
    # The kubelet means to name the image, and names the reference that it has not got.
    text = f'Failed to inspect image "": {error.kubernetes_text or error}'
    reason = KubeletReason.IMAGE_INSPECT_ERROR
    return ImagePullError(image, reason, message, text, kind_of(error), (error,))


def absent_image_error(image: str) -> ImagePullError:
    """The image is not there, or nothing that this pod may know of, and must not be pulled."""
    text = f"Container image {quote(image)} is not present with pull policy of Never"
    message = f"{image!r} is not there, and the pull policy is Never"
    return ImagePullError(image, KubeletReason.ERR_IMAGE_NEVER_PULL, message, text, Kind.ABSENT)


def back_off_error(image: str, seconds_left: float, before: KeyferryError | None) -> ImagePullError:
    """A pull failed a short while ago, and the next one has to wait."""
    message = f"waiting another {seconds_left:.0f} s before {image!r} is pulled again"
    text = f"Back-off pulling image {quote(image)}"
    if before is None:
        return ImagePullError(image, KubeletReason.IMAGE_PULL_BACK_OFF, message, text)
    reason = KubeletReason.ERR_IMAGE_PULL
    failures: tuple[KeyferryError, ...] = (before,)
    if isinstance(before, ImagePullError):
        reason, failures = before.kubelet_reason, before.failures
    text += f": {reason}: {before.kubernetes_text}"
    message += f"; the last time: {before}"
    back_off = KubeletReason.IMAGE_PULL_BACK_OFF
    return ImagePullError(image, back_off, message, text, kind_of(before), failures)


def pull_error(image: str, attempts: tuple[Attempt, ...]) -> ImagePullError:
    """No credential worked; what was said to each is in it."""
    failures = tuple(attempt.error for attempt in attempts if attempt.error is not None)
    said = "; ".join(f"{attempt.who}: {attempt.said}" for attempt in attempts)
    reason, text = _kubelet_words(image, aggregate(map(_kubernetes_text, failures)))
    kind = most_telling(attempts).kind or Kind.ERROR
    return ImagePullError(image, reason, f"cannot pull {image!r}: {said}", text, kind, failures)


def _kubernetes_text(error: KeyferryError) -> str:
    # Of a pull the kubelet drops the code that says nothing.
    if isinstance(error, ContainerRuntimeError) and error.code == "UNKNOWN":
        return error.message
    return error.kubernetes_text


def _kubelet_words(image: str, text: str) -> tuple[KubeletReason, str]:
    for mark, because in _MARKS:
        if text.startswith(mark):
            return mark, f"image pull failed for {image} because {because}{text.removeprefix(mark)}"
    return KubeletReason.ERR_IMAGE_PULL, text
