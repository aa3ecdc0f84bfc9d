r"""Recognise and mask secrets in text of other programs: a plugin's error, a server's response, a log line.

A secret is recognised by one of four signs: a known format (a JSON web token, ``ghp_...``, a private key), a place
(user info in a URL, an Authorization header), a name before it (``password=``, ``"token":``, ``--secret``), or that it
is long and random. An ordinary word after a name is not masked, because it is the diagnosis: ``failed to get
credentials: unauthorized``.

The text may be hostile, so the work is linear in its length: every pattern that can start anywhere is bounded, and the
text after a name is either masked and not searched again, or short.
"""

from __future__ import annotations

import re
from re import Match

from keyferry._core.words import (
    DIAGNOSES,
    DOTS,
    METHODS,
    OPENERS,
    UUID,
    has_diagnosis,
    is_path,
    is_random,
    is_wordlike,
    split_name,
)

_PRIVATE_KEY = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
_KEY_END = "-----END "
_FORMATS = (
    r"(?<![A-Za-z0-9])(?:"
    r"eyJ[\w-]{4,}(?:\.[\w-]*){0,4}"  # JSON web token
    r"|k8s-aws-v1\.[\w-]{8,}|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}\b"  # AWS
    r"|ya29\.[\w.-]{8,}|1//[\w-]{8,}|4/0A[\w-]{10,}|GOCSPX-[\w-]{8,}|AIza[\w-]{20,}"  # Google
    r"|[\w.~-]{3}8Q~[\w.~-]{20,}|[01]\.A[\w-]{20,}(?:\.[\w-]{4,}){0,4}"  # Entra: client secret, refresh token
    r"|gh[opsur]_[A-Za-z0-9_]{10,}|github_pat_\w{10,}"  # GitHub
    r"|gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas|ffct)-[\w-]{16,}"  # GitLab
    r"|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|hv[brs]\.[\w-]{8,}|s\.[A-Za-z0-9]{24}\b"  # Slack, Vault
    r"|sk-(?=[a-z_-]{0,60}[A-Z0-9])[\w-]{16,}|[rs]k_(?:live|test)_\w{8,}"  # model APIs, Stripe
    r"|SG\.[\w-]{16,}\.[\w-]{16,}"  # SendGrid
    r"|dckr_[a-z]{3}_[\w-]{8,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{30,}|hf_[A-Za-z]{20,}|AKCp\w{10,}"  # registries
    r"|do[opr]_v1_\w{16,}|dp\.[a-z]{2}\.\w{16,}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{16,}|ATATT3[\w=-]{16,}"
    r"|[a-z0-9]{6}\.(?=[a-z]{0,15}[0-9])[a-z0-9]{16}(?![\w.-])"  # kubeadm's bootstrap token
    r")"
)
_USER_INFO = r"(://)(?:[^/?#\s@]+|[^/\s@:]+:[^/\s@]+)@"
_SCHEME = r"(?i)(?<![\w-])((?:basic|bearer|negotiate|ntlm)[ \t]{1,4}+)([\w.~+/=-]{4,})"
_NAME = r"(?<![\w.-])([\w.-]{1,200}+)(\\{0,4}[\"']?)([ \t]{0,8}+(?:=>|:=|[:=])\s{0,8}+)"
_VALUE = (
    r"\\{1,4}\"[^\"]{0,4096}\"|\"(?:[^\"\\]|\\[\s\S]){0,4096}\"|'(?:[^']|''){0,4096}'"
    r"|\\{0,4}[\"'][^\n]*"  # a quote that is not closed
    r"|(?:[^\s,;&}\"']|[\"'](?=\w))+"
)
_SPOKEN = (
    r"(?i)\b((?:password|passwd|secret|token|key)[ \t](?:is|was)[ \t:=]{1,4}+[\"']?)([^\s\"',;]{1,4096})"
)
_ELEMENT = r"<([A-Za-z][\w.:-]{0,60})>([^<]{1,4096})(?=</)"
_NETRC = r"(?i)\b(login[ \t]{1,8}\S{1,200}[ \t]{1,8}password[ \t]{1,8})\S+"
_FLAG = r"(?<!\S)(--?[A-Za-z][\w-]{0,60}+)([ \t]{1,8}+)([^\s-]\S*)"
_RUN = r"[A-Za-z0-9+/_~-]{20,}={0,2}"

