"""How a secret looks in a text: the shapes of credentials, and every form of a known value."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

# Ends of field names, without case and punctuation: access_token, X-API-Key, userPassword, ...
SECRET_NAME_ENDS = (
    *("password", "passwd", "passphrase", "pwd", "apikey", "accesskey", "secretkey", "privatekey"),
    *("token", "secret", "authorization", "credential", "credentials", "cookie", "bearer"),
)
_WORDS = (
    r"password|passwd|passphrase|pwd|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|"
    r"token|secret|credentials?|cookie"
)
# A quoted value keeps its quotes, so that a line of JSON stays one.
_VALUE = (
    r"""(?:(")(?:[^"\\\n]|\\.)+|(\\")(?:[^"\\\n]|\\(?!").)+"""
    r"""|(')(?:[^'\\\n]|\\.)+|[^\s,;&"'<>()\[\]{}\\]+)"""
)
_WORD = "[A-Za-z0-9_-]"

# (pattern, replacement). A long repetition either ends a match, and is then read once, or can begin
# at the start of a word only: all run in linear time. MASK is where text that was redacted before
# must stay as it is.
_PATTERNS = (
    (
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
        r"[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
        "{mask}",
    ),
    # Authorization: Bearer x, 'Authorization': 'Basic x', authorization=x, Digest ...
    (
        r"(?i)(authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?)(?![a-z]{0,20}\s{0,4}MASK)"
        r"(?:(?:digest|hawk|aws4-hmac-sha256)\s[^\n]+|(basic\s{1,4}|bearer\s{1,4}|[a-z]{1,20}\s{1,4})?"
        r"[^\s,;\"'}&]+)",
        r"\g<1>\g<2>{mask}",
    ),
    (r"(?i)((?:set-)?cookie2?[\"']?\s{0,4}[:=]\s{0,4}[\"']?)[^\n\"']+", r"\g<1>{mask}"),
    (
        r"\b([Bb]earer|BEARER|[Bb]asic|BASIC)\s{1,4}(?=\S{0,200}[0-9A-Z=_])[A-Za-z0-9._~+/=-]{6,}",
        r"\g<1> {mask}",
    ),
    # https://user:password@host
    (r"(?<=://)[^/\s:@\"']{0,200}:[^/\s@\"']{1,200}(?=@)", "{mask}"),
    # ?key=x, &sig=x
    (
        r"(?i)([?&;](?:key|sig|signature|code|auth|access|session|jwt|x-amz-[a-z-]{1,40})=)"
        r"(?!MASK)[^&#\s\"'<>]+",
        r"\g<1>{mask}",
    ),
    # api_key=x, "password": "x", token: x, X-Api-Key: x
    (
        rf"(?i)((?:{_WORDS})\\?[\"']?(?:\s{{0,4}}[:=]|%3[aAdD])\s{{0,4}})" + _VALUE,
        r"\g<1>\g<2>\g<3>\g<4>{mask}",
    ),
    # Credentials that show what they are.
    (
        rf"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]{{1,12}}[-_])?{_WORD}{{8,}}"
        r"|\bgh[opsur]_[A-Za-z0-9]{16,}|\bgithub_pat_[A-Za-z0-9_]{16,}"
        r"|\bglpat-[A-Za-z0-9_-]{16,}|\bxox[abeprs]-[A-Za-z0-9-]{8,}"
        r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}"
        rf"|(?<!{_WORD})eyJ{_WORD}{{6,}}\.{_WORD}{{4,}}\.{_WORD}*",
        "{mask}",
    ),
)


@functools.lru_cache(maxsize=16)
def credential_patterns(mask: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """What looks like a credential, and what stands in its place."""
    shown = mask.replace("\\", "\\\\")
    return tuple(
        (re.compile(pattern.replace("MASK", re.escape(mask))), replacement.replace("{mask}", shown))
        for pattern, replacement in _PATTERNS
    )


BASE64_CORE_MIN = 6


def is_secret_name(name: str) -> bool:
    """Whether a field of this name is a secret by its name alone.

    >>> is_secret_name("X-Api-Key"), is_secret_name("accessToken"), is_secret_name("max_tokens")
    (True, True, False)
    """
    return plain_name(name).endswith(SECRET_NAME_ENDS)


def plain_name(name: str) -> str:
    """A field name without case and punctuation."""
    return "".join(character for character in name.lower() if character.isalnum())


def forms(secret: str) -> Iterator[str]:
    """The texts in which `secret` may stand in another text: itself, escaped, quoted, in hex."""
    yield secret
    yield quote(secret)
    yield quote(secret, safe="")
    yield quote_plus(secret)
    for ascii_only in (True, False):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]  # JSON in JSON
    yield repr(secret)[1:-1]
    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    yield data.hex().upper()


def base64_cores(secret: str) -> Iterator[str]:
    """What every base64 text that holds `secret` at some offset has in common, per alphabet.

    Base64 cuts bytes into groups of three, so the secret looks different at each of three offsets;
    the characters at its ends also depend on its neighbours and are left out.
    """
    data = secret.encode("utf-8", "surrogatepass")
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + data)
        first = (0, 2, 3)[offset]
        last = (len(data) + offset) * 8 // 6
        core = text[first:last].decode()
        if len(core) >= BASE64_CORE_MIN:
            yield core
            yield core.replace("+", "-").replace("/", "_")
            yield quote(core, safe="")
