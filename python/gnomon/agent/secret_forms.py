"""How a secret looks in a text: the shapes of credentials, and every form of a known value."""

from __future__ import annotations

import base64
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
    r"""(?:(")(?:[^"\\\n]|\\.){1,8000}|(\\")(?:[^"\\\n]|\\(?!").){1,8000}"""
    r"""|(')(?:[^'\\\n]|\\.){1,8000}|[^\s,;&"'<>()\[\]{}\\]{1,8000})"""
)

# (pattern, replacement); every repetition is bounded or cannot overlap, so all run in linear time.
PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]{0,20000}"
            r"(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
        ),
        "{mask}",
    ),
    # Authorization: Bearer x, 'Authorization': 'Basic x', authorization=x
    (
        re.compile(
            r"(?i)(authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:[a-z]{1,20}\s{1,4})?)"
            r"[^\s,;\"'}&]{1,8000}"
        ),
        r"\g<1>{mask}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s{1,4}[a-z0-9._~+/=-]{6,8000}"), r"\g<1> {mask}"),
    # https://user:password@host
    (re.compile(r"(?<=://)[^/\s:@\"']{0,200}:[^/\s@\"']{1,200}(?=@)"), "{mask}"),
    # ?key=x, &sig=x
    (
        re.compile(
            r"(?i)([?&;](?:key|sig|signature|code|auth|access|session|jwt|x-amz-[a-z-]{1,40})=)"
            r"[^&#\s\"'<>]{1,8000}"
        ),
        r"\g<1>{mask}",
    ),
    # api_key=x, "password": "x", token: x, X-Api-Key: x
    (
        re.compile(rf"(?i)((?:{_WORDS})\\?[\"']?(?:\s{{0,4}}[:=]|%3[aAdD])\s{{0,4}})" + _VALUE),
        r"\g<1>\g<2>\g<3>\g<4>{mask}",
    ),
    # Credentials that show what they are.
    (
        re.compile(
            r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]{1,12}[-_])?[A-Za-z0-9_-]{8,400}"
            r"|\bgh[opsur]_[A-Za-z0-9]{16,300}|\bgithub_pat_[A-Za-z0-9_]{16,300}"
            r"|\bglpat-[A-Za-z0-9_-]{16,100}|\bxox[abeprs]-[A-Za-z0-9-]{8,300}"
            r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,50}"
            r"|\beyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{4,8000}\.[A-Za-z0-9_-]{0,4000}"
        ),
        "{mask}",
    ),
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
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
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
