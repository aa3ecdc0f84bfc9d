"""The kubelet's checks of a provider config, of the bin dir and of every executable in it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from keyferry._core.gotext import go_strerror, quote
from keyferry._core.host_root import on_host
from keyferry._core.json import dumps
from keyferry._core.paths import Path, format_path
from keyferry.api.codec import aggregate
from keyferry.api.credentialprovider.v1 import API_VERSION as PROVIDER_V1
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ServiceAccountTokenAttributes
from keyferry.api.meta import format_duration
from keyferry.errors import Kind, MatchError, Problem
from keyferry.images.config.read import ReadConfig
from keyferry.images.match import Pattern

PROVIDER_API_VERSIONS = tuple(f"credentialprovider.kubelet.k8s.io/{v}" for v in ("v1", "v1alpha1", "v1beta1"))
CACHE_TYPES = ("ServiceAccount", "Token")
GATE = "KubeletServiceAccountTokenForCredentialProviders"

# A path inside the provider, and a problem that has no position in a file yet.
_Found = tuple[Path, Problem]


def validate(config: ReadConfig, *, service_account_tokens: bool = True) -> tuple[Problem, ...]:
    """Return all problems for which the kubelet would refuse *config*, in its order.

    *service_account_tokens* is the feature gate of that name.
    """
    if not config.providers:
        text = "providers: Required value: at least 1 item in plugins is required"
        message = "no provider is configured, expected at least one"
        problem = Problem("providers", message, code="KF120", kubernetes_text=text)
        return (config.files[0].problem(("providers",), problem) if config.files else problem,)
    return tuple(
        location.problem(at, _indexed(problem, location.index, at))
        for provider, patterns, location in zip(
            config.providers, config.patterns, config.locations, strict=True
        )
        for at, problem in _check_provider(provider, patterns, gate=service_account_tokens)
    )


def kubernetes_validation_text(problems: tuple[Problem, ...]) -> str:
    """Return the problems of validation as one text, as the kubelet joins them."""
    joined = aggregate(problem.kubernetes_text for problem in problems)
    return f"failed to validate credential provider config: {joined}"


def _indexed(problem: Problem, index: int, at: Path) -> Problem:
    return problem.changed(path=format_path(("providers", index, *at)))


def _check_provider(
    provider: CredentialProvider, patterns: tuple[Pattern | MatchError, ...], *, gate: bool
) -> Iterator[_Found]:
    yield from _check_name(provider.name)
    yield from _check_api_version(provider.api_version)
    yield from _check_match_images(provider.match_images or (), patterns)
    yield from _check_duration(provider.default_cache_duration_ns)
    if provider.token_attributes is not None:
        yield from _check_token_attributes(provider.token_attributes, provider.api_version, gate=gate)


def _check_name(name: str) -> Iterator[_Found]:
    for is_wrong, text, message in (
        ("/" in name, "provider name cannot contain '/'", "the name contains '/'"),
        (" " in name, "provider name cannot contain spaces", "the name contains a space"),
        (name == ".", "provider name cannot be '.'", "the name stands for the bin dir itself"),
        (name == "..", "provider name cannot be '..'", "the name stands for the parent of the bin dir"),
    ):
        if is_wrong:
            expected = f"{message}, expected the file name of an executable in the bin dir, found {name!r}"
            yield ("name",), _invalid("KF121", "providers.name", quote(name), text, expected)


def _check_api_version(api_version: str) -> Iterator[_Found]:
    expected = " or ".join(repr(known) for known in PROVIDER_API_VERSIONS)
    if not api_version:
        message = f"apiVersion is missing, expected {PROVIDER_V1!r}"
        yield ("apiVersion",), _required("KF122", "providers.apiVersion", message)
    elif api_version not in PROVIDER_API_VERSIONS:
        text = _not_supported("providers.apiVersion", api_version, PROVIDER_API_VERSIONS)
        message = f"{api_version!r} is not a version of the plugin protocol, expected {expected}"
        yield ("apiVersion",), Problem("", message, code="KF122", kubernetes_text=text)


def _check_match_images(
    texts: tuple[str, ...], patterns: tuple[Pattern | MatchError, ...]
) -> Iterator[_Found]:
    if not texts:
        detail = "at least 1 item in matchImages is required"
        message = "matchImages is missing or empty, expected at least one pattern"
        yield ("matchImages",), _required("KF123", "providers.matchImages", message, detail)
    for index, (text, parsed) in enumerate(zip(texts, patterns, strict=True)):
        if isinstance(parsed, MatchError):
            detail = f"match image is invalid: {parsed.kubernetes_text}"
            problem = _invalid("KF124", "providers.matchImages", quote(text), detail, parsed.message)
            yield ("matchImages", index), problem.changed(kind=Kind.URL)


def _check_duration(nanoseconds: int | None) -> Iterator[_Found]:
    path = "providers.defaultCacheDuration"
    if nanoseconds is None:
        message = "defaultCacheDuration is missing, expected a duration such as '12h' or '0s'"
        yield ("defaultCacheDuration",), _required("KF125", path, message)
    elif nanoseconds < 0:
        shown = format_duration(nanoseconds)
        message = f"found the negative duration {shown!r}, expected '0s' or more"
        detail = "must be greater than or equal to 0"
        yield ("defaultCacheDuration",), _invalid("KF126", path, quote(shown), detail, message)


def _check_token_attributes(
    attributes: ServiceAccountTokenAttributes, api_version: str, *, gate: bool
) -> Iterator[_Found]:
    base = "providers.tokenAttributes"
    if not gate:
        text = f"tokenAttributes is not supported when {GATE} feature gate is disabled"
        message = f"service account tokens need the feature gate {GATE}, which is off"
        yield ("tokenAttributes",), _forbidden("KF130", base, text, message)
    if not attributes.service_account_token_audience:
        path, at = _child("serviceAccountTokenAudience")
        yield at, _required("KF131", path, "the audience of the token is missing")
    if attributes.require_service_account is None:
        path, at = _child("requireServiceAccount")
        yield at, _required("KF132", path, "requireServiceAccount is missing, expected true or false")
    if api_version != PROVIDER_V1:
        text = f"tokenAttributes is only supported for {PROVIDER_V1} API version"
        message = f"service account tokens need the provider's apiVersion to be {PROVIDER_V1!r}, found {api_version!r}"
        yield ("tokenAttributes",), _forbidden("KF133", base, text, message)
    yield from _check_annotations(attributes)
    yield from _check_cache_type(attributes.cache_type)


def _check_annotations(attributes: ServiceAccountTokenAttributes) -> Iterator[_Found]:
    required = attributes.required_service_account_annotation_keys or ()
    optional = attributes.optional_service_account_annotation_keys or ()
    if attributes.require_service_account is False and required:
        path, at = _child("requiredServiceAccountAnnotationKeys")
        text = "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set"
        message = "annotations are required though requireServiceAccount is false"
        yield at, _forbidden("KF134", path, text, message)
    yield from _check_annotation_keys("requiredServiceAccountAnnotationKeys", required)
    yield from _check_annotation_keys("optionalServiceAccountAnnotationKeys", optional)
    both = sorted(set(required) & set(optional))
    if both:
        text = "annotation keys cannot be both required and optional"
        message = f"annotation keys are both required and optional: {', '.join(map(repr, both))}"
        yield ("tokenAttributes",), _invalid("KF136", "providers.tokenAttributes", dumps(both), text, message)


def _check_annotation_keys(field: str, keys: tuple[str, ...]) -> Iterator[_Found]:
    path, at = _child(field)
    seen: set[str] = set()
    for index, key in enumerate(keys):
        for rule, example in qualified_name_problems(key.lower()):
            message = f"{key!r} is not an annotation key: {rule}"
            yield (*at, index), _invalid("KF135", path, quote(key), f"{rule}{example}", message)
        if key in seen:
            text = f"{path}: Duplicate value: {quote(key)}"
            yield (*at, index), Problem("", f"{key!r} is listed twice", code="KF135", kubernetes_text=text)
        seen.add(key)


def _check_cache_type(cache_type: str) -> Iterator[_Found]:
    path, at = _child("cacheType")
    expected = " or ".join(map(repr, CACHE_TYPES))
    if not cache_type:
        detail = (
            "cacheType is required to be set when tokenAttributes is specified. "
            f"Supported values are: {', '.join(CACHE_TYPES)}"
        )
        yield at, _required("KF137", path, f"cacheType is missing, expected {expected}", detail)
    elif cache_type not in CACHE_TYPES:
        text = _not_supported(path, cache_type, CACHE_TYPES)
        yield (
            at,
            Problem("", f"found {cache_type!r}, expected {expected}", code="KF137", kubernetes_text=text),
        )


def _child(field: str) -> tuple[str, Path]:
    return f"providers.tokenAttributes.{field}", ("tokenAttributes", field)


def _required(code: str, path: str, message: str, detail: str = "") -> Problem:
    text = f"{path}: Required value" + (f": {detail}" if detail else "")
    return Problem("", message, code=code, kubernetes_text=text)


def _invalid(code: str, path: str, shown: str, detail: str, message: str) -> Problem:
    return Problem("", message, code=code, kubernetes_text=f"{path}: Invalid value: {shown}: {detail}")


def _forbidden(code: str, path: str, detail: str, message: str) -> Problem:
    return Problem("", message, code=code, kubernetes_text=f"{path}: Forbidden: {detail}")


def _not_supported(path: str, value: str, supported: tuple[str, ...]) -> str:
    values = ", ".join(quote(item) for item in supported)
    return f"{path}: Unsupported value: {quote(value)}: supported values: {values}"


_NAME_FORM = "[A-Za-z0-9][-A-Za-z0-9_.]*"
_NAME = f"({_NAME_FORM})?[A-Za-z0-9]"
_MAX_NAME = 63
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_MAX_SUBDOMAIN = 253
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_NAME_EXAMPLE = f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character"
)
_SUBDOMAIN_EXAMPLE = f" (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"

# Kubernetes' texts for the rule that a name breaks, and for the example after it.
_Broken = tuple[str, str]


def qualified_name_problems(name: str) -> list[_Broken]:
    """Return the rules of a qualified name (``example.com/my-name``) that *name* breaks, each with its example."""
    prefix, slash, rest = name.partition("/")
    if "/" in rest:
        more = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [(f"a valid label key {_NAME_RULE}", f"{_NAME_EXAMPLE}{more}")]
    problems = _subdomain_problems(prefix) if slash else []
    return problems + _name_part_problems(rest if slash else name)


def _subdomain_problems(prefix: str) -> list[_Broken]:
    if not prefix:
        return [("prefix part must be non-empty", "")]
    problems = []
    if len(prefix.encode()) > _MAX_SUBDOMAIN:
        problems.append((f"prefix part must be no more than {_MAX_SUBDOMAIN} bytes", ""))
    if not re.fullmatch(_SUBDOMAIN, prefix):
        problems.append((f"prefix part {_SUBDOMAIN_RULE}", _SUBDOMAIN_EXAMPLE))
    return problems


def _name_part_problems(name: str) -> list[_Broken]:
    problems = []
    if not name:
        problems.append(("name part must be non-empty", ""))
    elif len(name.encode()) > _MAX_NAME:
        problems.append((f"name part must be no more than {_MAX_NAME} bytes", ""))
    if not re.fullmatch(_NAME, name):
        problems.append((f"name part {_NAME_RULE}", _NAME_EXAMPLE))
    return problems


def check_bin_dir(bin_dir: str) -> Problem | None:
    """Return the kubelet's problem with the bin dir, or None; the kubelet checks it before it reads the config."""
    try:
        os.stat(on_host(bin_dir))
    except FileNotFoundError:
        text = f"plugin binary directory {bin_dir} did not exist"
        return Problem("", "the bin dir does not exist", code="KF140", kubernetes_text=text, file=bin_dir)
    except (OSError, ValueError) as error:
        reason = go_strerror(error)
        text = f"error inspecting binary directory {bin_dir}: stat {bin_dir}: {reason}"
        return Problem(
            "", f"the bin dir cannot be read: {reason}", code="KF140", kubernetes_text=text, file=bin_dir
        )
    return None


