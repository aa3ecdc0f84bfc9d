"""Problems that a kubelet accepts, by code: title, reason, correction."""

from __future__ import annotations

SUSPECT: dict[str, tuple[str, str, str]] = {
    "KF150": (
        "a pattern has a scheme",
        "'https://reg.io' is read as the host 'https', so the pattern never matches",
        "remove the scheme",
    ),
    "KF151": (
        "a pattern has a wildcard in its path",
        (
            "there are no wildcards in paths: 'reg.io/*' matches only paths that begin with the "
            "characters '/*', which no image has"
        ),
        "end the pattern before the *, because a path is a prefix",
    ),
    "KF152": (
        "a pattern has upper case in its path",
        "repositories are always lower case, and matching is case-sensitive, so the pattern never matches",
        "write the path in lower case",
    ),
    "KF153": (
        "a pattern has a tag or digest",
        "tag and digest are removed from the image before it is matched, so the pattern never matches",
        "use the repository only",
    ),
    "KF154": (
        "a pattern has no host",
        "every image has a registry, so the pattern never matches",
        "add the registry's host, or remove the pattern",
    ),
    "KF155": (
        "a pattern has a '?' or '#'",
        "they are not wildcards: patterns are URLs, and everything from these characters on is ignored",
        "use * for part of a host label, and remove the rest",
    ),
    "KF156": (
        "a pattern has user info",
        "the part before an '@' is ignored; a password must not be in this file",
        "use only the part after the '@'",
    ),
    "KF157": (
        "a pattern has an IPv6 address without a port",
        "without a port the brackets are read as a character class, so the address does not match itself",
        "add the port, and use it in image names too",
    ),
    "KF158": (
        "a pattern has a host that no image can have",
        "image names cannot have a trailing dot, an empty label or a dash at the end of a label, so it never matches",
        "correct the host",
    ),
    "KF159": (
        "a pattern has a host without a dot or a port",
        "the image 'registry/app' means docker.io/registry/app, so a pattern 'registry' never matches",
        "use the full host name, or add the port",
    ),
    "KF160": (
        "a pattern has another name of Docker Hub",
        "images of Docker Hub are always looked up with the registry docker.io",
        "use docker.io",
    ),
    "KF161": (
        "a pattern for an image of Docker Hub has no 'library/'",
        (
            "docker.io/nginx is looked up as docker.io/library/nginx, so a pattern "
            "'docker.io/nginx' matches only the account of that name"
        ),
        "use docker.io/library/NAME for the official image, docker.io/NAME/ for the account",
    ),
    "KF162": (
        "a pattern has a path without a final slash",
        (
            "a path is a string prefix: 'reg.io/team' also matches 'reg.io/team-evil', so the plugin "
            "is run for it"
        ),
        "end the path with '/' to match a folder; a pattern cannot match only one image",
    ),
    "KF163": (
        "a wildcard matches fewer hosts than expected",
        "a * matches exactly one dot-separated label or a part of it, never several labels",
        "use one label for each label of the host, such as *.dkr.ecr.*.amazonaws.com",
    ),
    "KF164": (
        "a pattern has the default port",
        "ports are compared as strings: 'reg.io:443' does not match 'reg.io/app', only 'reg.io:443/app'",
        "remove the port, or list both",
    ),
    "KF165": (
        "a pattern matches every registry",
        (
            "the plugin is run for every registry with that many labels, and its credentials may "
            "be sent to that registry"
        ),
        "list the registries of the plugin",
    ),
    "KF166": (
        "a pattern is redundant",
        "another pattern of the same provider matches the same images",
        "remove it",
    ),
    "KF167": (
        "two providers have the same pattern",
        (
            "both plugins are run for such an image, and the credentials of both are tried, "
            "the earlier provider's first"
        ),
        "keep it in one provider, unless both are intended",
    ),
    "KF168": (
        "a pattern has a path that no image can have",
        (
            "repository names are lower-case letters and digits, joined by '.', '_', '-' and '/', "
            "so the pattern never matches"
        ),
        "correct the path",
    ),
    "KF169": (
        "a pattern has a domain that ECR does not have",
        "hosts of ECR in China end in amazonaws.com.cn, so a pattern with amazonaws.cn matches none of them",
        "end the host with amazonaws.com.cn",
    ),
    "KF170": (
        "a provider has no name",
        "validation accepts it, but the kubelet then exits, because the plugin's path is the bin dir itself",
        "set the name to the file name of the plugin",
    ),
    "KF171": (
        "a provider name has unusual characters",
        (
            "the name must be exactly the plugin's file name; such characters are easily "
            "mistyped or overlooked"
        ),
        "use lower-case letters, digits, '.', '_' and '-'",
    ),
    "KF172": (
        "an environment variable cannot be set",
        ("an empty name or one with '=' sets another variable, and with a NUL the plugin cannot be started"),
        "correct the name or the value",
    ),
    "KF173": (
        "an environment variable changes which code runs",
        "it replaces the kubelet's own value for this plugin, and can load other code into it",
        "remove it, or make sure that only root can write to the paths in it",
    ),
    "KF174": (
        "an environment variable is set twice",
        "the last value is used",
        "keep one of them",
    ),
    "KF175": (
        "the config contains a secret",
        (
            "the file is often readable by all users and copied to images and backups, and arguments "
            "are visible in the process list"
        ),
        "let the plugin read the secret from a file that only root can read, or use the instance's identity",
    ),
    "KF176": (
        "credentials are not cached",
        "with '0s' the plugin is run for every pull, unless its response sets cacheDuration",
        "set for example '10m'",
    ),
    "KF177": (
        "credentials are cached for too long",
        (
            "registry tokens are rarely valid for more than 12 hours (ECR: 12, others: 1); an expired "
            "one is used until the cache entry expires"
        ),
        "set '12h' or less, below the lifetime of the token",
    ),
    "KF178": (
        "a provider uses an old version of the plugin protocol",
        "v1 exists since Kubernetes 1.26; older versions have no service account tokens and will be removed",
        "set credentialprovider.kubelet.k8s.io/v1 if the plugin supports it",
    ),
    "KF179": (
        "the config has an old version",
        "v1 exists since Kubernetes 1.26; older versions have no tokenAttributes and will be removed",
        "set kubelet.config.k8s.io/v1; the fields are the same",
    ),
    "KF180": (
        "further YAML documents are ignored",
        "only the first document of a file is read; the kubelet does not read providers after a '---'",
        "put all providers in one list, or each document in a file of a config directory",
    ),
    "KF181": (
        "an entry of the config directory is ignored",
        "only names ending in .json, .yaml or .yml are read, in lower case and not recursively",
        "rename it, or move it to another folder if it is not a config",
    ),
    "KF182": (
        "other users can write the config",
        "a user who can write this file chooses which programs the kubelet runs as root, with which arguments",
        "run chmod go-w on the file",
    ),
    "KF183": (
        "the value of a variable refers to another variable",
        "the kubelet does not expand ${NAME}, $(NAME) or $NAME: the plugin gets these characters",
        "write the value itself, or let the kubelet's own environment have the variable and remove this one",
    ),
    "KF184": (
        "a provider config is nested in another document",
        "the kubelet reads only a file that is a provider config; another tool must take this one out of the document",
        "nothing, if such a tool does so; else put the config in a file of its own",
    ),
    "KF190": (
        "other users can write to the bin dir",
        "a user who can write to it chooses the programs that the kubelet runs as root",
        "run chmod go-w on the bin dir",
    ),
    "KF191": (
        "other users can write a plugin",
        "a user who can write the file, or the folder of a link's target, chooses the program that the kubelet runs "
        "as root",
        "run chmod go-w on the file or folder",
    ),
    "KF192": (
        "a plugin or the bin dir belongs to another user",
        "its owner can change the programs that the kubelet runs as root",
        "run chown root on it",
    ),
    "KF193": (
        "a plugin is a link to a file outside the bin dir",
        "the permissions of the bin dir do not protect that file",
        "copy the plugin into the bin dir, or make sure that only root can write the target",
    ),
}
