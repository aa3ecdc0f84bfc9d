"""An image credential provider for every registry that trusts an OpenID Connect issuer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from time import monotonic, time

from keyferry.api.federation.presets import PRESETS
from keyferry.sdk import ProvideError, Request, Response, serve
from keyferry.sdk.flags import Flags, read_flags
from keyferry.sdk.stdio import report, try_write
from keyferry_plugins.federation.answer import make_response
from keyferry_plugins.federation.calls import make_calls
from keyferry_plugins.federation.config import FLAGS, find_rule, load_config, read_timeout
from keyferry_plugins.federation.parameters import gather_values
from keyferry_plugins.federation.progress import make_progress
from keyferry_plugins.federation.subject import check_subject, obtain_subject

ABOUT = """\
Exchange the token of a pod's service account, or another token of an OpenID Connect issuer, for a login at a
registry that trusts the issuer. The config has rules for registries, each with a preset or calls of its own."""


def provide(request: Request, flags: Flags, environ: Mapping[str, str] | None = None) -> Response:
    """Return the login for the image's registry by the rule that lists it."""
    environ = os.environ if environ is None else environ
    progress = make_progress(environ, is_verbose=flags.is_on("verbose"))
    with progress.step("rule"):
        rule = find_rule(load_config(flags, environ), request.registry)
        ends_at = monotonic() + read_timeout(flags)
    with progress.step("subject"):
        token = obtain_subject(rule.subject, request, environ, ends_at)
        subject = check_subject(token, rule.subject, time())
        progress.note("token from", rule.subject.source, "with", subject)
        progress.done("the token is the expected one", {"from": rule.subject.source, **subject.claims})
    with progress.step("parameters"):
        values = gather_values(rule, request, token, environ)
    if rule.recipe.calls:
        values = make_calls(rule, values, subject, ends_at, progress)
    with progress.step("login"):
        response = make_response(rule, values, subject, request, time())
        kept, key_type = response.cache_seconds, response.cache_key_type
        progress.note("login for", request.registry, "to keep for", kept, "s by", key_type)
        progress.done(
            f"there is a login for {request.registry}", {"seconds to keep": kept, "cacheKeyType": key_type}
        )
    return response


def _show_preset(name: str) -> None:
    """Print a preset and end the program."""
    if name not in PRESETS:
        error = ProvideError(f"there is no preset {name[:40]!r}, expected one of {', '.join(PRESETS)}")
        report("keyferry-federate", error)
        sys.exit(2)
    try_write(1, json.dumps(PRESETS[name], indent=2).encode() + b"\n")
    sys.exit(0)


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT)
    if flags.text("show-preset"):
        _show_preset(flags.text("show-preset"))
    serve(lambda request: provide(request, flags))