_DIGEST_AHEAD = r"(?:sha(?:1|224|256|384|512)|md5):$"
# A value with such a name is an identifier. It is shown because it helps to find the object, and grants no access.
_IDENTIFIER = (
    r"(?i)(?:\b(?:amz|client|container|correlation|host|image|key|layer|object|operation|pod|req(?:uest)?|resource"
    r"|sandbox|span|task|tenant|trace)[ _-]?id(?:entifier)?s?(?:-2)?|\b(?:uid|kid|jti|etag|digest|checksum|fingerprint"
    r"|thumbprint|serial|serial number|commit|revision|container|containerd|sandbox|layer|traceparent|x5t))"
    r"[\"'\\]{0,3}[ \t]{0,3}[:=#(\[]?[ \t]{0,3}[\"'\\]{0,3}(?:[a-z]+://)?$"
)
_IN_ARN = r"arn:aws[\w-]*:[\w:./*-]*$"
_PROGRAM = "docker-credential-"
_CONTEXT = 60

_PASSWORD, _TOKEN, _LOOSE = "password", "token", "loose"
# The last word of a name decides. After the loose ones an authentication method is as frequent as a secret.
_KINDS = {
    _PASSWORD: "password passwd passphrase passwort pwd pass pw psk",
    _TOKEN: "token tokens secret secrets tok jwt sas sig assertion apikey pat otp",
    _LOOSE: "auth authorization credential credentials creds signature cookie session sessionid",
}
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_OWNERS_TEXT = (
    "access account api auth client encryption master private secret session shared signing storage"
)
_JOINED_TEXT = "password passwd passphrase secret token accesskey secretkey privatekey accountkey"
_JOINED = tuple(_JOINED_TEXT.split())
_OWNERS = frozenset(_OWNERS_TEXT.split())
# What GitHub Actions grant to a job by such a name, as in ``id-token: write``; no token is one of these words.
_PERMISSIONS = frozenset(("read", "write"))
# Words after which a name still denotes the secret itself: MY_API_KEY_V2, tokenValue, client-key-data.
_TAIL = (
    r"v|\d+|value|data|text|string|raw|plain|b64|base64|encoded|old|new|current|prod|dev|staging|test|base"
)

_CHAIN_WORD = r"[A-Za-z][\w./-]{0,60}:"
_NUMBER = r"\d{1,4}"
_PLACEHOLDER = (
    r"\$\{?[A-Z_][A-Z0-9_]*\}?|<[\w .-]{1,40}>|%[a-z]|\$\(.*|x{3,}|\.{3}"
    r"|(?:[A-Z]+_)*(?:TOKEN|PASSWORD|SECRET|KEY|FILE|VALUE)"
)
_URL = r"\"?https?://\S*"
_ARN = r"arn:aws[\w-]*:.*"
# As Go tells a request that failed.
_URL_AHEAD = r"\b(?:Get|Head|Post) \"https?://[^\s\"']*/$"
_LONG_VALUE = 200
_PHRASE = 8


def mask_shapes(text: str, mask: str) -> str:
    """Return *text* with *mask* in place of everything that looks like a secret."""
    text = _mask_private_keys(text, mask)
    text = re.sub(_FORMATS, mask, text)
    text = re.sub(_USER_INFO, rf"\1{mask}@", text)
    text = re.sub(_SCHEME, lambda found: _mask_scheme(found, mask), text)
    text = re.sub(_NETRC, rf"\1{mask}", text)
    text = re.sub(_ELEMENT, lambda found: _mask_element(found, mask), text)
    text = _mask_named(text, mask)
    text = re.sub(_SPOKEN, lambda found: _mask_spoken(found, mask), text)
    text = re.sub(_FLAG, lambda found: _mask_flag(found, mask), text)
    return re.sub(_RUN, lambda found: mask if _is_random_run(found) else found[0], text)


def is_ordinary_setting(name: str, value: str) -> bool:
    """Return whether the value of a setting is useful in messages, such as a region, a path or a word."""
    if _kind(name) in (_PASSWORD, _TOKEN):
        return False
    is_plain = re.fullmatch(rf"{_URL}|{_ARN}|{UUID}|{_NUMBER}", value) is not None and "@" not in value
    return is_plain or is_path(value) or is_wordlike(value)


