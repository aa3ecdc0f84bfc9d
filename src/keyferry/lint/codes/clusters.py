"""Problems of kubeconfigs: title, reason, correction; first those that client-go refuses."""

from __future__ import annotations

REFUSED_KUBECONFIG: dict[str, tuple[str, str, str]] = {
    "KF201": (
        "the kubeconfig is not valid YAML",
        "if one file cannot be parsed, kubectl uses none of them; kubeconfigs are YAML 1.1 or JSON",
        "correct the syntax at the given position",
    ),
    "KF202": (
        "apiVersion or kind is not that of a kubeconfig",
        "both are optional, but must be 'v1' and 'Config' if they are set",
        "correct or remove them, or use another file",
    ),
    "KF203": (
        "a value has the wrong type",
        "client-go ignores unknown fields but rejects wrong types: unquoted yes, no, on, off and numbers are not "
        "strings in YAML",
        "put quotes around the value, or use the expected type",
    ),
    "KF204": (
        "a value is not base64",
        "fields that end in -data contain PEM text in base64 with padding",
        "encode the content with base64, or set a file in the field without -data",
    ),
    "KF205": (
        "a name is given twice in a list",
        "names of clusters, users, contexts and extensions must be unique in a file",
        "rename or remove one of them",
    ),
    "KF210": (
        "the kubeconfig is empty",
        "without clusters, users and contexts kubectl reports that no configuration has been provided",
        "use another file",
    ),
    "KF211": (
        "the current context does not exist",
        "kubectl fails unless --context names another one",
        "set current-context to the name of a context",
    ),
    "KF212": ("a context has no name", "it cannot be selected", "give it a name, or remove it"),
    "KF213": (
        "a context has no user or cluster",
        "a context combines a cluster and a user, each by name",
        "set both",
    ),
    "KF214": (
        "a context names a user or cluster that does not exist",
        "without the cluster the context cannot be used, and without the user requests are anonymous",
        "correct the name, or add the missing entry",
    ),
    "KF215": (
        "a namespace is not valid",
        "the name of a namespace is a DNS label",
        "use at most 63 of a-z, 0-9 and inner dashes",
    ),
    "KF216": ("a cluster has no server", "there is no default", "set server to the cluster's https URL"),
    "KF217": (
        "proxy-url is not valid",
        "it must be a URL with the scheme http, https or socks5",
        "write for example 'https://proxy.example:3128'",
    ),
    "KF218": (
        "a file and its content are both given",
        "it is not clear which of them to use",
        "remove the field without -data, or the one with it",
    ),
    "KF219": (
        "a file cannot be read",
        "relative paths start at the folder of the kubeconfig",
        "correct the path or the permissions",
    ),
    "KF220": (
        "a client certificate has no key",
        "a certificate cannot be used without its key",
        "add the key",
    ),
    "KF221": ("exec and auth-provider exclude each other", "only one can be used", "remove auth-provider"),
    "KF222": ("exec has no command", "there is no program to run", "set command to the plugin"),
    "KF223": (
        "exec has no apiVersion",
        "it is the version of the protocol that the plugin uses",
        "write 'apiVersion: client.authentication.k8s.io/v1'",
    ),
    "KF224": ("a variable has no name", "it cannot be set", "give it a name, or remove it"),
    "KF225": (
        "interactiveMode is missing or unknown",
        "it sets whether the plugin may read input from the user, and has no default in v1 of the protocol",
        "set Never, IfAvailable or Always",
    ),
    "KF226": (
        "a user has a token and a username or password",
        "only one of them can be sent",
        "remove the others",
    ),
    "KF227": (
        "as-uid, as-groups or as-user-extra without 'as'",
        "they describe the impersonated user",
        "add 'as', or remove them",
    ),
    "KF228": (
        "exec has an apiVersion that no client supports",
        "the plugin cannot be run; v1alpha1 was removed",
        "set client.authentication.k8s.io/v1 if the plugin supports it, and an interactiveMode",
    ),
    "KF229": (
        "the auth provider was removed",
        "exec plugins have replaced auth-provider; kubectl still has oidc only",
        "use exec: gke-gcloud-auth-plugin or kubelogin",
    ),
}

