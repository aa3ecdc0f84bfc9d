"""For every check of the conformance kit, by code, one plugin that fails only that check."""

from __future__ import annotations

from keyferry.kit.plugin import PluginKind

from .certificates import key_pem, make_certificate, make_key
from .kit_plugins import (
    ACCOUNT_TOKEN,
    PASSWORD,
    TOKEN,
    V1,
    Broken,
    always,
    answering,
    cluster,
    credential,
    give,
    jwt,
    main,
    response,
    say,
)


def mismatched_pair() -> dict[str, str]:
    """Return a certificate with the key of another."""
    return {"clientCertificateData": make_certificate(make_key()), "clientKeyData": key_pem(make_key())}


def matching_pair() -> dict[str, str]:
    """Return a certificate with its key."""
    key = make_key()
    return {"clientCertificateData": make_certificate(key), "clientKeyData": key_pem(key)}


_ECHOED = response(auth={"registry.example": ("user", ACCOUNT_TOKEN)})
_STRANGER = response(auth={"registry.invalid": ("user", PASSWORD)})
_ECHO = {"before": f"case $request in *serviceAccountToken*) {give(_ECHOED)} ;; esac"}

IMAGE_PLUGINS: dict[str, Broken] = {
    "KP101": Broken({"start": "echo 'no metadata service' >&2; exit 1"}),
    "KP102": Broken({"before": '[ -n "$main" ] && echo "starting up"'}),
    "KP103": main(response(apiVersion="credentialprovider.kubelet.k8s.io/v2")),
    "KP104": main(response(kind="ExecCredential")),
    "KP105": main(response(expires="tomorrow")),
    "KP106": main(response("Host")),
    "KP107": main(response(duration="1d")),
    "KP108": main(response(duration=None)),
    "KP109": main(response(duration="169h")),
    "KP110": main(response(duration="0s")),
    "KP111": always(response(auth={"registry.example": ("user", jwt(60))})),
    "KP112": main(response("Image", auth={"other.example": ("user", PASSWORD)})),
    "KP113": main(response("Image", auth={})),
    "KP114": always(
        response(auth={"registry.example": ("u", PASSWORD), "registry.example/*": ("u", PASSWORD)})
    ),
    "KP115": always(response(auth={"registry.example": ("u", PASSWORD), "*.example": ("u", PASSWORD)})),
    "KP116": Broken(
        {
            "main": say(response("Global")),
            "other": say(response("Global", auth={"registry.example": ("other", PASSWORD)})),
        }
    ),
    "KP117": Broken({"other": say(response(auth={"registry.example": ("other", PASSWORD)}))}),
    "KP118": always(response("Image")),
    "KP119": always(response(auth={"registry.example": ("user", "")})),
    "KP120": always(response(auth={"registry.example": ("user", f"{PASSWORD}\n")})),
    "KP121": Broken(
        _ECHO,
        {"token": ACCOUNT_TOKEN},
    ),
    "KP122": Broken(
        _ECHO,
        {"token": ACCOUNT_TOKEN, "cache_type": "Token"},
    ),
    "KP123": Broken(
        {"late": 'case $request in *unknown-to-you*) fail "unknown annotation" ;; esac'},
        {"token": ACCOUNT_TOKEN},
    ),
    "KP124": Broken(
        {
            "main": say(response("Image", auth={"registry.example": ("user-$version", PASSWORD)})).replace(
                "user-'\"$version\"'", "user-'$$'"
            )
        }
    ),
    "KP125": Broken({"late": 'case $request in *fieldOfTheFuture*) fail "unknown field" ;; esac'}),
    "KP126": Broken({"early": f"case $request in *CredentialProviderFoo*) {give(response(), V1)} ;; esac"}),
    "KP127": Broken({"late": f"case $version in */v99) {give(response())} ;; esac"}),
    "KP128": Broken({"late": f'if [ -z "$image" ]; then {give(response())}; fi'}),
    "KP129": Broken({"late": f'if [ "$image" = registry.invalid/none ]; then {give(_STRANGER)}; fi'}),
    "KP130": Broken(
        {"before": "case $version in */v1beta1) version=credentialprovider.kubelet.k8s.io/v1 ;; esac"}
    ),
    "KP131": Broken({"late": 'case $version in */v1alpha1) fail "v1alpha1 is too old" ;; esac'}),
    "KP132": Broken(
        {"late": 'case $version in */v1beta1) fail "v1beta1 is too old" ;; esac'},
        {
            "api_versions": (
                "credentialprovider.kubelet.k8s.io/v1",
                "credentialprovider.kubelet.k8s.io/v1beta1",
            )
        },
    ),
    "KP140": Broken({"early": f'if [ -z "$request" ]; then {give(response(), V1)}; fi'}),
    "KP141": Broken({"early": "case $request in token*) exit 0 ;; esac"}),
    "KP142": Broken(
        {"early": """case $request in *'}') ;; '{"kind'*) [ ${#request} -lt 1000 ] && exit 0 ;; esac"""}
    ),
    "KP143": Broken(
        {"early": "case $request in \"$(printf '\\357\\273\\277')\"*) echo oops; exit 0 ;; esac"}
    ),
    "KP144": Broken({"early": "case $request in '{'*'\n'*) exit 0 ;; esac"}),
    "KP145": Broken({"early": "case $request in '[['*) kill -SEGV $$ ;; esac"}),
    "KP146": Broken({"early": "case $request in '{'*) [ ${#request} -gt 90000 ] && kill -KILL $$ ;; esac"}),
    "KP147": Broken({"before": "case $request in *%s%n*) echo '{'; exit ;; esac"}),
    "KP148": Broken({"before": '(eval "echo $image") >/dev/null 2>&1 </dev/null'}),
    "KP150": Broken({"main": say(response(), end="")}),
    "KP151": Broken({"main": "head -c 17000000 /dev/zero"}, also=("KP101",)),
}

