"""gcloud's active configuration; a cached token is valid only for the configuration it was requested with."""

import os

from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded
from keyferry_plugins.google.adc import gcloud_folder

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from keyferry_plugins.google.calls import Calls

__all__ = ["describe_config"]

_STRICT = "GKE_AUTH_PLUGIN_STRICT_CACHE_INVALIDATION"


def describe_config(calls: "Calls") -> dict[str, str] | None:
    """Return folder, name and digest of the active configuration; None if disabled or unreadable."""
    if calls.setting(_STRICT) != "true":
        return None
    from hashlib import sha256

    folder = calls.setting("CLOUDSDK_CONFIG") or gcloud_folder(calls)
    try:
        name = calls.setting("CLOUDSDK_ACTIVE_CONFIG_NAME") or _active(folder)
        data = read_bounded(
            os.path.join(folder, "configurations", f"config_{name}"), "gcloud's configuration"
        )
    except ProvideError:
        return None
    return {"config_dir": folder, "active_config": name, "config_hash": sha256(data).hexdigest()}


def _active(folder: str) -> str:
    data = read_bounded(os.path.join(folder, "active_config"), "gcloud's active configuration")
    return data.decode("utf-8", "replace").strip()
