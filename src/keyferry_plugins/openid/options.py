"""The flags of keyferry-oidc, and the options made from them."""

from __future__ import annotations

import csv
import os
from binascii import Error, a2b_base64
from collections.abc import Mapping, Sequence

from keyferry._core.values import Value, field
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags
from keyferry_plugins.oauth.store import digest_of

GRANTS = ("auto", "authcode", "authcode-keyboard", "password", "device-code", "client-credentials")
_TEXT_FLAGS = (
    "listen-address",
    "browser-command",
    "local-server-cert",
    "local-server-key",
    "open-url-after-authentication",
    "oidc-redirect-url-hostname",
)
_SWITCHES = (
    "skip-open-browser",
    "tls-renegotiation-once",
    "tls-renegotiation-freely",
    "oidc-use-pkce",
)
FLAGS = (
    Flag(name="oidc-issuer-url", about="the issuer's URL, https (required)"),
    Flag(name="oidc-client-id", about="the client's ID (required)"),
    Flag(name="oidc-client-secret", about="the client's secret; visible in the process list, unlike a file"),
    Flag(name="oidc-client-secret-file", about="a file with the client's secret"),
    Flag(
        name="oidc-extra-scope",
        about="a scope to request besides openid (may be given again)",
        is_repeated=True,
    ),
    Flag(
        name="oidc-use-access-token", about="respond with the access token, not the ID token", is_switch=True
    ),
    Flag(
        name="oidc-request-header",
        about="NAME=VALUE: a header for the issuer (may be given again)",
        is_repeated=True,
    ),
    Flag(
        name="oidc-auth-request-extra-params",
        about="NAME=VALUE: a parameter of the authorization request (may be given again)",
        is_repeated=True,
    ),
    Flag(name="oidc-redirect-url", about="for authcode-keyboard: where the issuer sends the code"),
    Flag(
        name="oidc-pkce-method",
        about="for authcode-keyboard: auto, no or S256",
        default="auto",
        choices=("auto", "no", "S256"),
    ),
    Flag(
        name="grant-type",
        about="how to get a token: auto, device-code, client-credentials, password or authcode-keyboard",
        default="auto",
        choices=GRANTS,
    ),
    Flag(name="username", about="for password: the user's name; prompted for if it is not given"),
    Flag(name="password", about="for password: the password; visible in the process list, unlike a file"),
    Flag(name="password-file", about="a file with the password; prompted for if none is given"),
    Flag(name="authentication-timeout-sec", about="how long to wait for the user to log in"),
    Flag(
        name="wait-for-login",
        about="for device-code: wait even if nobody seems able to read the code",
        is_switch=True,
    ),
    Flag(name="force-refresh", about="get a new token even if one is cached", is_switch=True),
    Flag(name="token-cache-dir", about="cache tokens in this folder"),
    Flag(
        name="token-cache-storage",
        about="where tokens are cached: disk, or none",
        choices=("disk", "keyring", "none"),
    ),
    Flag(name="certificate-authority", about="a CA bundle to trust (may be given again)", is_repeated=True),
    Flag(
        name="certificate-authority-data",
        about="a CA bundle to trust, in base64 (may be given again)",
        is_repeated=True,
    ),
    Flag(name="insecure-skip-tls-verify", about="trust any server certificate", is_switch=True),
    Flag(name="compat", about="behave exactly like int128/kubelogin, quirks included", is_switch=True),
    *(Flag(name=name, is_ignored=True) for name in _TEXT_FLAGS),
    *(Flag(name=name, is_ignored=True, is_switch=True) for name in _SWITCHES),
    *LOG_FLAGS,
)


class Options(Value):
    """The user's options, checked."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    use_access_token: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra: Mapping[str, str] = field(default_factory=dict, repr=False)
    redirect_url: str = ""
    pkce: str = "auto"
    grant: str = "auto"
    username: str = ""
    password: str = field(default="", repr=False)
    login_seconds: float | None = None
    waits_for_login: bool = False
    force_refresh: bool = False
    cache_folder: str = ""
    ca_data: str = field(default="", repr=False)
    is_insecure: bool = False
    is_compat: bool = False

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain."""
        return tuple(filter(None, (self.client_secret, self.password, *self.headers.values())))


