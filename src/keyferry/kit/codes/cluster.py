"""What the kit checks of a cluster plugin: severity, promise, why it matters, what to change, by code."""

from keyferry.kit.codes.image import Entry

CLUSTER_CODES: dict[str, Entry] = {
    "KP201": (
        "error",
        "answers client-go's question with exit status 0",
        "client-go takes any other status for a failure, and the request to the cluster is not made",
        "find out from what it said why it fails, and exit with 0 after an answer",
    ),
    "KP202": (
        "error",
        "prints one ExecCredential on standard output, and nothing else",
        "client-go decodes all of standard output: a log line or a banner spoils it",
        "send everything but the answer to standard error",
    ),
    "KP203": (
        "error",
        "answers in the apiVersion it was asked in",
        "client-go compares apiVersion with the one in the kubeconfig and refuses any other",
        "copy apiVersion from KUBERNETES_EXEC_INFO into the answer",
    ),
    "KP204": (
        "error",
        "gives ExecCredential as the kind of its answer",
        "client-go decodes by kind and refuses every other",
        "set kind to 'ExecCredential'",
    ),
    "KP205": (
        "error",
        "has a status in its answer",
        "client-go finds the credential in status and nowhere else",
        "put token, clientCertificateData and clientKeyData into status",
    ),
    "KP206": (
        "error",
        "gives a token, or a certificate with its key",
        "client-go refuses an answer without either",
        "set status.token, or status.clientCertificateData and status.clientKeyData",
    ),
    "KP207": (
        "error",
        "gives certificate and key together",
        "client-go refuses one without the other, even beside a token",
        "give both clientCertificateData and clientKeyData, or neither",
    ),
    "KP208": (
        "error",
        "gives a certificate and key that belong together",
        "client-go parses the pair before it uses it and refuses what TLS would refuse",
        "give PEM, with the client's certificate first and the key that it was issued for",
    ),
    "KP209": (
        "error",
        "gives fields of the right type, and times in RFC 3339",
        "client-go refuses the whole answer for a number in a text field or a time such as '2026-01-01 12:00'",
        "print times like '2006-01-02T15:04:05Z'",
    ),
    "KP210": (
        "error",
        "gives a credential that has not ended yet",
        "client-go runs the plugin again for every request while expirationTimestamp is in the past",
        "renew the credential before you answer; check the clock and the time zone",
    ),
    "KP211": (
        "error",
        "gives no expirationTimestamp after the credential's own end",
        "client-go keeps using a token or certificate that has ended until the server says 401",
        "take expirationTimestamp from the token's 'exp' or the certificate's end, minus a minute",
    ),
    "KP212": (
        "warning",
        "says when its credential ends",
        "without expirationTimestamp client-go keeps a token until the server says 401, and that request fails",
        "set status.expirationTimestamp from the token's 'exp' or the certificate's end",
    ),
    "KP213": (
        "error",
        "gives a token that can be sent in a header",
        "a line end or control character in a token, often from reading a file, makes every request fail",
        "strip what was read from a file or a program",
    ),
    "KP214": (
        "warning",
        "answers another version in that version, or refuses it",
        "client-go refuses an answer in another version than its kubeconfig names, and this plugin gives one",
        "copy apiVersion from KUBERNETES_EXEC_INFO, or refuse the ones you do not know",
    ),
    "KP215": (
        "info",
        "knows both versions of the protocol",
        "kubeconfigs from before Kubernetes 1.22 say v1beta1",
        "nothing, unless such kubeconfigs name your plugin",
    ),
    "KP216": (
        "warning",
        "leaves standard input alone when it may not ask",
        "spec.interactive is false: what stands on standard input is meant for the program that runs the plugin",
        "read standard input only if spec.interactive is true",
    ),
    "KP217": (
        "error",
        "answers when it is told about the cluster",
        "with provideClusterInfo client-go adds spec.cluster to KUBERNETES_EXEC_INFO",
        "accept spec.cluster, with or without a config",
    ),
    "KP218": (
        "error",
        "survives without KUBERNETES_EXEC_INFO",
        "older clients do not set it, and people who run the plugin by hand do not either",
        "answer in a version that you document, or exit with 1 and a message",
    ),
    "KP219": (
        "error",
        "survives a KUBERNETES_EXEC_INFO that is broken or unknown",
        "a crash or a broken answer says nothing of what was wrong",
        "exit with 1 and a message for what cannot be parsed and for versions that you do not know",
    ),
    "KP220": (
        "error",
        "survives a KUBERNETES_EXEC_INFO of 100 kB",
        "a cluster's authority and the plugin's own config may be long",
        "put no bound on the length",
    ),
    "KP221": (
        "error",
        "answers the same question equally well a second time",
        "client-go asks again whenever the credential has ended, and several programs ask at the same time",
        "keep no state that a second run trips over",
    ),
    "KP222": (
        "warning",
        "answers in JSON, and says its kind",
        "client-go takes YAML and a missing kind too, but clients in other languages do not",
        "print JSON with kind and apiVersion",
    ),
    "KP223": (
        "error",
        "answers in every version that was asked for on the command line",
        "a kubeconfig that names that version gets no credential",
        "answer in the version of KUBERNETES_EXEC_INFO",
    ),
    "KP251": (
        "error",
        "answers in less than 16 MB",
        "client-go keeps all of standard output in memory, without a limit",
        "print the ExecCredential only",
    ),
}
