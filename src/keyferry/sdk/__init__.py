"""Write a credential plugin: one function from a typed request to a typed response becomes an executable.

Importing this package loads nothing else: each name is imported when it is first used. The other modules are
``keyferry.sdk.http``, ``flags``, ``files``, ``process`` and ``testing``.
"""

from __future__ import annotations

__all__ = [
    "GLOBAL",
    "IMAGE",
    "REGISTRY",
    "AuthConfig",
    "ClusterInfo",
    "Deadline",
    "ExecRequest",
    "ExecResponse",
    "HttpError",
    "Kind",
    "ProvideError",
    "Request",
    "Response",
    "ask",
    "serve",
    "serve_cluster",
    "tell",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._net.deadline import Deadline as Deadline
    from keyferry.api.clientauthentication.v1 import ClusterInfo as ClusterInfo
    from keyferry.api.credentialprovider.v1 import AuthConfig as AuthConfig
    from keyferry.errors import HttpError as HttpError
    from keyferry.errors import Kind as Kind
    from keyferry.errors import ProvideError as ProvideError

    from .cluster import ExecRequest as ExecRequest
    from .cluster import ExecResponse as ExecResponse
    from .cluster import serve_cluster as serve_cluster
    from .image import GLOBAL as GLOBAL
    from .image import IMAGE as IMAGE
    from .image import REGISTRY as REGISTRY
    from .image import Request as Request
    from .image import Response as Response
    from .image import serve as serve
    from .prompt import ask as ask
    from .prompt import tell as tell
else:
    _HOMES = {
        "GLOBAL": "sdk.image",
        "IMAGE": "sdk.image",
        "REGISTRY": "sdk.image",
        "AuthConfig": "api.credentialprovider.v1",
        "ClusterInfo": "api.clientauthentication.v1",
        "Deadline": "_net.deadline",
        "ExecRequest": "sdk.cluster",
        "ExecResponse": "sdk.cluster",
        "HttpError": "errors",
        "Kind": "errors",
        "ProvideError": "errors",
        "Request": "sdk.image",
        "Response": "sdk.image",
        "ask": "sdk.prompt",
        "serve": "sdk.image",
        "serve_cluster": "sdk.cluster",
        "tell": "sdk.prompt",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Not importlib, which would import warnings.
        import sys

        home = f"keyferry.{_HOMES[name]}"
        __import__(home)
        return getattr(sys.modules[home], name)

    def __dir__():
        return sorted([*globals(), *_HOMES])
