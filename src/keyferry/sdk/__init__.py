"""Write a credential plugin: one function from a typed request to a typed response becomes an executable.

Importing this package loads nothing else: each name is imported when it is first used. The other modules are
``keyferry.sdk.http``, ``flags``, ``files``, ``process`` and ``testing``.
"""

from __future__ import annotations

# The public names, by the module below keyferry that has them.
_NAMES = {
    "_core.docker_hub": (
        "HUB",
        "IDENTITY_TOKEN",
        "LOGIN_HOST",
        "LOGIN_URL",
        "is_default_registry",
        "is_hub_host",
    ),
    "_core.json": ("dumps", "loads", "read_object"),
    "_core.jwt_claims": ("JwtError", "decode_segment", "read_claims", "read_header"),
    "_core.user_info": ("hide_user_info",),
    "_core.values": ("Value", "field", "replace"),
    "_net.address": ("is_loopback_host",),
    "_net.challenge": ("ChallengeError", "read_challenges"),
    "_net.deadline": ("Deadline",),
    "_net.forms": ("decode_percent", "encode_form", "encode_form_text", "encode_percent", "encode_query"),
    "_net.url": ("UrlSyntaxError", "read_url", "split_host_port", "split_registry_key", "split_registry_url"),
    "api.clientauthentication.v1": ("ClusterInfo",),
    "api.credentialprovider.v1": ("AuthConfig",),
    "api.meta": ("format_duration", "format_time", "parse_duration", "parse_time"),
    "errors": ("DocumentError", "DurationError", "HttpError", "Kind", "ProvideError", "TimeError"),
    "sdk.cluster": ("ExecRequest", "ExecResponse", "serve_cluster"),
    "sdk.image": ("GLOBAL", "IMAGE", "REGISTRY", "Request", "Response", "serve"),
    "sdk.messages": ("are_links_wanted", "ask", "report_link", "shown", "tell"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
__all__ = tuple(sorted(_HOMES))

# The same names for type checkers, which do not run __getattr__; a test compares them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._core.docker_hub import HUB as HUB
    from keyferry._core.docker_hub import IDENTITY_TOKEN as IDENTITY_TOKEN
    from keyferry._core.docker_hub import LOGIN_HOST as LOGIN_HOST
    from keyferry._core.docker_hub import LOGIN_URL as LOGIN_URL
    from keyferry._core.docker_hub import is_default_registry as is_default_registry
    from keyferry._core.docker_hub import is_hub_host as is_hub_host
    from keyferry._core.json import dumps as dumps
    from keyferry._core.json import loads as loads
    from keyferry._core.json import read_object as read_object
    from keyferry._core.jwt_claims import JwtError as JwtError
    from keyferry._core.jwt_claims import decode_segment as decode_segment
    from keyferry._core.jwt_claims import read_claims as read_claims
    from keyferry._core.jwt_claims import read_header as read_header
    from keyferry._core.user_info import hide_user_info as hide_user_info
    from keyferry._core.values import Value as Value
    from keyferry._core.values import field as field
    from keyferry._core.values import replace as replace
    from keyferry._net.address import is_loopback_host as is_loopback_host
    from keyferry._net.challenge import ChallengeError as ChallengeError
    from keyferry._net.challenge import read_challenges as read_challenges
    from keyferry._net.deadline import Deadline as Deadline
    from keyferry._net.forms import decode_percent as decode_percent
    from keyferry._net.forms import encode_form as encode_form
    from keyferry._net.forms import encode_form_text as encode_form_text
    from keyferry._net.forms import encode_percent as encode_percent
    from keyferry._net.forms import encode_query as encode_query
    from keyferry._net.url import UrlSyntaxError as UrlSyntaxError
    from keyferry._net.url import read_url as read_url
    from keyferry._net.url import split_host_port as split_host_port
    from keyferry._net.url import split_registry_key as split_registry_key
    from keyferry._net.url import split_registry_url as split_registry_url
    from keyferry.api.clientauthentication.v1 import ClusterInfo as ClusterInfo
    from keyferry.api.credentialprovider.v1 import AuthConfig as AuthConfig
    from keyferry.api.meta import format_duration as format_duration
    from keyferry.api.meta import format_time as format_time
    from keyferry.api.meta import parse_duration as parse_duration
    from keyferry.api.meta import parse_time as parse_time
    from keyferry.errors import DocumentError as DocumentError
    from keyferry.errors import DurationError as DurationError
    from keyferry.errors import HttpError as HttpError
    from keyferry.errors import Kind as Kind
    from keyferry.errors import ProvideError as ProvideError
    from keyferry.errors import TimeError as TimeError
    from keyferry.sdk.cluster import ExecRequest as ExecRequest
    from keyferry.sdk.cluster import ExecResponse as ExecResponse
    from keyferry.sdk.cluster import serve_cluster as serve_cluster
    from keyferry.sdk.image import GLOBAL as GLOBAL
    from keyferry.sdk.image import IMAGE as IMAGE
    from keyferry.sdk.image import REGISTRY as REGISTRY
    from keyferry.sdk.image import Request as Request
    from keyferry.sdk.image import Response as Response
    from keyferry.sdk.image import serve as serve
    from keyferry.sdk.messages import are_links_wanted as are_links_wanted
    from keyferry.sdk.messages import ask as ask
    from keyferry.sdk.messages import report_link as report_link
    from keyferry.sdk.messages import shown as shown
    from keyferry.sdk.messages import tell as tell
else:

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"keyferry.{_HOMES[name]}"), name)

    def __dir__():
        return sorted({*globals(), *_HOMES})
