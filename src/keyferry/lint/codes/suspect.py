"""What a kubelet accepts and is still wrong, or worth a look: title, why it matters, what to do."""

SUSPECT: dict[str, tuple[str, str, str]] = {
    "KF150": (
        "a scheme in a pattern",
        "'https://reg.io' is read as the host 'https', so the pattern never matches",
        "leave out the scheme",
    ),
    "KF151": (
        "a wildcard in a path",
        (
            "there are no wildcards in paths: 'reg.io/*' covers only paths that literally begin "
            "with '/*', and no image has one"
        ),
        "cut the pattern before the *: a path is a prefix anyway",
    ),
    "KF152": (
        "upper case in a path",
        "repositories are always lower case, and matching is case-sensitive, so the pattern never matches",
        "write the path in lower case",
    ),
    "KF153": (
        "a tag or digest in a pattern",
        "tag and digest are dropped from the image before it is matched, so the pattern never matches",
        "write the repository alone",
    ),
    "KF154": (
        "a pattern without a host",
        "every image has a registry, so the pattern never matches",
        "write the registry's host, or remove the pattern",
    ),
    "KF155": (
        "'?' or '#' in a pattern",
        "they are no wildcards: patterns are URLs, and what follows either is ignored",
        "use * for part of a host label, and remove the rest",
    ),
    "KF156": (
        "user info in a pattern",
        "what stands before an '@' is ignored; if it is a password, it does not belong in this file",
        "write what follows the '@'",
    ),
    "KF157": (
        "an IPv6 address without a port",
        "without a port the brackets are taken for a character class, so the address does not match itself",
        "give the port, and use it in image names too",
    ),
    "KF158": (
        "a host that no image can have",
        "a trailing dot, an empty label or a dash at the end of one is in no image name, so it never matches",
        "correct the host",
    ),
    "KF159": (
        "a host without a dot or a port",
        "the image 'registry/app' means docker.io/registry/app, so a pattern 'registry' never matches",
        "write the full host name, or the port",
    ),
    "KF160": (
        "another name of Docker Hub",
        "images of Docker Hub are looked up as docker.io/..., whatever they are pulled from",
        "write docker.io",
    ),
    "KF161": (
        "an image of Docker Hub without 'library/'",
        (
            "docker.io/nginx is looked up as docker.io/library/nginx, so a pattern "
            "'docker.io/nginx' covers the account of that name alone"
        ),
        "write docker.io/library/NAME for the official image, docker.io/NAME/ for the account",
    ),
    "KF162": (
        "a path without its final slash",
        (
            "a path is a plain prefix: 'reg.io/team' covers 'reg.io/team-evil' too, so the plugin "
            "is asked for it"
        ),
        "end the path in '/' if a folder is meant; one image alone cannot be expressed",
    ),
    "KF163": (
        "a wildcard that covers fewer hosts than it seems to",
        "a * stands for (part of) exactly one dot-separated label, never for several",
        "write one label for each label of the real host, such as *.dkr.ecr.*.amazonaws.com",
    ),
    "KF164": (
        "the default port written out",
        "ports are compared as text: 'reg.io:443' does not cover 'reg.io/app', only 'reg.io:443/app'",
        "leave out the port, or list both",
    ),
    "KF165": (
        "a pattern for every registry",
        (
            "the plugin is run for every registry with that many labels, and what it answers may "
            "be offered there"
        ),
        "name the registries the plugin is for",
    ),
    "KF166": (
        "a pattern that adds nothing",
        "another pattern of the same provider covers all that it covers",
        "remove it",
    ),
    "KF167": (
        "a pattern of two providers",
        (
            "both plugins are run for such an image, and the credentials of both are tried, "
            "earlier provider first"
        ),
        "keep it at one provider, unless both are meant",
    ),
    "KF168": (
        "a path that no image can have",
        (
            "repository names are lower-case letters and digits, joined by '.', '_', '-' and '/', "
            "so the pattern never matches"
        ),
        "correct the path",
    ),
    "KF170": (
        "a provider without a name",
        "validation lets it pass, and the kubelet then exits: the plugin's path is the bin dir itself",
        "set the name to the file name of the plugin",
    ),
    "KF171": (
        "a strange provider name",
        (
            "the name must be the plugin's file name to the letter; such characters are easily "
            "mistyped or unseen"
        ),
        "use lower-case letters, digits, '.', '_' and '-'",
    ),
    "KF172": (
        "an environment variable that cannot be set",
        (
            "an empty name or one with '=' is set to something else than meant, and a NUL keeps "
            "the plugin from starting"
        ),
        "correct the name or the value",
    ),
    "KF173": (
        "an environment variable that changes which code runs",
        "it takes the place of the kubelet's own value for this plugin, and can load foreign code into it",
        "remove it, or make sure that only root can write to the places it names",
    ),
    "KF174": (
        "an environment variable that is set twice",
        "the last one wins",
        "keep one of them",
    ),
    "KF175": (
        "a secret written into the config",
        (
            "the file is often readable by all, ends up in images and backups, and arguments show "
            "in the process list"
        ),
        "let the plugin read the secret from a file only root can read, or from the instance's identity",
    ),
    "KF176": (
        "credentials are not kept",
        "with '0s' the plugin is run for every pull, unless its answer says otherwise",
        "write for example '10m'",
    ),
    "KF177": (
        "credentials are kept for very long",
        (
            "registry tokens rarely last longer than 12 hours (ECR: 12, others: 1); a stale one "
            "is used until the end"
        ),
        "write '12h' or less, below the lifetime of the token",
    ),
    "KF178": (
        "an old version of the plugin protocol",
        "v1 is there since Kubernetes 1.26; older versions will go, and have no service account tokens",
        "write credentialprovider.kubelet.k8s.io/v1 once the plugin speaks it",
    ),
    "KF179": (
        "an old version of the config",
        "v1 is there since Kubernetes 1.26; older versions will go, and have no tokenAttributes",
        "write kubelet.config.k8s.io/v1; the fields are the same",
    ),
    "KF180": (
        "further YAML documents are ignored",
        "only the first document of a file is read; providers after a '---' do not exist for the kubelet",
        "put all providers in one list, or each document in a file of a config directory",
    ),
    "KF181": (
        "an entry of the config directory is ignored",
        "only names ending in .json, .yaml or .yml are read, in lower case and not recursively",
        "rename it, or move it elsewhere if it is no config",
    ),
    "KF182": (
        "others can write the config",
        "who writes this file chooses which programs the kubelet runs as root, with which arguments",
        "chmod go-w",
    ),
    "KF190": (
        "others can write to the bin dir",
        "who writes there chooses what the kubelet runs as root",
        "chmod go-w",
    ),
    "KF191": (
        "others can write a plugin",
        "who writes the file, or the folder a link leads to, chooses what the kubelet runs as root",
        "chmod go-w",
    ),
    "KF192": (
        "a plugin or the bin dir belongs to another user",
        "its owner can change it, and with it what the kubelet runs as root",
        "chown root",
    ),
    "KF193": (
        "a plugin is a link that leads out of the bin dir",
        "the permissions of the bin dir do not protect what is run",
        "copy the plugin, or make sure that the target is as well protected",
    ),
}
