"""What can be wrong with a kubeconfig: title, why it matters, what to do; refusals first, as client-go has them."""

REFUSED_KUBECONFIG: dict[str, tuple[str, str, str]] = {
    "KF201": (
        "the kubeconfig is not valid YAML",
        "one file that cannot be read keeps kubectl from using any; kubeconfigs are YAML 1.1, or JSON",
        "mend the syntax at the place named",
    ),
    "KF202": (
        "apiVersion or kind is not that of a kubeconfig",
        "both may be missing, and if they are there they must be 'v1' and 'Config'",
        "correct or remove them, or give the right file",
    ),
    "KF203": (
        "a value has the wrong type",
        "unknown fields pass, wrong types do not: bare yes, no, on, off and numbers are no strings in YAML",
        "put quotes around the value, or give the type that is expected",
    ),
    "KF204": (
        "a value that is not base64",
        "fields that end in -data hold base64 with its padding, of PEM text",
        "encode the content with base64, or name a file in the field without -data",
    ),
    "KF205": (
        "a name is given twice in a list",
        "names of clusters, users, contexts and extensions must be unique in a file",
        "rename or remove one of them",
    ),
    "KF210": (
        "there is nothing in the kubeconfig",
        "without clusters, users and contexts kubectl says that no configuration has been provided",
        "give the right file",
    ),
    "KF211": (
        "the current context does not exist",
        "kubectl stops unless --context names another",
        "set current-context to the name of a context",
    ),
    "KF212": ("a context without a name", "nobody can choose it", "give it a name, or remove it"),
    "KF213": (
        "a context without a user or cluster",
        "a context is a cluster and a user, each by name",
        "name both",
    ),
    "KF214": (
        "a context names a user or cluster that does not exist",
        "without the cluster the context is of no use, and without the user requests are anonymous",
        "correct the name, or add what it names",
    ),
    "KF215": ("not a namespace", "namespaces are a DNS label", "use at most 63 of a-z, 0-9 and inner dashes"),
    "KF216": ("a cluster without a server", "there is no default", "set server to the cluster's https URL"),
    "KF217": (
        "proxy-url is not usable",
        "it must be a URL with the scheme http, https or socks5",
        "write for example 'https://proxy.example:3128'",
    ),
    "KF218": (
        "a file and its content are both given",
        "which of them counts would be a guess",
        "remove the field without -data, or the one with it",
    ),
    "KF219": (
        "a file cannot be read",
        "relative paths count from the folder of the kubeconfig",
        "correct the path or the permissions",
    ),
    "KF220": ("a client certificate without its key", "one is of no use without the other", "add the key"),
    "KF221": ("exec and auth-provider exclude each other", "only one can be used", "remove auth-provider"),
    "KF222": ("exec without a command", "there is nothing to run", "set command to the plugin"),
    "KF223": (
        "exec without an apiVersion",
        "it says which version of the protocol the plugin speaks",
        "write 'apiVersion: client.authentication.k8s.io/v1'",
    ),
    "KF224": ("a variable without a name", "it cannot be set", "give it a name, or remove it"),
    "KF225": (
        "interactiveMode is missing or unknown",
        "v1 of the plugin protocol has no default: may the plugin ask the user questions?",
        "write Never, IfAvailable or Always",
    ),
    "KF226": ("a token and a username or password", "only one of them can be sent", "remove the others"),
    "KF227": (
        "as-uid, as-groups or as-user-extra without 'as'",
        "they describe the user to act as",
        "add 'as', or remove them",
    ),
    "KF228": (
        "exec has an apiVersion that no client knows",
        "the plugin cannot be run; v1alpha1 was removed",
        "write client.authentication.k8s.io/v1 if the plugin speaks it, and an interactiveMode",
    ),
    "KF229": (
        "an auth provider that is gone",
        "auth-provider was replaced by exec plugins",
        "use exec: gke-gcloud-auth-plugin, kubelogin or 'kubectl oidc-login'",
    ),
}

