"""The values that a recipe refers to by name."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Mapping

from keyferry.api.federation.rules import CompleteRule, expand_parameter, has_form
from keyferry.api.federation.templates import is_plain, parse_template
from keyferry.api.federation.v1alpha1 import ParameterSource
from keyferry.sdk import ProvideError, Request
from keyferry.sdk.files import read_bounded

_MAX_ANNOTATION = 253
_MAX_SECRET = 1 << 16
_PATTERN_SECONDS = 2


def gather_values(
    rule: CompleteRule, request: Request, subject: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the values that the calls start with: the built-in ones and the parameters."""
    registry = request.registry
    values = {
        "subject": subject,
        "registry": registry,
        "image": request.image,
        "repository": _repository(request.image),
    }
    for name, source in rule.parameters.items():
        value = _read(name, source, request, environ)
        values[name] = expand_parameter(value, registry) if source.text else value
        known = rule.forms.get(name)
        # A text is checked with the config; here it may also be an optional one that is not given.
        if known is not None and not source.text and value and not has_form(known, value):
            raise ProvideError(f"the parameter {name!r} has another form, expected {known.expected}")
    return values


def _repository(image: str) -> str:
    """Return the name of an image's repository, without registry, tag and digest."""
    name = image.partition("/")[2].partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}"


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return a template with its values."""
    return "".join([piece.text + values.get(piece.name, "") for piece in parse_template(text).pieces])


def _read(name: str, source: ParameterSource, request: Request, environ: Mapping[str, str]) -> str:
    if source.annotation:
        return _read_annotation(name, source, request)
    if source.variable:
        return _checked(name, environ.get(source.variable, ""), f"the variable {source.variable!r}")
    if source.file:
        data = read_bounded(source.file, f"the parameter {name!r} in", _MAX_SECRET)
        return _checked(name, data.decode("utf-8", "replace").strip("\r\n"), f"the file {source.file!r}")
    return source.text


def _checked(name: str, value: str, where: str) -> str:
    if not value or not is_plain(value):
        raise ProvideError(f"the parameter {name!r} is missing in {where}, or has a control character")
    return value


def _read_annotation(name: str, source: ParameterSource, request: Request) -> str:
    value = request.service_account_annotations.get(source.annotation, "")
    if not value:
        raise ProvideError(
            f"the service account has no annotation {source.annotation!r}, which the parameter {name!r} needs",
            "add it to the service account, and to requiredServiceAccountAnnotationKeys in the kubelet's config",
        )
    # The value is not shown: whoever wrote it can put anything into the kubelet's log.
    if len(value) > _MAX_ANNOTATION or not is_plain(value) or not _matches(source.pattern, value):
        raise ProvideError(
            f"the annotation {source.annotation!r} of the service account does not match {source.pattern!r}"
        )
    return value


def _matches(pattern: str, value: str) -> bool:
    """Return whether the whole value matches; a pattern that backtracks for too long does not."""
    if sys.platform == "win32":
        return re.fullmatch(pattern, value) is not None

    def stop(_number: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_PATTERN_SECONDS)
    try:
        return re.fullmatch(pattern, value) is not None
    except TimeoutError:
        return False
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
