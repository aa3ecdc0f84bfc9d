"""Access to one cluster with any kind of kubeconfig user: exec plugin, token, basic auth, certificate.

Adapters obtain a *grant* before each request and renew it after a 401 response. The logic that they
share is here; an adapter only translates it to its HTTP library.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable

from keyferry._core.clock import monotonic_ns
from keyferry._core.values import Value, field
from keyferry.clusters.auth.authenticator import Authenticator
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.errors import ClusterAuthError, EnvironmentProblem, KeyferryError, PluginProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import TypeVar

    from keyferry.clusters.tls import Pair

    T = TypeVar("T")

_TOKEN_FILE_NS = 60 * 1_000_000_000
_MAX_TOKEN = 1 << 20
# Not allowed in a header value: a line break ends the header and starts another one.
FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# Allowed in a header name; other bytes are escaped, including '%', so that the name can be decoded.
_NAME_BYTES = frozenset(b"!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

Headers = tuple[tuple[str, str], ...]


class Grant(Value):
    """The headers for one request; ``credential`` is set if it came from a plugin and can be renewed."""

    headers: Headers = field(default=(), repr=False)
    credential: ClusterCredential | None = None


class ClusterAccess:
    """The headers and TLS settings for requests to one cluster.

    It can be shared between threads and event loops.
    """

    def __init__(
        self,
        config: ClientConfig,
        authenticator: Authenticator | None = None,
        *,
        retries: bool = True,
        monotonic: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.config = config
        # client-go itself never retries: it returns the 401, and the next request uses the new credential.
        self.retries = retries
        self._authenticator = authenticator
        self._token_file = _TokenFile(config, monotonic) if config.token_file else None
        self._impersonation = _impersonation(config)

    @property
    def server(self) -> str:
        """The server's URL."""
        return self.config.server

    @property
    def namespace(self) -> str:
        """The namespace of the context."""
        return self.config.namespace

    @property
    def authenticator(self) -> Authenticator | None:
        """The object that runs the plugin; None if the user has no plugin."""
        return self._authenticator

    @property
    def certificates(self) -> int:
        """A number that changes with the client certificate; connections made with another number are not reused."""
        return self._authenticator.certificate_generation if self._authenticator is not None else 0

    @property
    def identity(self) -> tuple[int, bool]:
        """The identity of a connection made now; connections with another identity are not reused.

        It consists of ``certificates`` and whether there is a client certificate: a connection made before the
        first certificate has none.
        """
        number, pair = self._pair()
        return number, pair is not None

    def grant(self) -> Grant:
        """Return the grant for the next request, running the plugin if necessary. Raises ClusterAuthError."""
        return self._grant(self._authenticator.credential() if self._authenticator is not None else None)

    async def grant_async(self) -> Grant:
        """Return the same as ``grant`` without blocking the event loop."""
        if self._authenticator is None:
            return self._grant(None)
        return self._grant(await self._authenticator.credential_async())

    def renew(self, refused: Grant) -> Grant | None:
        """Return a new grant after a 401 response to *refused*; None if no other credential can be obtained."""
        if self._authenticator is None or refused.credential is None:
            return None
        try:
            return self._grant(self._authenticator.renew(refused.credential))
        except KeyferryError:
            return None  # as in client-go, the caller gets the 401 response and the old credential is kept

    async def renew_async(self, refused: Grant) -> Grant | None:
        """Return the same as ``renew`` without blocking the event loop."""
        if self._authenticator is None or refused.credential is None:
            return None
        try:
            return self._grant(await self._authenticator.renew_async(refused.credential))
        except KeyferryError:
            return None

    def perform(
        self, send: Callable[[Grant], T], is_refused: Callable[[T], bool], *, is_replayable: bool = True
    ) -> T:
        """Send a request; if it is refused, renew the credential and send a replayable request once more."""
        grant = self.grant()
        answer = send(grant)
        if not is_refused(answer):
            return answer
        renewed = self.renew(grant)
        if renewed is None or not self.retries or not is_replayable:
            return answer
        return send(renewed)

    def ssl_context(self, *, ahead: bool = True, grant: Grant | None = None) -> ssl.SSLContext:
        """Return a context for this cluster; each new connection uses the current client certificate.

        With *ahead*, the plugin is run now if there is no credential yet, since its response may contain the
        certificate; otherwise connections have no certificate until the first grant. With a *grant*, no plugin is
        run, and connections use the certificate of that grant, so that a request never mixes two credentials.
        """
        if self.config.insecure and self.config.ca_data:
            text = "specifying a root certificates file with the insecure flag is not allowed"
            message = "certificate-authority and insecure-skip-tls-verify are both set, expected one of them"
            raise ClusterAuthError(self.server, message, text, EnvironmentProblem(message, text))
        if ahead and grant is None and self._authenticator is not None:
            self._authenticator.credential()
        pair = self._pair if grant is None else lambda: (0, self._pair_of(grant.credential))
        from keyferry.clusters.tls import ClusterContext

        return ClusterContext.make(
            ca=self.config.ca_data,
            insecure=self.config.insecure,
            server_name=self.config.tls_server_name,
            pair=pair,
        )

    def _pair(self) -> tuple[int, Pair | None]:
        # The number is read first: an old number with a new pair is corrected by the next read, but a new number
        # with an old pair would be kept.
        number = self.certificates
        return number, self._pair_of(self._authenticator.current() if self._authenticator else None)

    def _pair_of(self, credential: ClusterCredential | None) -> Pair | None:
        if self.config.client_certificate_data:
            # Not decoded strictly: a UnicodeDecodeError would hold the key. OpenSSL rejects invalid PEM anyway.
            certificate = self.config.client_certificate_data.decode("utf-8", "replace")
            return certificate, self.config.client_key_data.decode("utf-8", "replace")
        if credential is None or not credential.certificate_pem:
            return None
        return credential.certificate_pem, credential.key_pem

    def _grant(self, credential: ClusterCredential | None) -> Grant:
        authorization = self._authorization(credential)
        headers = (("Authorization", authorization),) if authorization else ()
        return Grant(headers=(*headers, *self._impersonation), credential=credential)

    def _authorization(self, credential: ClusterCredential | None) -> str:
        if credential is not None:
            return self._bearer(credential.token, is_plugins=True)
        if self._token_file is not None:
            return self._bearer(self._token_file.read())
        if self.config.bearer_token:
            return self._bearer(self.config.bearer_token)
        if self.config.username:
            pair = f"{self.config.username}:{self.config.password}".encode()
            return f"Basic {b64encode(pair).decode()}"
        return ""

    def _bearer(self, token: str, *, is_plugins: bool = False) -> str:
        if not FORBIDDEN.search(token):
            return f"Bearer {token}" if token else ""
        del token  # the traceback of the error would hold it
        message = "the token contains a control character and cannot be sent"
        text = 'net/http: invalid header field value for "Authorization"'
        underlying: KeyferryError = EnvironmentProblem(message, text)
        if is_plugins:
            plugin = self.config.exec.command if self.config.exec is not None else ""
            underlying = PluginProtocolError(plugin, message, text)
        raise ClusterAuthError(self.server, message, text, underlying)


