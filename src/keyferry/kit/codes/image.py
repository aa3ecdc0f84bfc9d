"""Checks of image plugins by code: severity, requirement, reason, what to change."""

from __future__ import annotations

Entry = tuple[str, str, str, str]

IMAGE_CODES: dict[str, Entry] = {
    "KP101": (
        "error",
        "answers a request for its image with exit status 0",
        "the kubelet treats any other status as a failure and pulls without these credentials",
        "find the reason of the failure in standard error, and exit with 0 after a response",
    ),
    "KP102": (
        "error",
        "prints one JSON object on standard output, and nothing else",
        "the kubelet reads standard output as one JSON document and rejects it if it is empty, or also has a log line, "
        "a banner or a byte order mark",
        "write the response to standard output, with an empty auth if there are no credentials, and everything else to "
        "standard error",
    ),
    "KP103": (
        "error",
        "answers in the apiVersion of the request",
        "the kubelet compares apiVersion with the one in its config, as a string, and rejects any other",
        "copy apiVersion from the request into the response",
    ),
    "KP104": (
        "error",
        "sets the kind of its response to CredentialProviderResponse",
        "the kubelet decodes by kind and rejects every other kind",
        "set kind to 'CredentialProviderResponse'",
    ),
    "KP105": (
        "error",
        "uses only fields of the protocol, once each and of the right type",
        "the kubelet decodes strictly: it rejects the whole response for an unknown, misspelled or repeated field",
        "print only kind, apiVersion, cacheKeyType, cacheDuration and auth with username and password",
    ),
    "KP106": (
        "error",
        "sets cacheKeyType to Image, Registry or Global",
        "the kubelet rejects a response with any other cacheKeyType",
        "set cacheKeyType to 'Registry' if the credentials are for a whole registry, else to 'Image'",
    ),
    "KP107": (
        "error",
        "sets cacheDuration to a Go duration that is not negative",
        "the kubelet accepts strings such as '10m' or '1h30m'; it rejects the response for a number or '1d', and never "
        "caches it for a negative duration",
        "print for example '12h0m0s', and '0s' for a response that must not be cached",
    ),
    "KP108": (
        "warning",
        "returns a cacheDuration",
        "without it the kubelet uses the defaultCacheDuration of its config, which is not related to the expiry of "
        "this credential",
        "set cacheDuration somewhat shorter than the lifetime of the credential",
    ),
    "KP109": (
        "warning",
        "sets cacheDuration to seven days at most",
        "a revoked credential stays in the kubelet's cache until then, and only a restart clears the cache",
        "set a shorter cacheDuration",
    ),
    "KP110": (
        "info",
        "lets the kubelet cache its response",
        "with a cacheDuration of 0s the kubelet runs the plugin for every pull",
        "set a cacheDuration of some minutes if the credential is valid for that long",
    ),
    "KP111": (
        "error",
        "sets a cacheDuration that ends before its credential expires",
        "the kubelet keeps using an expired credential from its cache, and every pull fails until the cache entry "
        "expires",
        "make cacheDuration some minutes shorter than the time left until the token's 'exp'",
    ),
    "KP112": (
        "error",
        "returns its credentials under a key that matches the image",
        "the kubelet uses the keys of auth that match the image: the number of host labels and the port must be equal",
        "use the image's registry, with its port, as the key",
    ),
    "KP113": (
        "error",
        "has credentials for its image",
        "an empty auth is cached like any other, and the kubelet pulls anonymously until it expires",
        "return credentials, or fail with a message that gives the reason",
    ),
    "KP114": (
        "warning",
        "uses only keys that can match an image",
        "the kubelet ignores a key that it cannot parse, and never uses a key that matches no image",
        "use host, port and path without a scheme, a '?' or a wildcard in the path",
    ),
    "KP115": (
        "warning",
        "returns keys that match only the credentials' own registries",
        "the kubelet sends a credential to every registry that its key matches, and '*.io' matches those of others",
        "use the registry's own name as the key",
    ),
    "KP116": (
        "error",
        "returns the same Global response for every image",
        "the kubelet runs the plugin once, and uses a Global response for all images until the cache entry expires",
        "use 'Registry' or 'Image' as cacheKeyType",
    ),
    "KP117": (
        "error",
        "returns the same Registry response for every image of the registry",
        "the kubelet uses a Registry response for all images of that registry until the cache entry expires",
        "use 'Image' as cacheKeyType",
    ),
    "KP118": (
        "info",
        "sets cacheKeyType to Image only if the response depends on the image",
        "the kubelet runs the plugin once for each image, although one response is valid for the whole registry",
        "use 'Registry' as cacheKeyType",
    ),
    "KP119": (
        "warning",
        "returns a user name and a password",
        "if one of them is empty, most registries refuse the credential, and a pull that could be anonymous fails",
        "omit registries without a credential from auth",
    ),
    "KP120": (
        "error",
        "returns user names and passwords that can be sent",
        "basic authentication ends a user name at its first ':', and a line end in a password, often from reading a "
        "file, makes the password wrong",
        "strip white space from credentials that are read from a file or a program",
    ),
    "KP121": (
        "error",
        "does not return the service account token as a password",
        "the kubelet rejects the token that it sent unless tokenAttributes.cacheType is 'Token', because the cache "
        "entry would expire after the token",
        "exchange the token for a credential, or configure cacheType: Token",
    ),
    "KP122": (
        "warning",
        "does not return the service account token, although cacheType: Token allows it",
        "the registry gets the pod's own token, and its operator can use the token elsewhere",
        "exchange the token for a credential of the registry",
    ),
    "KP123": (
        "error",
        "answers a request that has a service account's token and annotations",
        "with tokenAttributes in its config the kubelet sends both with every request",
        "accept serviceAccountToken and serviceAccountAnnotations, including unknown annotations",
    ),
    "KP124": (
        "error",
        "answers a repeated request as well as the first",
        "the kubelet runs the plugin again whenever its cache entry has expired, and may run it several times at once",
        "keep no state that makes a second run fail",
    ),
    "KP125": (
        "warning",
        "answers a request with an unknown field",
        "fields have been added to v1 before, and a newer kubelet may send another one",
        "ignore unknown fields of the request",
    ),
    "KP126": (
        "error",
        "refuses a request of another kind",
        "the plugin does not understand such a request, so its response has no meaning",
        "exit with 1 and a message unless kind is 'CredentialProviderRequest'",
    ),
    "KP127": (
        "warning",
        "refuses a request in an unknown version",
        "the kubelet rejects a response in another apiVersion than the request's, with a less helpful message",
        "exit with 1 and a message that lists the supported versions",
    ),
    "KP128": (
        "error",
        "refuses a request without an image",
        "without an image there is no registry, and the credentials may be sent to any registry",
        "exit with 1 and a message if image is empty",
    ),
    "KP129": (
        "warning",
        "returns no credentials for registries of others",
        "the matchImages of a config may match more registries than intended, which then get the plugin's credentials",
        "check the image's host, and return an empty auth or fail if the registry is not yours",
    ),
    "KP130": (
        "warning",
        "answers another version in that version, or refuses it",
        "the kubelet rejects a response whose version is not the one in its config, as this plugin returns",
        "copy apiVersion from the request, or refuse the versions that you do not support",
    ),
    "KP131": (
        "info",
        "supports the older versions of the protocol",
        "v1beta1 and v1alpha1 are only required for kubelets before 1.26",
        "nothing, unless you have such nodes",
    ),
    "KP132": (
        "error",
        "answers in every version that is given on the command line",
        "a kubelet with that version in its config gets no credentials",
        "answer in the version of the request: all versions have the same fields",
    ),
    "KP140": (
        "error",
        "refuses an empty request within the time limit",
        "a plugin that waits for more input, or answers an empty request, hides the mistake",
        "read standard input to its end, and exit with 1 and a message if it is empty",
    ),
    "KP141": (
        "error",
        "handles input that is not a request",
        "a crash or a malformed response does not tell the user what is wrong with the input",
        "exit with 1 and a message for input that cannot be parsed",
    ),
    "KP142": (
        "error",
        "handles a truncated request",
        "a crash or a malformed response does not tell the user what is wrong with the input",
        "exit with 1 and a message for input that cannot be parsed",
    ),
    "KP143": (
        "error",
        "handles a byte order mark and UTF-16",
        "a crash or a malformed response does not tell the user what is wrong with the input",
        "exit with 1 and a message for input that is not UTF-8",
    ),
    "KP144": (
        "error",
        "handles two requests in one input, and a repeated field",
        "a crash or a malformed response does not tell the user what is wrong with the input",
        "read exactly one JSON document",
    ),
    "KP145": (
        "error",
        "handles deep nesting",
        "a parser that recurses without a limit is killed by a signal, without a message",
        "limit the depth, or use a parser that does",
    ),
    "KP146": (
        "error",
        "handles a request of 12 MB",
        "a plugin that hangs or crashes on a long request returns neither credentials nor a reason",
        "read all of standard input before responding, or refuse input that is too long",
    ),
    "KP147": (
        "error",
        "handles image names with special characters",
        "a name that is inserted into JSON, a path or a pattern without quoting makes the response wrong",
        "write the response with a JSON encoder, and pass names as arguments, never inside the text of a command",
    ),
    "KP148": (
        "error",
        "executes no command in an image name",
        "every user who can create a pod with an image name could run commands as root on the node",
        "never put the image into the text of a shell command, an eval or a template",
    ),
    "KP150": (
        "info",
        "ends its response with a line end",
        "the kubelet does not require it, but it helps people who run the plugin by hand",
        "print a newline after the JSON document",
    ),
    "KP151": (
        "error",
        "prints a response of less than 16 MB",
        "the kubelet keeps all of standard output in memory, without a limit",
        "print only the credentials of this image's registry",
    ),
}
