"""Problems of a KubeletConfiguration: title, reason, correction; refusals first."""

from __future__ import annotations

REFUSED_KUBELET: dict[str, tuple[str, str, str]] = {
    "KF701": (
        "the kubelet's config is not valid YAML or JSON",
        "the kubelet does not start with it",
        "correct the syntax at the given position",
    ),
    "KF702": (
        "the file is not a KubeletConfiguration of a known version",
        "only KubeletConfiguration of kubelet.config.k8s.io/v1beta1 is read",
        "correct apiVersion and kind",
    ),
    "KF710": (
        "maxParallelImagePulls is above 31",
        "a kubelet of 1.34 to 1.36 that keeps pull records has 31 locks for them at most and counts more: it panics "
        "at the first image that falls to a missing one (kubernetes#138937)",
        "set 31 or less, or upgrade to a version with the correction",
    ),
}

SUSPECT_KUBELET: dict[str, tuple[str, str, str]] = {
    "KF750": (
        "a field that no version of Kubernetes has names the provider config or the bin dir",
        "the kubelet logs that it does not know the field, ignores it and runs without these providers; only its "
        "flags name them",
        "remove the field and set the kubelet's flags --image-credential-provider-config and "
        "--image-credential-provider-bin-dir",
    ),
}
