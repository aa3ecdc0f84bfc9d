"""What the kit checks of an image plugin: severity, promise, why it matters, what to change, by code."""

Entry = tuple[str, str, str, str]

IMAGE_CODES: dict[str, Entry] = {
    "KP101": (
        "error",
        "answers a request for its image with exit status 0",
        "the kubelet takes any other status for a failure and pulls without these credentials",
        "find out from what it said why it fails, and exit with 0 after an answer",
    ),
    "KP102": (
        "error",
        "prints one JSON object on standard output, and nothing else",
        "the kubelet reads standard output as one JSON document: a log line, a banner or a byte order mark spoils it",
        "send everything but the answer to standard error",
    ),
    "KP103": (
        "error",
        "answers in the apiVersion it was asked in",
        "the kubelet compares apiVersion with the one in its config, as text, and refuses any other",
        "copy apiVersion from the request into the answer",
    ),
    "KP104": (
        "error",
        "gives CredentialProviderResponse as the kind of its answer",
        "the kubelet decodes by kind and refuses every other",
        "set kind to 'CredentialProviderResponse'",
    ),
    "KP105": (
        "error",
        "uses only fields of the protocol, once each and of the right type",
        "the kubelet decodes strictly: an unknown, misspelled or repeated field makes it refuse the whole answer",
        "print kind, apiVersion, cacheKeyType, cacheDuration and auth with username and password, nothing more",
    ),
    "KP106": (
        "error",
        "gives Image, Registry or Global as cacheKeyType",
        "the kubelet refuses an answer whose cacheKeyType is none of these",
        "set cacheKeyType to 'Registry' if the credentials serve a whole registry, else to 'Image'",
    ),
    "KP107": (
        "error",
        "gives cacheDuration as a Go duration that is not negative",
        "the kubelet takes text such as '10m' or '1h30m'; a number or '1d' spoils the answer, and what is negative is "
        "never used again",
        "print for example '12h0m0s', and '0s' for what must not be cached",
    ),
    "KP108": (
        "warning",
        "says how long its answer may be cached",
        "without cacheDuration the kubelet takes the defaultCacheDuration of its config, which knows nothing of this "
        "credential",
        "give cacheDuration, somewhat shorter than the credential lives",
    ),
    "KP109": (
        "warning",
        "lets its answer be cached for seven days at most",
        "a credential that is withdrawn stays in the kubelet's cache until then, and only a restart clears it",
        "give a shorter cacheDuration",
    ),
    "KP110": (
        "info",
        "lets its answer be cached at all",
        "with a cacheDuration of 0s the kubelet runs the plugin for every single pull",
        "give a cacheDuration of some minutes if the credential lives that long",
    ),
    "KP111": (
        "error",
        "lets no answer be cached for longer than its credential lives",
        "the kubelet goes on using a cached credential that has ended, and every pull fails until the cache ends too",
        "make cacheDuration shorter than the time left in the token's 'exp', with some minutes to spare",
    ),
    "KP112": (
        "error",
        "puts its credentials under a key that covers the image",
        "the kubelet looks among the keys of auth for one that matches the image: number of host parts and port must "
        "be equal",
        "use the image's registry, with its port, as the key",
    ),
    "KP113": (
        "error",
        "has credentials for its image",
        "an empty auth is cached like any other, and the kubelet pulls anonymously meanwhile",
        "answer with credentials, or fail with a message that says why there are none",
    ),
    "KP114": (
        "warning",
        "uses only keys that can match an image",
        "the kubelet drops a key that it cannot parse, and one that matches nothing is never tried",
        "use host, port and path without a scheme, a '?' or a wildcard in the path",
    ),
    "KP115": (
        "warning",
        "keeps its credentials to the registries they are for",
        "the kubelet offers a credential to every registry its key covers, and '*.io' covers those of strangers",
        "use the registry's own name as the key",
    ),
    "KP116": (
        "error",
        "gives a Global answer that is the same for every image",
        "the kubelet asks once, and uses a Global answer for all images until the cache ends",
        "use 'Registry' or 'Image' as cacheKeyType",
    ),
    "KP117": (
        "error",
        "gives a Registry answer that is the same for every image of the registry",
        "the kubelet uses a Registry answer for all images of that registry until the cache ends",
        "use 'Image' as cacheKeyType",
    ),
    "KP118": (
        "info",
        "gives Image as cacheKeyType only where the image matters",
        "the kubelet runs the plugin once for each image, though one answer would serve the whole registry",
        "use 'Registry' as cacheKeyType",
    ),
    "KP119": (
        "warning",
        "gives a user name and a password",
        "with a part of it empty, most registries refuse the credential, and a pull that could be anonymous fails",
        "leave out of auth what has no credential",
    ),
    "KP120": (
        "error",
        "gives user names and passwords that can be sent",
        "basic authentication ends a user name at its first ':', and a line end in a password, often from reading a "
        "file, makes it a wrong one",
        "strip what was read from a file or a program",
    ),
    "KP121": (
        "error",
        "gives no service account token back as a password",
        "the kubelet refuses the token that it sent unless tokenAttributes.cacheType is 'Token', since it would "
        "outlive the token in the cache",
        "exchange the token for a credential, or configure cacheType: Token",
    ),
    "KP122": (
        "warning",
        "gives no service account token back, though cacheType: Token allows it",
        "the registry sees the pod's own token, which whoever runs the registry can use elsewhere",
        "exchange the token for a credential of the registry",
    ),
    "KP123": (
        "error",
        "answers when it is given a service account's token and annotations",
        "with tokenAttributes in its config the kubelet sends both with every request",
        "accept serviceAccountToken and serviceAccountAnnotations, and annotations that you do not know",
    ),
    "KP124": (
        "error",
        "answers the same request equally well a second time",
        "the kubelet asks again whenever its cache has ended, and several kubelets ask at the same time",
        "keep no state that a second run trips over",
    ),
    "KP125": (
        "warning",
        "answers a request with a field it does not know",
        "v1 has gained fields before, and a newer kubelet may send one more",
        "ignore unknown fields of the request",
    ),
    "KP126": (
        "error",
        "refuses a request of another kind",
        "whatever it answers then answers a question that it has not understood",
        "exit with 1 and a message unless kind is 'CredentialProviderRequest'",
    ),
    "KP127": (
        "warning",
        "refuses a request in a version that it does not know",
        "an answer in another apiVersion than the request's is refused by the kubelet, with a message that says less",
        "exit with 1 and a message that names the versions you know",
    ),
    "KP128": (
        "error",
        "refuses a request without an image",
        "there is no registry to have credentials for, and what it gives may go anywhere",
        "exit with 1 and a message if image is empty",
    ),
    "KP129": (
        "warning",
        "has no credentials for other people's registries",
        "the matchImages of a config may be wider than the plugin is meant for, and strangers then get its credentials",
        "look at the image's host, and answer with an empty auth or fail for one that is not yours",
    ),
    "KP130": (
        "warning",
        "answers another version in that version, or refuses it",
        "the kubelet refuses an answer in another version than its config names, and this plugin gives one",
        "copy apiVersion from the request, or refuse the ones you do not know",
    ),
    "KP131": (
        "info",
        "knows the older versions of the protocol",
        "v1beta1 and v1alpha1 are only needed for kubelets before 1.26",
        "nothing, unless you serve such nodes",
    ),
    "KP132": (
        "error",
        "answers in every version that was asked for on the command line",
        "a kubelet whose config names that version gets no credentials",
        "answer in the version of the request: all of them have the same fields",
    ),
    "KP140": (
        "error",
        "refuses an empty request soon",
        "a plugin that waits for more input, or answers nothing's question, hides what is wrong",
        "read standard input to its end, and exit with 1 and a message if there is nothing",
    ),
    "KP141": (
        "error",
        "survives input that is no request",
        "a crash or a broken answer says nothing of what was wrong with the input",
        "exit with 1 and a message for what cannot be parsed",
    ),
    "KP142": (
        "error",
        "survives a request that is cut short",
        "a crash or a broken answer says nothing of what was wrong with the input",
        "exit with 1 and a message for what cannot be parsed",
    ),
    "KP143": (
        "error",
        "survives a byte order mark and UTF-16",
        "a crash or a broken answer says nothing of what was wrong with the input",
        "exit with 1 and a message for what is not UTF-8",
    ),
    "KP144": (
        "error",
        "survives two requests in one, and a repeated field",
        "a crash or a broken answer says nothing of what was wrong with the input",
        "read exactly one JSON document",
    ),
    "KP145": (
        "error",
        "survives deep nesting",
        "a parser that recurses without bound ends by a signal, without a message",
        "bound the depth, or use a parser that does",
    ),
    "KP146": (
        "error",
        "survives a request of 12 MB",
        "a plugin that stalls or crashes on a long request gives no credentials and no reason",
        "read all of standard input before you answer, or refuse what is too long",
    ),
    "KP147": (
        "error",
        "survives image names with odd characters",
        "a name that is pasted into JSON, a path or a pattern breaks the answer",
        "build the answer with a JSON encoder, and pass names as arguments, never as text of a command",
    ),
    "KP148": (
        "error",
        "runs nothing that an image name says",
        "whoever can name an image in a pod would run commands as root on the node",
        "never put the image into the text of a shell command, an eval or a template",
    ),
    "KP150": (
        "info",
        "ends its answer with a line end",
        "the kubelet does not need it; people who run the plugin by hand do",
        "print a newline after the JSON document",
    ),
    "KP151": (
        "error",
        "answers in less than 16 MB",
        "the kubelet keeps all of standard output in memory, without a limit",
        "print the credentials of this image's registry only",
    ),
}