class _TokenFile:
    """A token in a file, which is read again after a minute. If reading fails, the last token is kept.

    A file larger than 1 MiB counts as a failure.
    """

    def __init__(self, config: ClientConfig, monotonic: Callable[[], int]) -> None:
        self._path = config.token_file
        self._token = config.bearer_token.strip()
        self._monotonic = monotonic
        # None means that the file is read at first use: as in client-go, it takes precedence over a static token.
        self._read_ns: int | None = None

    def read(self) -> str:
        """Return the token in the file, or the last one that was read."""
        now = self._monotonic()
        if self._read_ns is None or now - self._read_ns > _TOKEN_FILE_NS:
            self._read_ns = now
            try:
                with open(self._path, encoding="utf-8") as stream:
                    text = stream.read(_MAX_TOKEN + 1)
                if len(text) <= _MAX_TOKEN:
                    self._token = text.strip() or self._token
            except (OSError, ValueError):
                pass
        return self._token


def _impersonation(config: ClientConfig) -> Headers:
    """Return the impersonation headers. Raises ClusterAuthError for a value that cannot be sent."""
    if not config.impersonate:
        return ()
    headers = [("Impersonate-User", config.impersonate)]
    if config.impersonate_uid:
        headers.append(("Impersonate-Uid", config.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in config.impersonate_groups]
    for name, values in config.impersonate_user_extra.items():
        headers += [(f"Impersonate-Extra-{_escape_name(name)}", value) for value in values]
    for name, value in headers:
        if FORBIDDEN.search(value):
            text = f'net/http: invalid header field value for "{name}"'
            message = f"the value of {name} contains a control character and cannot be sent"
            raise ClusterAuthError(config.server, message, text, EnvironmentProblem(message, text))
    return tuple(headers)


def _escape_name(name: str) -> str:
    """Return *name* escaped for a header name, as client-go does."""
    encoded = name.encode("utf-8", "replace")
    return "".join(chr(byte) if byte in _NAME_BYTES else f"%{byte:02X}" for byte in encoded)