def _mask_private_keys(text: str, mask: str) -> str:
    """Mask each private key from BEGIN to END, or to the end of the text if END is missing."""
    if "PRIVATE KEY" not in text:
        return text
    shown, at = [], 0
    for begin in re.finditer(_PRIVATE_KEY, text):
        if begin.start() < at:
            continue
        shown += [text[at : begin.start()], mask]
        end = text.find(_KEY_END, begin.end())
        close = text.find("-----", end + len(_KEY_END)) if end >= 0 else -1
        at = close + 5 if close >= 0 else len(text)
    return "".join([*shown, text[at:]])


def _mask_scheme(found: Match[str], mask: str) -> str:
    """Mask the text after an authentication scheme, unless it is a word of a sentence."""
    word = found[2].strip("=.").lower()
    return found[0] if _is_said(word) or word in METHODS else found[1] + mask


def _mask_element(found: Match[str], mask: str) -> str:
    """Mask the text of an XML element whose name denotes a secret."""
    is_secret = _kind(found[1]) in (_PASSWORD, _TOKEN) and not has_diagnosis(found[2].split()[:_PHRASE])
    return f"<{found[1]}>{mask}" if is_secret else found[0]


def _mask_spoken(found: Match[str], mask: str) -> str:
    """Mask the text after ``token is``, unless it is a word."""
    word = found[2].strip(DOTS)
    return found[0] if is_wordlike(word) or word.isdigit() or word == mask else found[1] + mask


def _mask_named(text: str, mask: str) -> str:
    """Mask the values after names such as ``password=``, ``"token":`` or ``client_secret:``."""
    name_pattern, value_pattern = re.compile(_NAME), re.compile(_VALUE)
    shown, kept_to, at = [], 0, 0
    while (named := name_pattern.search(text, at)) is not None:
        at = named.end()
        kind = _kind(named[1])
        found = value_pattern.match(text, at) if kind else None
        if found is None:
            continue
        value = _without_colon(named, found[0])
        if _stays(named, value, kind, mask):
            continue
        end = _line_end(text, found.end()) if _is_pass_phrase(named, value, kind) else at + len(value)
        shown += [text[kept_to:at], mask]
        kept_to = at = end
    return "".join([*shown, text[kept_to:]])


def _without_colon(named: Match[str], value: str) -> str:
    """Return a value without the colon that ends a URL in a sentence: ``https://a.example/b?sig=x: 403 Forbidden``."""
    is_parameter = named.string[max(0, named.start() - 1) : named.start()] in ("?", "&")
    after = named.string[named.end() + len(value) : named.end() + len(value) + 1]
    return value.removesuffix(":") if is_parameter and (after.isspace() or not after) else value


def _kind(name: str) -> str:
    """Return the kind of secret that *name* denotes, or an empty string."""
    parts = split_name(name[-100:])
    while len(parts) > 1 and re.fullmatch(_TAIL, parts[-1]):
        parts.pop()
    if not parts or name.startswith(_PROGRAM):
        return ""
    last = parts[-1]
    if last == "key" and not _OWNERS.isdisjoint(parts[:-1]):
        return _TOKEN
    if parts[-2:] in (["secret", "id"], ["device", "code"], ["identity", "header"]):
        return _TOKEN
    joined = next((word for word in _JOINED if last.endswith(word)), "")
    return _KIND_OF.get(last) or (joined and (_PASSWORD if joined.startswith("pass") else _TOKEN))


def _stays(named: Match[str], value: str, kind: str, mask: str) -> bool:
    """Return whether the text after a name is shown: it is not a value, or is an ordinary word or phrase."""
    quoted = value.strip("\\") if value[0] in "\"'\\" else ""
    bare = quoted[1:].rstrip("\\").removesuffix(quoted[0]).rstrip("\\") if quoted else value
    if not bare or bare[0] in "{[(" or bare.startswith(mask) or _is_in_arn(named):
        return True
    if len(bare) > _LONG_VALUE:
        return False
    is_strict = kind == _PASSWORD or (kind == _TOKEN and _is_assignment(named))
    end = named.end() + len(value)
    rest = named.string[end : end + _CONTEXT].partition("\n")[0]
    words = bare.split()
    if len(words) > 1:
        return has_diagnosis(words[:_PHRASE]) if is_strict else is_wordlike(words[0].strip(DOTS))
    if quoted and kind == _TOKEN and not is_strict:
        # It may be the name of a secret, in the middle of a sentence.
        is_strict = not (rest[:1] == " " and has_diagnosis(rest.split()[:_PHRASE]))
    return _is_ordinary(bare, rest, kind, is_strict=is_strict)


