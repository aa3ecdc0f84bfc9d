"""Service accounts for providers whose tokens are requested from the API server, as the kubelet does."""

from keyferry._core.values import Value
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_call import ApiProblem
from keyferry.clusters.token_request import BoundPod, request_token
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.images.provider.accounts import NotGivenError, ServiceAccount, TokenRequest

__all__ = ["RequestedTokens"]


class RequestedTokens(Value):
    """One account, whose tokens are requested for the audience of each provider, bound to the pod if there is one."""

    session: ClusterAccess
    account: ServiceAccount
    timeout_seconds: float = 60.0

    def get(self, namespace: str, name: str) -> ServiceAccount:  # noqa: ARG002 - there is only one
        """Return the account for any name."""
        return self.account

    def token(self, request: TokenRequest) -> str:
        """Return a token; raise NotGivenError if this user does not get it, since a kubelet may get it."""
        pod = BoundPod(request.pod.name, request.pod.uid) if request.pod.name else None
        answer = request_token(
            self.session,
            request.account.namespace,
            request.account.name,
            audience=request.audience,
            pod=pod,
            account_uid=request.account.uid,
            timeout_seconds=self.timeout_seconds,
        )
        if isinstance(answer, ApiProblem):
            account = f"{request.account.namespace}/{request.account.name}"
            raise NotGivenError((MissingInput(LookupInput.SERVICE_ACCOUNT_TOKEN, account, str(answer)),))
        return answer.token
