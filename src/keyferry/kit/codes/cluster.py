"""Checks of cluster plugins by code: severity, requirement, reason, what to change."""

from __future__ import annotations

from keyferry.kit.codes.image import Entry

CLUSTER_CODES: dict[str, Entry] = {
    "KP201": (
        "error",
        "answers client-go's request with exit status 0",
        "client-go treats any other status as a failure, and sends no request to the cluster",
        "find the reason of the failure in standard error, and exit with 0 after a response",
    ),
    "KP202": (
        "error",
        "prints one ExecCredential on standard output, and nothing else",
        "client-go decodes all of standard output and rejects it if it is empty, or also has a log line or a banner",
        "write the response to standard output, and everything else to standard error",
    ),
    "KP203": (
        "error",
        "answers in the apiVersion of the request",
        "client-go compares apiVersion with the one in the kubeconfig and rejects any other",
        "copy apiVersion from KUBERNETES_EXEC_INFO into the response",
    ),
    "KP204": (
        "error",
        "sets the kind of its response to ExecCredential",
        "client-go decodes by kind and rejects every other kind",
        "set kind to 'ExecCredential'",
    ),
    "KP205": (
        "error",
        "has a status in its response",
        "client-go reads the credential from status only",
        "put token, clientCertificateData and clientKeyData into status",
    ),
    "KP206": (
        "error",
        "returns a token, or a certificate with its key",
        "client-go rejects a response that has neither",
        "set status.token, or status.clientCertificateData and status.clientKeyData",
    ),
    "KP207": (
        "error",
        "returns certificate and key together",
        "client-go rejects one without the other, even if there is a token",
        "return both clientCertificateData and clientKeyData, or neither",
    ),
    "KP208": (
        "error",
        "returns a certificate and the key that belongs to it",
        "client-go parses the pair before it uses it and rejects a pair that TLS cannot use",
        "return PEM, with the client's certificate first and the key that it was issued for",
    ),
    "KP209": (
        "error",
        "returns fields of the right type, and times in RFC 3339",
        "client-go rejects the whole response for a number in a string field or a time such as '2026-01-01 12:00'",
        "print times like '2006-01-02T15:04:05Z'",
    ),
    "KP210": (
        "error",
        "returns a credential that has not expired",
        "client-go runs the plugin again for every request while expirationTimestamp is in the past",
        "renew the credential before responding; check the clock and the time zone",
    ),
    "KP211": (
        "error",
        "returns no expirationTimestamp after the credential's own expiry",
        "client-go keeps using an expired token or certificate until the server responds with 401",
        "take expirationTimestamp from the token's 'exp' or the certificate's expiry, minus a minute",
    ),
    "KP212": (
        "warning",
        "returns the expiry of its credential",
        "without expirationTimestamp client-go keeps a token until a request fails with 401",
        "set status.expirationTimestamp from the token's 'exp' or the certificate's expiry",
    ),
    "KP213": (
        "error",
        "returns a token that can be sent in a header",
        "a line end or control character in a token, often from reading a file, makes every request fail",
        "strip white space from tokens that are read from a file or a program",
    ),
    "KP214": (
        "warning",
        "answers another version in that version, or refuses it",
        "client-go rejects a response whose version is not the one in the kubeconfig, as this plugin returns",
        "copy apiVersion from KUBERNETES_EXEC_INFO, or refuse the versions that you do not support",
    ),
    "KP215": (
        "info",
        "supports both versions of the protocol",
        "kubeconfigs from before Kubernetes 1.22 contain v1beta1",
        "nothing, unless such kubeconfigs use your plugin",
    ),
    "KP216": (
        "warning",
        "does not read standard input if it is not interactive",
        "spec.interactive is false: the data on standard input is for the program that runs the plugin",
        "read standard input only if spec.interactive is true",
    ),
    "KP217": (
        "error",
        "answers a request that has the cluster's data",
        "with provideClusterInfo client-go adds spec.cluster to KUBERNETES_EXEC_INFO",
        "accept spec.cluster, with or without a config",
    ),
    "KP218": (
        "error",
        "handles a missing KUBERNETES_EXEC_INFO",
        "older clients do not set it, and neither do people who run the plugin by hand",
        "answer in a version that you document, or exit with 1 and a message",
    ),
    "KP219": (
        "error",
        "handles a KUBERNETES_EXEC_INFO that is malformed or unknown",
        "a crash or a malformed response does not tell the user what is wrong",
        "exit with 1 and a message for input that cannot be parsed and for versions that you do not support",
    ),
    "KP220": (
        "error",
        "handles a KUBERNETES_EXEC_INFO of 100 kB",
        "a cluster's certificate authority and the plugin's own config may be long",
        "do not limit the length",
    ),
    "KP221": (
        "error",
        "answers a repeated request as well as the first",
        "client-go runs the plugin again whenever the credential has expired, and several programs run it at once",
        "keep no state that makes a second run fail",
    ),
    "KP222": (
        "warning",
        "answers in JSON, with a kind",
        "client-go also accepts YAML and a missing kind, but clients in other languages do not",
        "print JSON with kind and apiVersion",
    ),
    "KP223": (
        "error",
        "answers in every version that is given on the command line",
        "a kubeconfig with that version gets no credential",
        "answer in the version of KUBERNETES_EXEC_INFO",
    ),
    "KP251": (
        "error",
        "prints a response of less than 16 MB",
        "client-go keeps all of standard output in memory, without a limit",
        "print the ExecCredential only",
    ),
}
