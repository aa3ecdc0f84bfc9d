"""Log in as an application, by its secret or certificate."""

from __future__ import annotations

from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk import Deadline
    from keyferry_plugins.azure.entra import Application
    from keyferry_plugins.azure.options import Options
    from keyferry_plugins.azure.tokens import Token

__all__ = ["LEGACY_PATH", "log_in_as_application"]

LEGACY_PATH = "oauth2/token?api-version=1.0"


def log_in_as_application(
    options: Options, application: Application, deadline: Deadline, proof: Mapping[str, str]
) -> Token:
    """Return a token for the application itself; *proof* holds the fields that bind it to a key."""
    from keyferry_plugins.azure.entra import post_form, read_reply

    if bool(options.client_secret) == bool(options.certificate):
        found = "both are" if options.certificate else "neither is"
        raise ProvideError(
            f"login spn needs either a client secret or a client certificate, but {found} given",
            "set AZURE_CLIENT_SECRET, or AZURE_CLIENT_CERTIFICATE_PATH",
        )
    url = application.url(LEGACY_PATH) if options.is_legacy else application.token_url
    fields = {"grant_type": "client_credentials", "client_id": application.client_id}
    fields |= {"resource": options.resource} if options.is_legacy else {"scope": options.scope}
    fields |= _proof_of_client(options, application, url) | dict(proof)
    reply = post_form(url, fields, application, deadline=deadline)
    return read_reply(reply, (options.client_secret, options.certificate_password))


def _proof_of_client(options: Options, application: Application, url: str) -> dict[str, str]:
    from keyferry_plugins.azure.certificate import sign_assertion
    from keyferry_plugins.azure.entra import assertion_fields

    if options.client_secret:
        return {"client_secret": options.client_secret}
    assertion = sign_assertion(
        application,
        options.certificate,
        options.certificate_password,
        audience=url,
        is_legacy=options.is_legacy,
    )
    return assertion_fields(assertion)
