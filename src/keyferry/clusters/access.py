"""Access to one cluster with any kind of kubeconfig user: exec plugin, token, basic auth, certificate.

Adapters obtain a *grant* before each request and renew it after a 401 response. The logic that they
share is here; an adapter only translates it to its HTTP library.
"""

from __future__ import annotations

from collections.abc import Callable

from keyferry._core.clock import monotonic_ns
from keyferry._core.values import Value, field
from keyferry.clusters.auth.authenticator import Authenticator
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.headers import FORBIDDEN, Headers, TokenFile, impersonation
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.errors import ClusterAuthError, EnvironmentProblem, KeyferryError, PluginProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import TypeVar

    from keyferry.clusters.tls import Pair

    T = TypeVar("T")

__all__ = ["ClusterAccess", "Grant"]


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
        self._token_file = TokenFile(config, monotonic) if config.token_file else None
        self._impersonation = impersonation(config)

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
        return self._authenticator.certificates if self._authenticator is not None else 0

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
        from keyferry.clusters.tls import (
            ClusterContext,
        )  # imported here: commands that print a token need no TLS

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
        return Grant((*headers, *self._impersonation), credential)

    def _authorization(self, credential: ClusterCredential | None) -> str:
        if credential is not None:
            return self._bearer(credential.token, is_plugins=True)
        if self._token_file is not None:
            return self._bearer(self._token_file.read())
        if self.config.bearer_token:
            return self._bearer(self.config.bearer_token)
        if self.config.username:
            pair = f"{self.config.username}:{self.config.password}".encode()
            from base64 import b64encode  # imported here: few users have a password

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