SUSPECT_KUBECONFIG: dict[str, tuple[str, str, str]] = {
    "KF250": (
        "unknown field",
        "client-go ignores fields it does not know, and those in the wrong case, without a word",
        "correct the spelling or remove the field",
    ),
    "KF251": ("a key is given more than once", "the last one counts, without a word", "keep one of them"),
    "KF252": (
        "further YAML documents are ignored",
        "only the first document of a kubeconfig is read",
        "put everything in one document, or in files of their own",
    ),
    "KF253": (
        "there is no current context",
        "kubectl without --context then talks to nothing at all",
        "set current-context, or always give --context",
    ),
    "KF254": (
        "not a whole kubeconfig",
        "without a context nothing in it is used, unless another file (KUBECONFIG) names it",
        "add a context if it is meant to stand alone",
    ),
    "KF255": ("a cluster or user that no context names", "it is never used", "remove it, or add a context"),
    "KF260": (
        "a server by plain http",
        "credentials are read only for https: exec, tokens and certificates are ignored without a word",
        "write https",
    ),
    "KF261": (
        "a server without https://",
        "what has no scheme counts as plain http, so credentials are ignored without a word",
        "begin with https://",
    ),
    "KF262": (
        "the server's certificate is not checked",
        "whoever is between you and the cluster is given the credentials",
        "give certificate-authority-data, and tls-server-name if the names differ",
    ),
    "KF263": (
        "an authority beside insecure-skip-tls-verify",
        "client-go refuses to connect when both are set, as does keyferry",
        "remove insecure-skip-tls-verify",
    ),
    "KF264": (
        "a password in proxy-url",
        "it is told to plugins with provideClusterInfo and shows in Kubernetes' own error texts",
        "remove it from the URL",
    ),
    "KF265": (
        "a proxy by plain http",
        "the name of the cluster and a password of the proxy can be read on the way",
        "write https if the proxy has it",
    ),
    "KF270": (
        "a secret written into the kubeconfig",
        "the file is copied, sent and backed up more easily than a secret should be, and never expires by itself",
        "use exec or tokenFile",
    ),
    "KF271": (
        "a secret in the arguments or variables of a plugin",
        "arguments show in the process list, and both stand in the file",
        "let the plugin read the secret from a file only you can read",
    ),
    "KF272": (
        "a plugin that is never run",
        "a token, tokenFile, username, password or client certificate goes before exec, without a word",
        "remove one of the two",
    ),
    "KF273": (
        "an old version of the plugin protocol",
        "v1 is there since Kubernetes 1.22, and older versions go, as v1alpha1 did",
        "write client.authentication.k8s.io/v1 and an interactiveMode, once the plugin speaks it",
    ),
    "KF274": (
        "a command by a relative path",
        "it counts from the folder of the kubeconfig, wherever kubectl is run and wherever the file is moved",
        "write the whole path, or a bare name for PATH",
    ),
    "KF275": (
        "the command is not found in PATH",
        "the plugin cannot be run from here; it may be elsewhere",
        "install the plugin, or write its path",
    ),
    "KF276": (
        "the command is not there",
        "with a path there is no search, and client-go shows no installHint either",
        "install the plugin, or correct the path",
    ),
    "KF277": (
        "a variable that changes which code runs",
        "it can load foreign code into the plugin; PATH does not count for finding the plugin itself",
        "remove it, or make sure that only you can write to the places it names",
    ),
    "KF278": (
        "KUBERNETES_EXEC_INFO is set",
        "every plugin is given that variable, so what is configured is replaced",
        "remove it",
    ),
    "KF279": ("a variable that is set twice", "the last one counts", "keep one of them"),
    "KF280": (
        "a variable that cannot be set",
        "a name with '=' sets another, and a NUL keeps the plugin from starting",
        "correct the name or the value",
    ),
    "KF281": (
        "control characters in installHint",
        "they could upset a terminal, so they are shown by their numbers",
        "remove them",
    ),
    "KF282": (
        "tokenFile names a file that holds no token",
        "what is in it would be sent to the server, which may be somebody else's",
        "look where this kubeconfig comes from; name a file with a token",
    ),
    "KF283": (
        "others can change the plugin",
        "who writes the program, or replaces it in its folder, runs code as you",
        "chmod go-w, or install it where only root can write",
    ),
    "KF286": (
        "the cluster is too large to tell a plugin of",
        "Linux takes 128 KiB for one variable, and KUBERNETES_EXEC_INFO would be longer",
        "shorten certificate-authority-data or the extension, or set provideClusterInfo to false",
    ),
    "KF287": (
        "a client certificate that cannot be used",
        "it is looked at only when a connection is made, which then fails",
        "give a certificate and the key that belongs to it, as PEM",
    ),
    "KF288": ("a client certificate that has ended", "the server refuses it", "get another"),
    "KF290": (
        "others can read a kubeconfig with secrets",
        "who reads them can act as its users",
        "chmod 600",
    ),
    "KF291": (
        "others can write the kubeconfig",
        "who writes it chooses which program runs and which server is trusted; keyferry then runs no plugin "
        "that it names, reads no token or key from a file that it names, and sends its server no credential of "
        "another kubeconfig, unless it is told to trust the file",
        "chmod go-w, and look at what is in it",
    ),
}