CLUSTER_PLUGINS: dict[str, Broken] = {
    "KP201": cluster({"start": "echo 'not logged in' >&2; exit 1"}),
    "KP202": cluster({"before": '[ -n "$main" ] && echo "starting up"'}),
    "KP203": answering(apiVersion="client.authentication.k8s.io/v1alpha1"),
    "KP204": answering(kind="TokenReview"),
    "KP205": cluster({"main": say({"kind": "ExecCredential", "apiVersion": "$version"})}),
    "KP206": answering({}),
    "KP207": answering({"token": TOKEN, "clientCertificateData": "-----BEGIN CERTIFICATE-----"}),
    "KP208": answering(mismatched_pair()),
    "KP209": answering({"token": TOKEN, "expirationTimestamp": "tomorrow"}),
    "KP210": answering({"token": TOKEN, "expirationTimestamp": "2020-01-01T00:00:00Z"}),
    "KP211": answering({"token": jwt(600), "expirationTimestamp": "2099-01-01T00:00:00Z"}),
    "KP212": answering({"token": jwt(600)}),
    "KP213": answering({"token": f"{TOKEN}\n", "expirationTimestamp": "2099-01-01T00:00:00Z"}),
    "KP214": cluster({"before": "version=client.authentication.k8s.io/v1"}),
    "KP215": cluster({"late": 'case $version in */v1beta1) fail "v1beta1 is too old" ;; esac'}),
    "KP216": cluster({"before": "read -r line"}),
    "KP217": cluster({"late": """case $info in *'"cluster"'*) fail "no cluster wanted" ;; esac"""}),
    "KP218": cluster({"early": '[ "${KUBERNETES_EXEC_INFO+set}" ] || exit 0'}),
    "KP219": cluster({"early": "case $info in this*) exit 0 ;; esac"}),
    "KP220": cluster({"early": "[ ${#info} -gt 90000 ] && kill -KILL $$"}),
    "KP221": cluster(
        {"before": 'first || fail "already logged in"'},
        also=("KP215", "KP217", "KP326", "KP327", "KP328", "KP329"),
    ),
    "KP222": cluster({"main": say(f"kind: ExecCredential\napiVersion: $version\nstatus:\n  token: {TOKEN}")}),
    "KP223": cluster(
        {"late": 'case $version in */v1beta1) fail "v1beta1 is too old" ;; esac'},
        api_versions=("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"),
    ),
    "KP251": cluster({"main": "head -c 17000000 /dev/zero"}, also=("KP201",)),
}