def read_options(flags: Flags) -> Options:
    """Check the flags; raise ProvideError, with what was found and expected, if one is invalid."""
    for name in ("oidc-issuer-url", "oidc-client-id"):
        if not flags.text(name):
            raise ProvideError(f"--{name} is missing", "add it to the args of the kubeconfig's exec entry")
    is_compat = flags.is_on("compat")
    return Options(
        issuer=flags.text("oidc-issuer-url"),
        client_id=flags.text("oidc-client-id"),
        client_secret=_secret(flags, "oidc-client-secret"),
        scopes=tuple(scope for text in flags.texts("oidc-extra-scope") for scope in _split(text) if scope),
        use_access_token=flags.is_on("oidc-use-access-token"),
        headers=_headers(_pairs(flags, "oidc-request-header")),
        extra=_pairs(flags, "oidc-auth-request-extra-params"),
        redirect_url=flags.text("oidc-redirect-url"),
        pkce=flags.text("oidc-pkce-method"),
        grant=flags.text("grant-type"),
        username=flags.text("username"),
        password=_secret(flags, "password"),
        # In kubelogin it only limits the wait for a browser on this machine.
        login_seconds=None if is_compat else _seconds(flags.text("authentication-timeout-sec")),
        waits_for_login=flags.is_on("wait-for-login"),
        force_refresh=flags.is_on("force-refresh"),
        cache_folder=_cache_folder(flags, is_compat=is_compat),
        ca_data=_authorities(flags),
        is_insecure=flags.is_on("insecure-skip-tls-verify"),
        is_compat=is_compat,
    )


def cache_path(options: Options) -> str:
    """Return the file for a token; its name is a digest of everything that affects the token."""
    parts = [
        options.issuer,
        options.client_id,
        options.client_secret,
        sorted(options.scopes),
        options.use_access_token,
        sorted([list(pair) for pair in options.headers.items()]),
        sorted([list(pair) for pair in options.extra.items()]),
        options.redirect_url,
        options.grant,
        options.username,
        options.password,
        options.ca_data,
        options.is_insecure,
        options.is_compat,
    ]
    return os.path.join(options.cache_folder, digest_of(parts))


def _secret(flags: Flags, name: str) -> str:
    path = _expand(flags.text(f"{name}-file"))
    if not path:
        return flags.text(name)
    if flags.text(name):
        raise ProvideError(f"--{name} and --{name}-file are both given, expected one")
    try:
        return read_bounded(path, f"--{name}-file").decode().rstrip("\r\n")
    except UnicodeDecodeError:
        pass
    raise ProvideError(f"--{name}-file {path!r} is not UTF-8 text")


def _split(text: str) -> Sequence[str]:
    """Return the parts of a comma-separated flag; a part that contains a comma is quoted."""
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        pass
    raise ProvideError("a flag's list of values has an unclosed quote")


def _pairs(flags: Flags, name: str) -> dict[str, str]:
    pairs = {}
    for part in (part for text in flags.texts(name) for part in _split(text)):
        key, equals, value = part.partition("=")
        if not key or not equals:
            # Not quoted: it may be a value without its name, and so a secret.
            raise ProvideError(f"--{name}: found a part without '=', expected NAME=VALUE")
        pairs[key] = value
    return pairs


def _headers(pairs: dict[str, str]) -> dict[str, str]:
    for name, value in pairs.items():
        is_token = all(char.isascii() and (char.isalnum() or char in "-_.!#$%&'*+^`|~") for char in name)
        if not is_token or any(char < " " or char == "\x7f" for char in value):
            raise ProvideError(
                f"--oidc-request-header: {name[:40]!r} has characters that are not valid in a header"
            )
    return pairs


def _seconds(text: str) -> float | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise ProvideError(f"--authentication-timeout-sec: found {text[:20]!r}, expected a number of seconds")
    return float(text)


def _cache_folder(flags: Flags, *, is_compat: bool) -> str:
    """Return the folder for tokens, or an empty string; only --compat stores tokens without a flag for it."""
    folder, storage = _expand(flags.text("token-cache-dir")), flags.text("token-cache-storage")
    if storage == "keyring":
        raise ProvideError(
            "--token-cache-storage keyring is not supported", "use disk: the file is readable by you alone"
        )
    if not storage:
        storage = "disk" if folder or is_compat else "none"
    if storage == "none":
        return ""
    home = os.environ.get("KUBECACHEDIR") or _expand("~/.kube/cache")
    return folder or os.path.join(home, "oidc-login" if is_compat else "keyferry-oidc")


def _authorities(flags: Flags) -> str:
    paths = [_expand(path) for path in flags.texts("certificate-authority") if path]
    bundles = [read_bounded(path, "--certificate-authority") for path in paths]
    if encoded := [text for text in flags.texts("certificate-authority-data") if text]:
        try:
            bundles += [a2b_base64(text.encode("ascii"), strict_mode=True) for text in encoded]
        except (Error, UnicodeEncodeError):
            raise ProvideError("--certificate-authority-data is not base64 of PEM text") from None
    text = b"\n".join(bundles).decode("utf-8", "replace")
    if bundles and "-----BEGIN CERTIFICATE-----" not in text:
        raise ProvideError("the given certificate authority contains no certificate in PEM")
    # Only the text between the markers goes to the TLS library, which accepts only ASCII.
    return text.encode("ascii", "ignore").decode()


def _expand(path: str) -> str:
    return os.path.expanduser(path) if path.startswith("~") else path
