"""The FederationConfig of ``keyferry-federate``: read strictly, with the position of the first problem."""

from __future__ import annotations

from keyferry._core.documents import read_json
from keyferry._core.json import loads_with_duplicates
from keyferry._core.paths import Path
from keyferry.api.codec import place_problem
from keyferry.api.federation.presets import PRESETS
from keyferry.api.federation.rules import (
    RULE_FLAGS,
    CompleteRule,
    check_config,
    complete_rule,
    expand_parameter,
    has_form,
    is_cluster_audience,
    make_document,
    read_setting,
)
from keyferry.api.federation.templates import TemplateError, build_url, is_plain, parse_template
from keyferry.api.federation.v1alpha1 import (
    API_VERSION,
    KIND,
    BasicEncoding,
    CacheLifetime,
    ExchangeCall,
    FederationConfig,
    FieldEncoding,
    ParameterSource,
    SubjectSettings,
    SubjectSource,
    read_config,
)
from keyferry.api.wire import Reader
from keyferry.errors import DocumentError, Problem, ProvideError

__all__ = [
    "API_VERSION",
    "KIND",
    "PRESETS",
    "RULE_FLAGS",
    "BasicEncoding",
    "CacheLifetime",
    "CompleteRule",
    "ExchangeCall",
    "FederationConfig",
    "FieldEncoding",
    "ParameterSource",
    "SubjectSettings",
    "SubjectSource",
    "TemplateError",
    "build_url",
    "complete_rule",
    "expand_parameter",
    "has_form",
    "interpret_federation",
    "is_cluster_audience",
    "is_plain",
    "make_document",
    "parse_template",
    "read_federation",
    "read_setting",
]


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
        # Only for an error: positions need regular expressions.

        problem = place_problem(problem, file, read_json(data), path)
    text = str(problem) if data else f"{file}: {problem}"
    others = len(problems) - 1
    more = f" (and {others} more problem{'s' if others > 1 else ''})" if others else ""
    return ProvideError(
        f"{text}{more}", "keyferry-federate --show-preset NAME prints a preset and its parameters"
    )
