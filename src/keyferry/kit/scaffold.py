"""Write new projects: that of a plugin, whose tests pass, or the configs of a provider with a preset.

A provider runs ``keyferry-federate``. Its files are for a node: both configs, the RBAC objects, and the steps. Or they
are for the jobs of a CI system, which have no kubelet: a provider config whose arguments take the place of the other
config, and the steps.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
from collections.abc import Mapping, Sequence

from keyferry import __version__
from keyferry._core.paths import format_path
from keyferry.api.federation.presets import PRESETS
from keyferry.api.federation.rules import RULE_FLAGS, CompleteRule, check_config, complete_rule, make_document
from keyferry.api.federation.v1alpha1 import SubjectSource, read_config
from keyferry.api.wire import Reader
from keyferry.errors import EnvironmentProblem, ProvideError
from keyferry.kit import templates
from keyferry.kit.plugin import PluginKind
from keyferry.show.documents import as_yaml
from keyferry.workloads.rbac import node_manifests

__all__ = ["PRESETS", "check_name", "write_project", "write_provider"]

Json = dict[str, object]
Settings = Mapping[str, Sequence[str]]

_NAME = r"[a-z](?:[a-z0-9]|-(?=[a-z0-9])){0,62}"
_TAKEN = ("keyferry", "keyferry_plugins", "pytest", "conftest", "test", "test_plugin", "tests")
_FILES = {PluginKind.IMAGE: templates.IMAGE_FILES, PluginKind.CLUSTER: templates.CLUSTER_FILES}
_WORDS = {
    PluginKind.IMAGE: {
        "about": "An image credential provider for the kubelet",
        "kit_options": "--image registry.example.com/team/app --env {{NAME}}_PASSWORD_FILE=/path/to/password",
        "config_words": "`config/provider.yaml` is for the kubelet; `keyferry lint config/provider.yaml` checks it.",
    },
    PluginKind.CLUSTER: {
        "about": "An exec credential plugin for kubeconfigs",
        "kit_options": "--kind cluster --env {{NAME}}_TOKEN_FILE=/path/to/token",
        "config_words": "`config/kubeconfig.yaml` shows the entry for a kubeconfig.",
    },
}
_CONFIG_FOLDER = "/etc/keyferry"
_BIN_DIR = "/usr/libexec/kubernetes/plugins"
# The subjects that only a job has, and how it gets them.
_TOKEN_STEPS = {
    SubjectSource.GITHUB: templates.GITHUB_STEP,
    SubjectSource.ENV: templates.VARIABLE_STEP,
}


def check_name(name: str) -> str:
    """Return why *name* is not valid for a program, a Python module and a config entry; empty if it is."""
    if not re.fullmatch(_NAME, name):
        return "expected lower-case letters, digits and single dashes, first a letter, at most 63 characters"
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _TAKEN:
        return "Python, keyferry or the tests have a module of that name"
    return ""


def write_project(name: str, kind: PluginKind, folder: str) -> list[str]:
    """Write the project of a plugin into *folder*, which must be new or empty; return the paths of its files.

    Raise EnvironmentProblem. Existing files are never changed.
    """
    module = name.replace("-", "_")
    words = {**_WORDS[kind], "name": name, "module": module, "NAME": module.upper(), "version": __version__}
    return _write_files(
        {_fill(path, words): _fill(text, words) for path, text in _FILES[kind].items()}, folder
    )


def write_provider(name: str, preset: str, settings: Settings, folder: str) -> list[str]:
    """Write the files of a provider into *folder*, which must be new or empty; return their paths.

    *settings* are the values of keyferry-federate's flags, except for the preset. Raise ProvideError if they are no
    config, and EnvironmentProblem if the files cannot be written. Existing files are never changed.
    """
    flags = {**settings, "preset": [preset]}
    # The registry's name is the usual audience; a preset may have one of its own.
    if not flags.get("audience") and "subject" not in PRESETS[preset]:
        flags["audience"] = flags.get("registry", ())[:1]
    reader = Reader()
    config = read_config(_federation_document(flags), reader)
    check_config(config, reader)
    if reader.problems:
        # Each path begins with the only rule.
        problems = (f"{format_path(path[2:])}: {problem.message}" for path, problem in reader.problems)
        raise ProvideError(f"the preset {preset!r} needs other settings: {'; '.join(problems)}")
    rule = complete_rule(config.rules[0])
    path = f"{_CONFIG_FOLDER}/{name}/federation.json"
    words = _provider_words(name, preset, path, rule)
    if rule.subject.source in _TOKEN_STEPS:
        arguments = [f"--{flag}={value}" for flag in RULE_FLAGS for value in flags.get(flag, ())]
        files = {
            "README.md": _fill(templates.JOB_README, words),
            "provider.yaml": _yaml(_provider_config(name, arguments, rule)),
        }
    else:
        files = {
            "README.md": _fill(templates.PROVIDER_README, words),
            "federation.yaml": _yaml(_federation_document(flags)),
            "provider.yaml": _yaml(_provider_config(name, [f"--config={path}"], rule)),
        }
    if _takes_kubelet_token(rule):
        files["rbac.yaml"] = "---\n".join(_yaml(each) for each in node_manifests((rule.subject.audience,)))
    return _write_files(files, folder)


def _takes_kubelet_token(rule: CompleteRule) -> bool:
    return rule.subject.source is SubjectSource.KUBELET


def _provider_config(name: str, args: list[str], rule: CompleteRule) -> Json:
    provider: Json = {
        "name": name,
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": list(rule.registries),
        "defaultCacheDuration": "0s",
        "args": args,
    }
    if _takes_kubelet_token(rule):
        keys = [each.annotation for each in rule.parameters.values() if each.annotation]
        provider["tokenAttributes"] = {
            "serviceAccountTokenAudience": rule.subject.audience,
            # The kubelet refuses a password that is the token, unless it is cached for the token alone.
            "cacheType": "ServiceAccount" if rule.recipe.calls else "Token",
            "requireServiceAccount": True,
            **({"requiredServiceAccountAnnotationKeys": keys} if keys else {}),
        }
    return {
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [provider],
    }


def _provider_words(name: str, preset: str, path: str, rule: CompleteRule) -> dict[str, str]:
    image = f"{rule.registries[0]}/IMAGE"
    tries = f"keyferry plugin try {image} --service-account NAMESPACE/NAME"
    words = {
        "name": name,
        "preset": preset,
        "about": str(PRESETS[preset]["about"]),
        "token_step": _TOKEN_STEPS.get(rule.subject.source, ""),
        "variable": rule.subject.variable,
        "image": image,
        "issuer": rule.subject.issuer,
        "audience": rule.subject.audience,
        "subject": "`system:serviceaccount:NAMESPACE:NAME`",
        "path": path,
        "bin_dir": _BIN_DIR,
        "rbac_step": templates.RBAC_STEP,
        "try_words": tries,
    }
    if not _takes_kubelet_token(rule):
        words["subject"] = "of the token, its claim `sub`"
        words["rbac_step"] = templates.NO_RBAC_STEP
        words["try_words"] = f"keyferry explain {image} --config provider.yaml --bin-dir {_BIN_DIR}"
    return words


def _federation_document(settings: Settings) -> Json:
    """Return a FederationConfig without the fields that are not set."""
    document = make_document(settings, {})
    rules = document["rules"]
    assert isinstance(rules, list)  # noqa: S101 - the document is made here
    return {**document, "rules": [{name: value for name, value in rule.items() if value} for rule in rules]}


def _yaml(document: Json) -> str:
    return f"{as_yaml(document)}\n"


def _fill(text: str, words: Mapping[str, str]) -> str:
    # Twice, since some of the words have placeholders in them.
    for _ in range(2):
        text = re.sub(r"\{\{(\w+)\}\}", lambda match: words.get(match[1], match[0]), text)
    return text


def _write_files(files: Mapping[str, str], folder: str) -> list[str]:
    try:
        if os.path.isdir(folder) and os.listdir(folder):
            raise EnvironmentProblem(f"{folder!r} is not empty; choose another folder with --to")
        return [_write(folder, path, text) for path, text in files.items()]
    except OSError as error:
        raise EnvironmentProblem(f"{folder!r} cannot be written: {(error.strerror or '').lower()}") from None


def _write(folder: str, path: str, text: str) -> str:
    target = os.path.join(folder, *path.split("/"))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "x", encoding="utf-8") as file:
        file.write(text)
    # Whatever the umask is: a config that a group can write is a finding of lint.
    os.chmod(target, 0o644)
    return target
