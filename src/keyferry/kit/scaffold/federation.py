"""The files of a provider that runs ``keyferry-federate`` with a preset, for a node or for the jobs of a CI system.

For a node: both configs, the RBAC objects, and the steps. For jobs, which have no kubelet: a provider config whose
arguments take the place of the other config, and the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyferry._core.paths import format_path
from keyferry.api.federation.presets import PRESETS
from keyferry.api.federation.rules import RULE_FLAGS, CompleteRule, check_config, complete_rule, make_document
from keyferry.api.federation.v1alpha1 import FederationConfig, SubjectSource, read_config
from keyferry.api.wire import Reader
from keyferry.show.documents import as_yaml
from keyferry.workloads.rbac import node_manifests

__all__ = ["CONFIG_FOLDER", "PRESETS", "find_setting_problems", "make_provider_files"]

Json = dict[str, object]
Settings = Mapping[str, Sequence[str]]

CONFIG_FOLDER = "/etc/keyferry"
_BIN_DIR = "/usr/libexec/kubernetes/plugins"

_README = """\
# {{name}}

A provider for the kubelet that runs `keyferry-federate` with the preset `{{preset}}`: {{about}}.

1. On the registry's side, trust the issuer `{{issuer}}` for the audience `{{audience}}`
   and the subject {{subject}}. keyferry's `docs/plugins/federation.md` says how, for each preset.
{{rbac_step}}3. Check both configs, also with what only both together show:

       keyferry lint provider.yaml federation.yaml

4. On the node, add the entry of `provider.yaml` to the kubelet's provider config. Then install the plugin and its
   config, which is written as JSON to `{{path}}`:

       sudo keyferry plugin install federate --as {{name}} --bin-dir {{bin_dir}} \\
         --federation-config federation.yaml --config provider.yaml

5. Restart the kubelet if its provider config has changed, and try the whole chain:

       {{try_words}}
"""
_RBAC_STEP = """\
2. Let kubelets request tokens for the audience:

       kubectl apply -f rbac.yaml

"""
_NO_RBAC_STEP = """\
2. The token is not the kubelet's, so kubelets need no further permission.
"""
_JOB_README = """\
# {{name}}

A provider config for CI jobs that runs `keyferry-federate` with the preset `{{preset}}`: {{about}}.
The subject is the job's own token, so nothing is stored. No kubelet has such a token, so this is not for a node.

1. On the registry's side, trust the issuer `{{issuer}}` for the audience `{{audience}}`
   and the subject of the job, the claim `sub` of its token. keyferry's `docs/plugins/federation.md` says how, for
   each preset.
2. Give the job a token{{token_step}}

3. Check the config:

       keyferry lint provider.yaml

4. In the job, install keyferry. In this folder, install the plugin, and add `docker-credential-keyferry` to
   docker's config:

       mkdir -p bin
       keyferry plugin install federate --as {{name}} --bin-dir bin
       export KEYFERRY_CONFIG="$PWD/provider.yaml" KEYFERRY_BIN_DIR="$PWD/bin"
       keyferry bridge docker install

   From then on docker, podman, skopeo, buildah and crane ask it for the login, in every step that has both variables.
   To see the whole lookup, or what is wrong:

       keyferry explain {{image}}
"""
_TOKEN_STEPS = {
    SubjectSource.GITHUB: """ of GitHub Actions:

       permissions:
         contents: read
         id-token: write""",
    SubjectSource.ENV: """ in the variable `{{variable}}`; in GitLab:

       id_tokens:
         {{variable}}:
           aud: {{audience}}""",
}


def find_setting_problems(settings: Settings) -> tuple[str, ...]:
    """Return why *settings*, the values of keyferry-federate's flags, are not a config; empty if they are.

    Raise ProvideError for a parameter that is not a pair of name and value.
    """
    reader = Reader()
    _read(settings, reader)
    # Each path begins with the only rule.
    return tuple(f"{format_path(path[2:])}: {problem.message}" for path, problem in reader.problems)


def make_provider_files(name: str, settings: Settings) -> dict[str, str]:
    """Return the text of each file, by its path; *settings* have no problems."""
    rule = complete_rule(_read(settings, Reader()).rules[0])
    path = f"{CONFIG_FOLDER}/{name}/federation.json"
    words = _words(name, settings["preset"][-1], path, rule)
    if rule.subject.source in _TOKEN_STEPS:
        return {
            "README.md": _fill(_JOB_README, words),
            "provider.yaml": _yaml(_provider_config(name, _arguments(settings), rule)),
        }
    files = {
        "README.md": _fill(_README, words),
        "federation.yaml": _yaml(_without_empty(make_document(settings, {}))),
        "provider.yaml": _yaml(_provider_config(name, [f"--config={path}"], rule)),
    }
    if _takes_kubelet_token(rule):
        files["rbac.yaml"] = "---\n".join(_yaml(each) for each in node_manifests((rule.subject.audience,)))
    return files


def _takes_kubelet_token(rule: CompleteRule) -> bool:
    return rule.subject.source is SubjectSource.KUBELET


def _arguments(settings: Settings) -> list[str]:
    return [f"--{flag}={value}" for flag in RULE_FLAGS for value in settings.get(flag, ())]


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


def _words(name: str, preset: str, path: str, rule: CompleteRule) -> dict[str, str]:
    image = f"{rule.registries[0]}/IMAGE"
    tries = f"keyferry plugin try {image} --service-account NAMESPACE/NAME"
    words = {
        "name": name,
        "preset": preset,
        "about": str(PRESETS[preset]["about"]),
        # First, because it has words in it.
        "token_step": _TOKEN_STEPS.get(rule.subject.source, ""),
        "variable": rule.subject.variable,
        "image": image,
        "issuer": rule.subject.issuer,
        "audience": rule.subject.audience,
        "subject": "`system:serviceaccount:NAMESPACE:NAME`",
        "path": path,
        "bin_dir": _BIN_DIR,
        "rbac_step": _RBAC_STEP,
        "try_words": tries,
    }
    if not _takes_kubelet_token(rule):
        words["subject"] = "of the token, its claim `sub`"
        words["rbac_step"] = _NO_RBAC_STEP
        words["try_words"] = f"keyferry explain {image} --config provider.yaml --bin-dir {_BIN_DIR}"
    return words


def _read(settings: Settings, reader: Reader) -> FederationConfig:
    config = read_config(_without_empty(make_document(settings, {})), reader)
    check_config(config, reader)
    return config


def _without_empty(document: Json) -> Json:
    """Return the document without the fields that are not set."""
    rules = document["rules"]
    assert isinstance(rules, list)  # noqa: S101 - the document is made here
    return {**document, "rules": [{name: value for name, value in rule.items() if value} for rule in rules]}


def _yaml(document: Json) -> str:
    return f"{as_yaml(document)}\n"


def _fill(text: str, words: Mapping[str, str]) -> str:
    for name, word in words.items():
        text = text.replace("{{" + name + "}}", word)
    return text
