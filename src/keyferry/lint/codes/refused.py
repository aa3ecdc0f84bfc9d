"""Problems that stop a kubelet, by code: title, reason, correction."""

from __future__ import annotations

REFUSED: dict[str, tuple[str, str, str]] = {
    "KF101": (
        "the config cannot be read",
        "the kubelet exits at startup if the config is missing or cannot be read",
        "check the path and the permissions",
    ),
    "KF102": (
        "the config directory has no config file",
        (
            "in a directory only names ending in .json, .yaml or .yml are read, in lower case and "
            "not recursively"
        ),
        "add a config file, or rename the file",
    ),
    "KF103": (
        "the file is not valid YAML or JSON",
        (
            "a file that begins with "
            "'{' must be JSON, without comments and trailing commas; any other file is YAML 1.1"
        ),
        "correct the syntax at the given position",
    ),
    "KF104": (
        "apiVersion or kind is missing",
        "without them the kubelet does not know the type of the file",
        "begin with 'apiVersion: kubelet.config.k8s.io/v1' and 'kind: CredentialProviderConfig'",
    ),
    "KF105": (
        "apiVersion and kind are unknown to the kubelet",
        "only a CredentialProviderConfig of kubelet.config.k8s.io v1, v1beta1 or v1alpha1 is read",
        "correct apiVersion and kind, or use another file",
    ),
    "KF106": (
        "the file has another kind",
        "the kubelet knows this kind, but it is not a provider config",
        "use a file whose kind is CredentialProviderConfig",
    ),
    "KF107": (
        "unknown field",
        "decoding is strict: a misspelled field, or one in the wrong case or place, is refused",
        "correct the spelling or remove the field",
    ),
    "KF108": (
        "a key is given more than once",
        "decoding is strict, and also refuses a YAML merge ('<<') whose keys are overridden",
        "keep one of them",
    ),
    "KF109": (
        "a value has the wrong type",
        "unquoted yes, no, on, off, numbers and dates are not strings in YAML",
        "put quotes around the value, or use the expected type",
    ),
    "KF110": (
        "a value is not a duration",
        "a duration is a number and a unit, ns, us, ms, s, m or h, such as '1h30m'; there is no unit for days",
        "use for example '12h' instead of '1d' or 43200",
    ),
    "KF111": (
        "two providers have the same name",
        "a name is the file name of a plugin and may be used only once in all files of a directory",
        "merge the two entries, or link the plugin under a second name",
    ),
    "KF112": (
        "the config is a directory",
        "a config directory is supported since Kubernetes 1.34",
        "use one file, or use Kubernetes 1.34 or later",
    ),
    "KF120": (
        "no provider is configured",
        "an empty config is refused",
        "add a provider, or remove the config and bin dir flags of the kubelet",
    ),
    "KF121": (
        "a provider name is not a file name",
        "the name is appended to the bin dir; '/', spaces, '.' and '..' are refused",
        "use the file name of the plugin",
    ),
    "KF122": (
        "the provider's apiVersion is missing or unknown",
        "it is the version of the protocol that the plugin uses, not the config's own apiVersion",
        "set 'apiVersion: credentialprovider.kubelet.k8s.io/v1'",
    ),
    "KF123": (
        "matchImages is missing or empty",
        "a provider without patterns is never used",
        "list at least one pattern",
    ),
    "KF124": (
        "a pattern cannot be parsed",
        (
            "patterns are parsed as URLs without a scheme; character classes, wildcards in "
            "ports, spaces and several other characters are not valid"
        ),
        "use host, host:port or host/path, with * for any part of one host label",
    ),
    "KF125": (
        "defaultCacheDuration is missing",
        "there is no default",
        "add for example 'defaultCacheDuration: 10m'",
    ),
    "KF126": (
        "defaultCacheDuration is negative",
        "the duration must be zero or more",
        "set '0s' to turn caching off",
    ),
    "KF130": (
        "tokenAttributes requires a feature gate that is off",
        "service account tokens for plugins require KubeletServiceAccountTokenForCredentialProviders",
        "turn the gate on (--feature-gates here and on the kubelet), or remove tokenAttributes",
    ),
    "KF131": (
        "the audience of the service account token is missing",
        "a token is issued for one audience",
        "set serviceAccountTokenAudience to the audience that the registry's token service expects",
    ),
    "KF132": (
        "requireServiceAccount is missing",
        "it has no default; with true, pods without a service account get no credentials",
        "set true or false",
    ),
    "KF133": (
        "tokenAttributes requires protocol v1",
        "requests of older versions have no field for a token",
        "set the provider's apiVersion to credentialprovider.kubelet.k8s.io/v1",
    ),
    "KF134": (
        "annotations are required, but no service account is",
        "without a service account there are no annotations",
        "set requireServiceAccount to true, or make the annotations optional",
    ),
    "KF135": (
        "an annotation key is not valid, or listed twice",
        "keys are qualified names such as example.com/name",
        "correct or remove the key",
    ),
    "KF136": (
        "an annotation is both required and optional",
        "a key can be in one of the lists only",
        "remove it from one of the lists",
    ),
    "KF137": (
        "cacheType is missing or unknown",
        "it sets whether credentials are cached for a service account or for one of its tokens",
        "set ServiceAccount or Token; Token is the safe choice",
    ),
    "KF138": (
        "this Kubernetes version does not support a field",
        "tokenAttributes exists since 1.33, its cacheType since 1.34; before that they are unknown fields",
        "remove the field for these nodes, or upgrade them first",
    ),
    "KF140": (
        "the bin dir is missing or cannot be read",
        "the kubelet checks the bin dir before it reads the config, and exits",
        "create it, or correct --image-credential-provider-bin-dir",
    ),
    "KF141": (
        "a plugin's executable is missing",
        "the kubelet exits at startup if one is missing",
        "install the plugin in the bin dir under the provider's name",
    ),
    "KF142": (
        "a plugin cannot be executed",
        "the kubelet exits at startup if a plugin is a directory or has no execute permission",
        "run chmod +x on the plugin",
    ),
}