def check_executables(config: ReadConfig, bin_dir: str) -> tuple[Problem | None, ...]:
    """Return for each provider, in order, the problem with its executable, or None."""
    return tuple(
        _check_executable(plugin_path(bin_dir, provider.name), config, index)
        for index, provider in enumerate(config.providers)
    )


def plugin_path(bin_dir: str, name: str) -> str:
    """Return the path of a provider's executable, joined and cleaned as in Go: the bin dir for an empty name."""
    return os.path.normpath(f"{bin_dir}/{name}" if name else bin_dir)


def _check_executable(path: str, config: ReadConfig, index: int) -> Problem | None:
    try:
        mode = os.stat(on_host(path)).st_mode
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            # Two spaces: Kubernetes prints an empty path here.
            return _place(
                config,
                index,
                "KF141",
                f"the executable {_shown(path)} is missing",
                "plugin binary executable  did not exist",
            )
        return _place(
            config,
            index,
            "KF142",
            f"{_shown(path)} cannot be read: {go_strerror(error)}",
            _inspecting(path, f"stat {path}: {go_strerror(error)}"),
        )
    if stat.S_ISDIR(mode):
        return _place(
            config,
            index,
            "KF142",
            f"{_shown(path)} is a directory, expected an executable",
            _inspecting(path, "is a directory"),
        )
    if not is_executable(path, mode):
        return _place(
            config,
            index,
            "KF142",
            f"{_shown(path)} is not executable; chmod +x {_shown(path)}",
            _inspecting(path, "permission denied"),
        )
    return None


def is_executable(path: str, mode: int) -> bool:
    """Return whether this process may execute a file; root needs at least one execute bit."""
    effective = os.access in os.supports_effective_ids
    return os.access(on_host(path), os.X_OK, effective_ids=effective) and bool(
        mode & 0o111 or os.name == "nt"
    )


def _inspecting(path: str, reason: str) -> str:
    return f"error inspecting binary executable : exec: {quote(path)}: {reason}"


def _place(config: ReadConfig, index: int, code: str, message: str, text: str) -> Problem:
    location = config.locations[index]
    problem = Problem(f"providers[{location.index}].name", message, code=code, kubernetes_text=text)
    return location.problem(("name",), problem)


def _shown(path: str) -> str:
    """Return a path for a message, quoted if it contains characters that a terminal interprets."""
    return path if path.isprintable() else repr(path)