SUSPECT_KUBECONFIG: dict[str, tuple[str, str, str]] = {
    "KF250": (
        "unknown field",
        "client-go silently ignores unknown fields and fields in the wrong case",
        "correct the spelling or remove the field",
    ),
    "KF251": ("a key is given more than once", "the last one is used, without a message", "keep one of them"),
    "KF252": (
        "further YAML documents are ignored",
        "only the first document of a kubeconfig is read",
        "put everything in one document, or in separate files",
    ),
    "KF253": (
        "there is no current context",
        "kubectl without --context then connects to no cluster",
        "set current-context, or always give --context",
    ),
    "KF254": (
        "the kubeconfig is not complete",
        "without a context its entries are used only if another file of KUBECONFIG refers to them",
        "add a context if the file is used alone",
    ),
    "KF255": ("no context names the cluster or user", "it is never used", "remove it, or add a context"),
    "KF260": (
        "the server uses plain http",
        "credentials are read only for https: exec, tokens and certificates are silently ignored",
        "use https",
    ),
    "KF261": (
        "the server has no https://",
        "a server without a scheme is plain http, so credentials are silently ignored",
        "begin the server with https://",
    ),
    "KF262": (
        "the server's certificate is not verified",
        "an attacker on the network between you and the cluster gets the credentials",
        "set certificate-authority-data, and tls-server-name if the names differ",
    ),
    "KF263": (
        "a certificate authority and insecure-skip-tls-verify are both set",
        "client-go and keyferry refuse to connect over https if both are set",
        "remove insecure-skip-tls-verify",
    ),
    "KF264": (
        "proxy-url contains a password",
        "plugins with provideClusterInfo get it, and it appears in Kubernetes' error messages",
        "remove it from the URL",
    ),
    "KF265": (
        "the proxy uses plain http",
        "the name of the cluster and the proxy's password can be read on the network",
        "use https if the proxy supports it",
    ),
    "KF270": (
        "the kubeconfig contains a secret",
        "the file is easily copied, sent and backed up, and the secret does not expire by itself",
        "use exec or tokenFile",
    ),
    "KF271": (
        "the arguments or variables of a plugin contain a secret",
        "arguments are visible in the process list, and both are stored in the file",
        "let the plugin read the secret from a file that only you can read",
    ),
    "KF272": (
        "the plugin is never run",
        "a token, tokenFile, username, password or client certificate silently takes precedence over exec",
        "remove one of the two",
    ),
    "KF273": (
        "exec uses an old version of the plugin protocol",
        "v1 exists since Kubernetes 1.22, and older versions are removed, as v1alpha1 was",
        "set client.authentication.k8s.io/v1 and an interactiveMode if the plugin supports v1",
    ),
    "KF274": (
        "the command is a relative path",
        "it starts at the folder of the kubeconfig, so the plugin is not found after the file is moved",
        "set an absolute path, or a name to search in PATH",
    ),
    "KF275": (
        "the command is not found in PATH",
        "the plugin cannot be run with this PATH; it may be in another folder",
        "install the plugin, or set its path",
    ),
    "KF276": (
        "the command does not exist",
        "a path is not searched in PATH, and client-go does not show the installHint for it",
        "install the plugin, or correct the path",
    ),
    "KF277": (
        "a variable changes which code runs",
        "it can load other code into the plugin; PATH does not affect the search for the plugin itself",
        "remove it, or make sure that only you can write to the paths in it",
    ),
    "KF278": (
        "KUBERNETES_EXEC_INFO is set",
        "clients set this variable for every plugin, which replaces the configured value",
        "remove it",
    ),
    "KF279": ("a variable is set twice", "the last value is used", "keep one of them"),
    "KF280": (
        "a variable cannot be set",
        "a name with '=' sets another variable, and with a NUL the plugin cannot be started",
        "correct the name or the value",
    ),
    "KF281": (
        "installHint contains control characters",
        "they could change the state of a terminal, so they are shown as escape sequences",
        "remove them",
    ),
    "KF282": (
        "tokenFile is not a file with a token",
        "its content would be sent to the server, which an attacker may control",
        "check where this kubeconfig comes from; set a file with a token",
    ),
    "KF283": (
        "other users can change the plugin",
        "a user who can write the program, or replace it in its folder, can run code as you",
        "run chmod go-w, or install it in a folder that only root can write",
    ),
    "KF284": (
        "the value of a variable refers to another variable",
        "kubectl does not expand ${NAME}, $(NAME) or $NAME: the plugin gets these characters",
        "write the value itself, or set the variable in the environment of kubectl and remove this one",
    ),
    "KF285": (
        "the auth provider oidc works in kubectl only",
        "kubectl still has it; keyferry and most other clients do not, and exec plugins have replaced it",
        "use exec, such as 'kubectl oidc-login'",
    ),
    "KF286": (
        "the cluster's data is too large to pass to a plugin",
        "Linux limits one variable to 128 KiB, and KUBERNETES_EXEC_INFO would be longer",
        "shorten certificate-authority-data or the extension, or set provideClusterInfo to false",
    ),
    "KF287": (
        "the client certificate cannot be used",
        "it is parsed only for a connection, which then fails",
        "set a certificate and the key that belongs to it, as PEM",
    ),
    "KF288": ("the client certificate has expired", "the server refuses it", "obtain a new certificate"),
    "KF289": (
        "the certificate authority is not PEM",
        "client-go cannot load the root certificates, and no connection is made",
        "set certificates that begin with -----BEGIN CERTIFICATE-----",
    ),
    "KF290": (
        "other users can read a kubeconfig with secrets",
        "a user who can read the secrets can act as the kubeconfig's users",
        "run chmod 600 on the file",
    ),
    "KF291": (
        "other users can write the kubeconfig",
        "a user who can write it chooses the program that runs and the server that is trusted; unless keyferry is "
        "told to trust the file, it does not run the file's plugins, does not read tokens or keys from paths in the "
        "file, and does not send credentials of another kubeconfig to its servers",
        "run chmod go-w on the file, and check its content",
    ),
}
