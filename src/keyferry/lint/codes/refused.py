"""What stops a kubelet: title, why it matters, what to do, for each code of severity error."""

REFUSED: dict[str, tuple[str, str, str]] = {
    "KF101": (
        "the config cannot be read",
        "the kubelet exits at its start when the config is missing or it has no permission to read it",
        "check the path and the permissions",
    ),
    "KF102": (
        "the config directory holds no config file",
        (
            "of a directory only names ending in .json, .yaml or .yml are read, in lower case and "
            "not recursively"
        ),
        "put a config there, or rename the file",
    ),
    "KF103": (
        "the file is not valid YAML or JSON",
        (
            "a file that begins with "
            "'{' must be JSON, without comments and trailing commas; any other is YAML 1.1"
        ),
        "mend the syntax at the place named",
    ),
    "KF104": (
        "apiVersion or kind is missing",
        "without them the kubelet cannot tell what the file is",
        "begin with 'apiVersion: kubelet.config.k8s.io/v1' and 'kind: CredentialProviderConfig'",
    ),
    "KF105": (
        "apiVersion and kind are unknown to the kubelet",
        "only CredentialProviderConfig of kubelet.config.k8s.io v1, v1beta1 or v1alpha1 is read",
        "correct apiVersion and kind, or give the right file",
    ),
    "KF106": (
        "the file is of another kind",
        "the kubelet knows this kind, but it is no provider config",
        "give the file whose kind is CredentialProviderConfig",
    ),
    "KF107": (
        "unknown field",
        "decoding is strict: a misspelled field, or one in the wrong case or place, is refused",
        "correct the spelling or remove the field",
    ),
    "KF108": (
        "a key is given more than once",
        "decoding is strict; a YAML merge ('<<') whose keys are overridden counts as well",
        "keep one of them",
    ),
    "KF109": (
        "a value has the wrong type",
        "bare yes, no, on, off, numbers and dates are no strings in YAML",
        "put quotes around the value, or give the type that is expected",
    ),
    "KF110": (
        "not a duration",
        "durations are a number and a unit, ns, us, ms, s, m or h, such as '1h30m'; there are no days",
        "write for example '12h' in place of '1d' or 43200",
    ),
    "KF111": (
        "two providers have the same name",
        "a name is the file name of a plugin and may be used once, across all files of a directory",
        "merge the two entries, or link the plugin under a second name",
    ),
    "KF112": (
        "the config is a directory",
        "a directory as config is read since Kubernetes 1.34 only",
        "give one file, or use Kubernetes 1.34 or later",
    ),
    "KF120": (
        "no provider is configured",
        "an empty config is refused",
        "add a provider, or remove the two flags from the kubelet",
    ),
    "KF121": (
        "a provider name that is no file name",
        "the name is joined to the bin dir; '/', spaces, '.' and '..' are refused",
        "use the plain file name of the plugin",
    ),
    "KF122": (
        "the provider's apiVersion is missing or unknown",
        "it says which version of the protocol the plugin speaks; it is not the config's own apiVersion",
        "write 'apiVersion: credentialprovider.kubelet.k8s.io/v1'",
    ),
    "KF123": (
        "matchImages is missing or empty",
        "a provider without patterns would never be asked",
        "list at least one pattern",
    ),
    "KF124": (
        "a pattern does not parse",
        (
            "patterns are read as URLs without their scheme; character classes, wildcards in "
            "ports, spaces and several other characters do not parse"
        ),
        "write host, host:port or host/path, with * for any part of one host label",
    ),
    "KF125": (
        "defaultCacheDuration is missing",
        "there is no default",
        "add for example 'defaultCacheDuration: 10m'",
    ),
    "KF126": (
        "defaultCacheDuration is negative",
        "only zero or more makes sense",
        "write '0s' to keep nothing",
    ),
    "KF130": (
        "tokenAttributes needs a feature gate that is off",
        "service account tokens for plugins need KubeletServiceAccountTokenForCredentialProviders",
        "turn the gate on (--feature-gates here and on the kubelet), or remove tokenAttributes",
    ),
    "KF131": (
        "the audience of the service account token is missing",
        "a token is made for one audience",
        "set serviceAccountTokenAudience to what the registry's token service expects",
    ),
    "KF132": (
        "requireServiceAccount is missing",
        "it has no default: true means that pods without an account get nothing",
        "write true or false",
    ),
    "KF133": (
        "tokenAttributes needs protocol v1",
        "requests of older versions have no place for a token",
        "set the provider's apiVersion to credentialprovider.kubelet.k8s.io/v1",
    ),
    "KF134": (
        "annotations are required though no service account is",
        "without a service account there are no annotations to require",
        "set requireServiceAccount to true, or make the annotations optional",
    ),
    "KF135": (
        "not an annotation key, or listed twice",
        "keys are qualified names such as example.com/name",
        "correct or remove the key",
    ),
    "KF136": (
        "an annotation is both required and optional",
        "one excludes the other",
        "remove it from one of the lists",
    ),
    "KF137": (
        "cacheType is missing or unknown",
        "it says whether credentials are kept for a service account or for one token of it",
        "write ServiceAccount or Token; Token is the safe choice",
    ),
    "KF138": (
        "a field that this Kubernetes version does not know",
        "tokenAttributes exists since 1.33, its cacheType since 1.34; before that they are unknown fields",
        "remove the field for these nodes, or upgrade them first",
    ),
    "KF140": (
        "the bin dir is missing or unreadable",
        "the kubelet looks there before it reads the config, and exits",
        "create it, or correct --image-credential-provider-bin-dir",
    ),
    "KF141": (
        "a plugin's executable is missing",
        "the kubelet exits at its start when one is missing",
        "install the plugin in the bin dir under the provider's name",
    ),
    "KF142": (
        "a plugin cannot be executed",
        "the kubelet exits at its start when a plugin is a directory or lacks the execute bit",
        "chmod +x the plugin",
    ),
}