PROCESS_GAPS: dict[str, dict[str, str]] = {
    "KP301": {"failing": 'echo "wrong login {secret}" >&2; exit 1'},
    "KP302": {"before": 'first && sh -c "sleep 0.5; :" sh --password {secret}'},
    "KP303": {"before": '(umask 022; echo {secret} >"${{TMPDIR:-/dev/null}}/x") 2>/dev/null'},
    "KP304": {"before": '(umask 077; echo {secret} >"${{TMPDIR:-/dev/null}}/x") 2>/dev/null'},
    "KP305": {"before": '(umask 077; echo {secret} >"${{HOME:-/dev/null}}/x") 2>/dev/null'},
    "KP306": {"before": '(echo hello >"${{TMPDIR:-/dev/null}}/x$$") 2>/dev/null'},
    "KP310": {"failing": "exit 1"},
    "KP311": {"failing": 'echo "plugin: $1" >&2; echo half an answer; exit 1'},
    "KP312": {"failing": 'echo "Traceback (most recent call last)" >&2; exit 1'},
    "KP313": {"main": "head -c 70000000 /dev/zero >&2"},
    "KP320": {"main": "sleep 60"},
    "KP323": {"before": "first && exit 200"},
    "KP324": {"before": "first && sleep 60 </dev/null >/dev/null 2>&1 &"},
    "KP325": {"before": "first && sleep 60 &"},
    "KP326": {
        "before": ': >"{here}/run.$$"; sleep 0.3; set -- "{here}"/run.*; rm "{here}/run.$$"; '
        '[ $# -gt 5 ] && fail "too many at once"',
    },
    "KP327": {"late": '[ "$LC_ALL" = C ] && fail "cannot encode this in ASCII"'},
    "KP328": {"late": '[ "$PWD" = / ] && fail "config.ini is not here"'},
    "KP329": {"late": '[ -d "$HOME" ] || fail "no home"'},
    "KP330": {"late": '[ -n "$TMPDIR" ] || fail "TMPDIR is not set"'},
    "KP331": {"main": "trap '' PIPE; until {answer}; do sleep 0.1; done 2>/dev/null"},
    "KP332": {"late": '[ -n "$HTTPS_PROXY" ] && sleep 60'},
}
# The first hangs from the beginning; of the others, the normal runs must have ended by then, on a busy machine too.
LIMITS = {"KP320": 1.0, "KP331": 5.0, "KP332": 5.0}
# Whose first run does not end with status 0 gives no answer, and one that hangs does not end by itself either.
UNANSWERED = {"KP313": ("KP101",), "KP320": ("KP101", "KP323"), "KP323": ("KP101",)}


def process_plugin(code: str, kind: PluginKind) -> Broken:
    """Return a plugin of either kind that fails one of the checks for both kinds."""
    secret = PASSWORD if kind == PluginKind.IMAGE else TOKEN
    answer = say(response() if kind == PluginKind.IMAGE else credential())
    gaps = {
        gap: text.replace("{{", "{")
        .replace("}}", "}")
        .replace("{secret}", secret)
        .replace("{answer}", answer)
        for gap, text in PROCESS_GAPS[code].items()
    }
    subject = {"timeout_seconds": LIMITS[code]} if code in LIMITS else {}
    return Broken(gaps, subject, UNANSWERED.get(code, ()), kind)
