"""Problems of a FederationConfig, alone and with its provider config: title, reason, correction; refusals first."""

from __future__ import annotations

from keyferry.api.federation.v1alpha1 import API_VERSION, KIND

_REFUSED = "the plugin refuses the whole config, so no registry of it gets a login"

REFUSED_FEDERATION: dict[str, tuple[str, str, str]] = {
    "KF601": (
        "the FederationConfig is not valid YAML or JSON",
        _REFUSED,
        "correct the syntax at the given position",
    ),
    "KF602": (
        "the FederationConfig has another version or kind",
        f"the plugin reads kind {KIND} of {API_VERSION} only",
        f"set 'apiVersion: {API_VERSION}' and 'kind: {KIND}'",
    ),
    "KF603": (
        "unknown field",
        f"decoding is strict: {_REFUSED}",
        "correct the spelling or remove the field",
    ),
    "KF604": ("a key is given more than once", f"decoding is strict: {_REFUSED}", "keep one of them"),
    "KF605": (
        "a value has the wrong type, or is not a duration",
        f"numbers and unquoted yes, no, on, off are not strings in YAML; {_REFUSED}",
        "put quotes around the value, or use the expected type",
    ),
    "KF606": ("there are no rules", _REFUSED, "add a rule with registries, subject and preset"),
    "KF607": (
        "a registry is missing, invalid or in two rules",
        "registries are compared with the image's host and port, to the letter; there are no patterns",
        "list each host once, in lower case, with its port if image names have it",
    ),
    "KF608": (
        "a rule has no preset and no recipe, both, or an unknown preset",
        _REFUSED,
        "set preset to one of 'keyferry-federate --show-preset', or write calls and credentials",
    ),
    "KF609": (
        "the subject's settings are incomplete or do not fit together",
        "audience and issuer are compared with the token before it is sent anywhere",
        "set subject.audience and subject.issuer, and file or variable only for that source",
    ),
    "KF610": (
        "the audience is the API server's own",
        "whoever receives such a token can use it at the API server, with all permissions of the account",
        "choose an audience of the registry's own, such as its host name",
    ),
    "KF611": (
        "a parameter is missing, unknown or invalid",
        f"a parameter is a text, or an object with annotation and pattern, file or env; {_REFUSED}",
        "'keyferry-federate --show-preset NAME' prints the parameters of a preset",
    ),
    "KF612": (
        "a recipe does what is not allowed",
        "which value may be used where is limited, so that neither an annotation nor a server's response decides where "
        "a token is sent",
        "see the table of places in docs/plugins/federation.md",
    ),
    "KF613": (
        "cacheKeyType or caFile is invalid",
        "a login for one image must not be used for others of the registry, and a relative path depends on the folder "
        "that the kubelet runs in",
        "set Registry or Image, or an absolute path",
    ),
}

SUSPECT_FEDERATION: dict[str, tuple[str, str, str]] = {
    "KF650": (
        "the FederationConfig contains a secret",
        "the file is often readable by all users, and copied to images and backups",
        "use a parameter with file or env in place of the text",
    ),
    "KF651": (
        "the issuer is not an https URL",
        "a registry reads the issuer's keys from its URL, and trusts none without https",
        "use the issuer of 'kubectl get --raw /.well-known/openid-configuration', in its own spelling",
    ),
    "KF652": (
        "a token is sent to an IP address",
        "an address can belong to another machine tomorrow, and few certificates name one",
        "use a host name",
    ),
    "KF653": (
        "a pattern for an annotation matches everything",
        "whoever may annotate a service account then chooses any identity at the registry",
        "list the names that are allowed, such as 'team\\+[a-z]+'",
    ),
    "KF654": (
        "the audience is nearly the issuer",
        "the API server's own audience is usually the issuer; a token for it can be used at the API server",
        "choose an audience of the registry's own",
    ),
    "KF655": (
        "a file of the config does not exist on this machine",
        "the plugin fails without it",
        "create it, or correct the path",
    ),
    "KF656": (
        "other users can write the FederationConfig",
        "they could choose where tokens are sent, so the plugin refuses the file",
        "make root its owner, and run chmod go-w on it",
    ),
    "KF657": (
        "rules for the kubelet's token have different audiences",
        "a provider entry has one audience, so one entry cannot serve all of these rules",
        "use one audience, or install the plugin under a second name, with an entry for the other audience",
    ),
    "KF658": (
        "further YAML documents are ignored",
        "only the first document of a file is read",
        "put all rules in one list",
    ),
    "KF659": (
        "a FederationConfig is nested in another document",
        "the plugin reads only a file that is a FederationConfig, as JSON; another tool must take this one out of the "
        "document",
        "nothing, if such a tool does so; else put the config in a file of its own",
    ),
    "KF670": (
        "cacheType must be Token for a rule that passes the token on",
        "with ServiceAccount, the kubelet refuses a response whose password is the token",
        "set cacheType: Token",
    ),
    "KF671": (
        "the kubelet requests another audience than the rule expects",
        "the plugin compares the audience to the letter, and sends the token nowhere",
        "set serviceAccountTokenAudience and the rule's audience to the same text",
    ),
    "KF672": (
        "the kubelet passes no token to the plugin",
        "a rule takes the kubelet's token, which a provider without tokenAttributes does not get",
        "add tokenAttributes, with the rule's audience",
    ),
    "KF673": (
        "matchImages covers registries without a rule",
        "the plugin refuses their images, and the kubelet logs an error for each pull",
        "list the registries of the rules, without wildcards",
    ),
    "KF674": (
        "matchImages does not cover a registry of a rule",
        "the kubelet does not run the plugin for its images, and pulls them without a login",
        "add the registry to matchImages",
    ),
    "KF675": (
        "the kubelet does not pass an annotation that a rule uses",
        "the kubelet passes only the annotations that the provider lists, so the plugin fails",
        "add the key to requiredServiceAccountAnnotationKeys",
    ),
    "KF676": (
        "defaultCacheDuration has no effect",
        "keyferry-federate always sets the duration, from the login's own lifetime",
        "set '0s'",
    ),
    "KF677": (
        "pods without a service account run the plugin",
        "the plugin then gets no token, and fails",
        "set requireServiceAccount: true",
    ),
    "KF678": (
        "the FederationConfig of a provider does not exist on this machine",
        "the plugin fails without it",
        "write it with 'keyferry plugin install federate --federation-config FILE', or give it to lint as well",
    ),
    "KF679": (
        "the FederationConfig of a provider is refused",
        "the plugin refuses a config with problems, and reads JSON only",
        "lint that file; 'keyferry plugin install federate --federation-config FILE' writes JSON",
    ),
    "KF680": (
        "the arguments of the plugin are refused",
        "they stand for a config with one rule, which is decoded as strictly",
        "correct the argument, or use --config alone",
    ),
}