def _is_in_arn(named: Match[str]) -> bool:
    """Return whether a name is part of an ARN: ``arn:aws:secretsmanager:eu-west-1:123456789012:secret:app``."""
    return re.search(_IN_ARN, named.string[max(0, named.start() - _CONTEXT * 2) : named.start()]) is not None


def _is_assignment(named: Match[str]) -> bool:
    """Return whether a name is followed by its value, as in a configuration, and does not end a clause."""
    name, quote, mark = named[1], named[2], named[3]
    if "\n" in mark or _ends_url(named):
        return False
    is_name = "_" in name or "-" in name.strip("-") or not (name.islower() or name.istitle())
    if quote or "=" in mark or is_name:
        return True
    before = named.string[max(0, named.start() - _CONTEXT) : named.start()].rpartition("\n")[2]
    return not before.strip(" \t-+>*$#\"'{")


def _ends_url(named: Match[str]) -> bool:
    """Return whether a name ends the URL of a request that failed: ``Post "https://a.example/token": x509: ...``."""
    before = named.string[max(0, named.start() - _LONG_VALUE) : named.start()]
    return named[2] == '"' and "=" not in named[3] and re.search(_URL_AHEAD, before) is not None


def _is_ordinary(word: str, rest: str, kind: str, *, is_strict: bool) -> bool:
    """Return whether a word after a name, with the *rest* of its line, is part of a sentence."""
    plain = word.strip(DOTS + "\"'\\").lower()
    if plain in DIAGNOSES or re.fullmatch(rf"{_PLACEHOLDER}|{_URL}|{_ARN}", word) or is_path(word):
        return True
    if kind == _TOKEN and plain in _PERMISSIONS:
        return True
    goes_on = rest[:1] == " " and has_diagnosis(rest.split()[:_PHRASE])
    if is_strict:
        return goes_on and (plain in OPENERS or (kind != _PASSWORD and is_wordlike(word)))
    if plain in METHODS or plain in OPENERS or (re.fullmatch(_CHAIN_WORD, word) and rest[:1] == " "):
        return True
    return is_wordlike(word.strip(DOTS)) or (
        re.fullmatch(_NUMBER, plain) is not None and rest[:1] in (" ", "")
    )


def _is_said(word: str) -> bool:
    return word in DIAGNOSES or word in OPENERS


def _is_pass_phrase(named: Match[str], value: str, kind: str) -> bool:
    """Return whether a value extends to the end of its line, as an unquoted password in YAML does."""
    return kind == _PASSWORD and named[3].strip() == ":" and value[0] not in "\"'\\" and _is_assignment(named)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _mask_flag(found: Match[str], mask: str) -> str:
    """Mask the value of a flag such as ``--password``, and the password in ``-u user:password``."""
    flag, gap, value = found[1], found[2], found[3]
    name = flag.lstrip("-")
    plain = value.strip(DOTS + "\"'").lower()
    if name in ("u", "user") or name.endswith("creds"):
        _, colon, password = value.partition(":")
        is_secret = bool(colon and password) and re.fullmatch(rf"//.*|{_PLACEHOLDER}", password) is None
    elif name == "p":
        before = found.string[max(0, found.start() - _CONTEXT) : found.start()]
        is_login = re.search(r"login|sshpass|auth|-u ", before) is not None
        is_secret = (is_login or not is_wordlike(value)) and re.fullmatch(r"[\d:.]+(?:/\w+)?", value) is None
    else:
        is_secret = _kind(name) in (_PASSWORD, _TOKEN) or name.endswith("key")
    is_shown = (
        _is_said(plain) or plain in METHODS or re.fullmatch(_PLACEHOLDER, value.strip(DOTS)) is not None
    )
    return found[0] if not is_secret or is_shown or is_path(value) else flag + gap + mask


def _is_random_run(found: Match[str]) -> bool:
    """Return whether a run of letters and digits is random, and no identifier according to the text before it."""
    before = found.string[max(0, found.start() - _CONTEXT) : found.start()]
    if any(re.search(announced, before) for announced in (_IN_ARN, _DIGEST_AHEAD, _IDENTIFIER)):
        return False
    return is_random(found[0])
