"""The flags of keyferry-federate, and its config: a file that no other user can write, or flags and variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from keyferry._core.documents import read_json
from keyferry._core.json import loads_with_duplicates
from keyferry._core.paths import Path
from keyferry.api.codec import place_problem
from keyferry.api.federation.rules import (
    RULE_FLAGS,
    CompleteRule,
    check_config,
    complete_rule,
    make_document,
    read_setting,
)
from keyferry.api.federation.v1alpha1 import FederationConfig, read_config
from keyferry.api.wire import Reader
from keyferry.errors import DocumentError, Problem
from keyferry.sdk import IMAGE, REGISTRY, ProvideError
from keyferry.sdk.files import read_bounded
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags, read_seconds

FLAGS = (
    Flag(
        name="config",
        about="a FederationConfig as JSON; the flags from --registry to --ca-file take its place",
    ),
    Flag(name="registry", about="a registry that the login is for, as in image names", is_repeated=True),
    Flag(name="preset", about="the preset to use; --show-preset prints one"),
    Flag(name="param", about="NAME=VALUE, a parameter of the preset", is_repeated=True),
    Flag(name="param-annotation", about="NAME=KEY=PATTERN, a parameter from an annotation", is_repeated=True),
    Flag(name="param-file", about="NAME=PATH, a parameter whose value is in a file", is_repeated=True),
    Flag(name="param-env", about="NAME=VARIABLE, a parameter whose value is in a variable", is_repeated=True),
    Flag(name="audience", about="the audience that the token must have"),
    Flag(name="issuer", about="the issuer that the token must have"),
    Flag(name="subject-from", about="where the token is: kubelet, file, env or github"),
    Flag(name="subject-file", about="the file that the token is in"),
    Flag(name="subject-variable", about="the variable that the token is in"),
    Flag(name="cache-key-type", about="the images that a login applies to", choices=(REGISTRY, IMAGE)),
    Flag(name="ca-file", about="a bundle of authorities to trust in place of the system's"),
    Flag(name="timeout", about="the time for all calls together, at most 50s", default="45s"),
    Flag(name="verbose", about="tell each step on standard error, without secrets", is_switch=True),
    Flag(name="show-preset", about="print a preset, which can be the start of a recipe, and exit"),
    *LOG_FLAGS,
)
# The kubelet kills a plugin after 60 seconds and discards its error message.
_MAX_SECONDS = 50.0
_MAX_BYTES = 1 << 20
_OTHERS_WRITE = 0o022


def read_timeout(flags: Flags) -> float:
    """Return the seconds for all calls together."""
    expected = f"up to {_MAX_SECONDS:g}s"
    return read_seconds("--timeout", flags.text("timeout"), expected=expected, max_seconds=_MAX_SECONDS)


def load_config(flags: Flags, environ: Mapping[str, str]) -> FederationConfig:
    """Return the config that the flags and variables name or stand for; raise ProvideError for a problem in it."""
    path = read_setting(flags.values, environ, "config")
    if path:
        _refuse_both(flags)

        def check(status: os.stat_result) -> None:
            _check_owner(path, status)

        return read_federation(read_bounded(path, "the config", _MAX_BYTES, check=check), path)
    document = make_document(flags.values, environ)
    if not read_setting(flags.values, environ, "preset") and not read_setting(
        flags.values, environ, "registry"
    ):
        raise ProvideError(
            "there is no config",
            "add --config FILE to the provider's args, or --registry, --preset and its settings",
        )
    return interpret_federation(document, "the flags and variables")


def _check_owner(path: str, status: os.stat_result) -> None:
    """Raise ProvideError if another user can write the file: it decides where tokens are sent."""
    if sys.platform == "win32":
        return
    if status.st_mode & _OTHERS_WRITE or status.st_uid not in (0, os.geteuid()):
        raise ProvideError(
            f"the config {path!r} can be written by other users, who could choose where tokens are sent",
            "make root its owner, and close it to others: chmod go-w",
        )


def find_rule(config: FederationConfig, registry: str) -> CompleteRule:
    """Return the rule for the host and port of an image; raise ProvideError if no rule lists exactly that."""
    for rule in config.rules:
        if registry in rule.registries:
            return complete_rule(rule)
    listed = [each for rule in config.rules for each in rule.registries]
    more = ", ..." if len(listed) > 5 else ""
    raise ProvideError(
        f"no rule is for the registry {registry[:255]!r}, only for {', '.join(listed[:5])}{more}",
        "add the registry to a rule, or narrow matchImages in the kubelet's config",
    )


def _refuse_both(flags: Flags) -> None:
    """Raise ProvideError if there are a config and flags that would take its place."""
    given = [f"--{name}" for name in RULE_FLAGS if name in flags.given]
    if given:
        raise ProvideError(
            f"--config cannot be used with {', '.join(given)}", "write these settings into the config"
        )


def read_federation(data: bytes, file: str) -> FederationConfig:
    """Return the config in *data*, the JSON text of *file*; raise ProvideError for the first problem."""
    try:
        document, repeated = loads_with_duplicates(data)
    except DocumentError as error:
        where = "".join(f":{number}" for number in (error.line, error.column) if number)
        raise ProvideError(f"{file}{where}: {error.message}", "the plugin reads JSON, not YAML") from None
    reader = Reader(repeated)
    config = read_config(document, reader)
    check_config(config, reader)
    if reader.problems:
        raise _explain(reader.problems, file, data)
    return config


def interpret_federation(document: object, what: str) -> FederationConfig:
    """Return the config in a *document* that was made of *what*, such as flags; raise ProvideError for a problem."""
    reader = Reader()
    config = read_config(document, reader)
    check_config(config, reader)
    if reader.problems:
        raise _explain(reader.problems, what)
    return config


def _explain(problems: list[tuple[Path, Problem]], file: str, data: bytes = b"") -> ProvideError:
    """Return an error with the first problem and its position in *data*."""
    path, problem = problems[0]
    if data:
        problem = place_problem(problem, file, read_json(data), path)
    text = str(problem) if data else f"{file}: {problem}"
    others = len(problems) - 1
    more = f" (and {others} more problem{'s' if others > 1 else ''})" if others else ""
    return ProvideError(
        f"{text}{more}", "keyferry-federate --show-preset NAME prints a preset and its parameters"
    )
