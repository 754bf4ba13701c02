"""Taking secrets out of what leaves the process: arguments, results, texts, exceptions, logs."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .redact_errors import RedactedError, chain_text, safe_text, scrubbed
from .secret_forms import (
    BASE64_CORE_MIN,
    base64_cores,
    credential_patterns,
    forms,
    is_secret_name,
    plain_name,
)

__all__ = ["MASK", "RedactedError", "Redactor"]
MASK = "[redacted]"
# Shorter values are masked in their place only: in running text they would match by chance.
SECRET_LENGTH_MIN = 4
DEPTH_MAX = 64
ITEMS_MAX = 100_000
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=%")


class Redactor:
    """Replaces secrets by a mask; changes what it is given in `scrub` only.

    A secret is (1) what stands in a declared field: a JSON Pointer ("/headers/X-Key"; "*" is any
    key or position) or a name, at any depth and in any letter case; (2) what stands in a field with
    a telling name (password, api_key, token, Authorization, ...); (3) a declared value, wherever it
    turns up: in a longer text, as a key, escaped, quoted for a URL, in base64 or in hex; and (4)
    any text that looks like a credential (Bearer ..., sk-..., ?key=..., user:password@host, ...).

    Parameters
    ----------
    fields : iterable of str
        Pointers (with a leading "/") and names.
    values : iterable of str
        Known secrets. Those under 4 characters are masked only where they are the whole value.
    patterns : bool
        Whether (2) and (4) apply.
    mask : str
        What takes a secret's place.

    >>> redactor = Redactor(["/card"])
    >>> redactor.value({"card": "4111", "note": "call ?key=abc123", "n": 3})
    {'card': '[redacted]', 'note': 'call ?key=[redacted]', 'n': 3}
    >>> redactor.for_call({"card": "4111-1111"}).text("declined: 4111-1111")
    'declined: [redacted]'
    """

    def __init__(
        self,
        fields: Iterable[str] = (),
        *,
        values: Iterable[str] = (),
        patterns: bool = True,
        mask: str = MASK,
    ) -> None:
        self.fields = tuple(dict.fromkeys(fields))
        if not all(isinstance(field, str) and field for field in self.fields):
            raise ValueError("fields must be JSON Pointers or names, none of them empty")
        self.mask = mask
        self._patterns = patterns
        self._values = frozenset(str(value) for value in values if str(value))
        self._pointers = tuple(_tokens(f) for f in self.fields if f.startswith("/"))
        self._names = frozenset(plain_name(f) for f in self.fields if not f.startswith("/"))
        self._known = _known(self._values, forms)
        self._cores = _known(self._values, base64_cores)

    def __repr__(self) -> str:
        return f"Redactor(fields={list(self.fields)}, values={len(self._values)})"

    # --- scopes -----------------------------------------------------------------------------------

    def with_values(self, values: Iterable[str]) -> Redactor:
        """A redactor that knows these secret values as well."""
        more = frozenset(str(value) for value in values if str(value))
        if more <= self._values:
            return self
        return Redactor(
            self.fields, values=self._values | more, patterns=self._patterns, mask=self.mask
        )

    def with_fields(self, fields: Iterable[str]) -> Redactor:
        """A redactor that has these fields declared as well."""
        return Redactor(
            (*self.fields, *fields), values=self._values, patterns=self._patterns, mask=self.mask
        )

    def for_call(self, arguments: Any) -> Redactor:
        """A redactor that also knows what stands in the secret fields of these arguments."""
        return self.with_values(self.secrets_in(arguments))

    def secrets_in(self, value: Any) -> list[str]:
        """The values in the secret fields of `value`, each part of a list, and the parts joined."""
        found: list[str] = []
        for item in self._secret_items(value, self._pointers, 0):
            parts = [safe_text(leaf) for leaf in _leaves(item, 0)]
            found.extend(parts)
            if len(parts) > 1:
                found.append("".join(parts))
        return list(dict.fromkeys(part for part in found if part))

    # --- texts and values -------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """`text` without its secrets."""
        if not isinstance(text, str):
            text = str(text)
        if text in self._values:
            return self.mask
        if self._cores is not None:
            text = self._without_base64(text)
        if self._known is not None:
            text = self._known.sub(lambda _: self.mask, text)
        if self._patterns:
            for pattern, replacement in credential_patterns(self.mask):
                text = pattern.sub(replacement, text)
        return text

    def value(self, value: Any) -> Any:
        """A copy of `value` without its secrets: JSON stays JSON, other objects become texts."""
        return self._copy(value, self._pointers, 0, [ITEMS_MAX])

    def _copy(
        self, value: Any, pointers: tuple[tuple[str, ...], ...], depth: int, left: list[int]
    ) -> Any:
        left[0] -= 1
        if depth > DEPTH_MAX or left[0] < 0:
            return self.mask
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return self.mask if str(value) in self._values else value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            copy = {}
            for key, item in list(value.items()):
                name, below = str(key), _below(pointers, str(key))
                secret = () in below or self.is_secret(name)
                copied = self.mask if secret else self._copy(item, below, depth + 1, left)
                copy[self.text(name)] = copied
            return copy
        if isinstance(value, (list, tuple, set, frozenset)):
            items: list[Any] = []
            for place, item in enumerate(value):
                below = _below(pointers, str(place))
                items.append(self.mask if () in below else self._copy(item, below, depth + 1, left))
            return items
        if isinstance(value, (bytes, bytearray)):
            return self.text(bytes(value).decode("utf-8", "replace"))
        return self.text(safe_text(value))

    def is_secret(self, name: str) -> bool:
        """Whether a field of this name is secret, wherever it stands."""
        if self._names and plain_name(name) in self._names:
            return True
        return self._patterns and is_secret_name(name)

    def _secret_items(
        self, value: Any, pointers: tuple[tuple[str, ...], ...], depth: int
    ) -> Iterator[Any]:
        if depth > DEPTH_MAX:
            return
        if isinstance(value, Mapping):
            items: Iterable[tuple[str, Any]] = [(str(key), item) for key, item in value.items()]
        elif isinstance(value, (list, tuple)):
            items = [(str(place), item) for place, item in enumerate(value)]
        else:
            return
        for name, item in items:
            below = _below(pointers, name)
            if () in below or (isinstance(value, Mapping) and self.is_secret(name)):
                yield item
            else:
                yield from self._secret_items(item, below, depth + 1)

    def _without_base64(self, text: str) -> str:
        assert self._cores is not None
        pieces, end = [], 0
        for match in self._cores.finditer(text):
            if match.start() < end:
                continue
            first, last = match.span()
            while first > end and text[first - 1] in _BASE64:
                first -= 1
            while last < len(text) and text[last] in _BASE64:
                last += 1
            pieces += [text[end:first], self.mask]
            end = last
        return "".join([*pieces, text[end:]]) if pieces else text

    # --- exceptions -------------------------------------------------------------------------------

    def exception_text(self, error: BaseException) -> str:
        """The error's type and message, and those of its causes, without secrets."""
        return self.text(chain_text(error))

    def traceback_text(self, error: BaseException) -> str:
        """The formatted traceback without secrets; it holds source lines and no local variables."""
        return self.text("".join(traceback.format_exception(error)))

    def scrub(self, error: BaseException) -> BaseException:
        """Take the secrets out of an exception, its notes, its causes and its frames, in place.

        Returns the same exception, so that it propagates with its type; only one whose text cannot
        be changed (its ``__str__`` or ``__repr__`` keeps the secret elsewhere) is replaced by a
        RedactedError.
        """
        if scrubbed(error, self.text, self._copy_plain):
            return error
        return RedactedError(self.exception_text(error)).with_traceback(error.__traceback__)

    def _copy_plain(self, value: Any) -> Any:
        """The value itself if it holds no secret, else a copy without."""
        copied = self.value(value)
        return value if copied == _NO_SECRETS.value(value) else copied


def _known(values: Iterable[str], ways: Any) -> re.Pattern[str] | None:
    """One pattern for every way in which the longer values may be written, longest first."""
    texts = {
        text
        for value in values
        if len(value) >= SECRET_LENGTH_MIN
        for text in ways(value)
        if len(text) >= min(SECRET_LENGTH_MIN, BASE64_CORE_MIN)
    }
    ordered = sorted(texts, key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def _tokens(pointer: str) -> tuple[str, ...]:
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def _below(pointers: tuple[tuple[str, ...], ...], key: str) -> tuple[tuple[str, ...], ...]:
    return tuple(p[1:] for p in pointers if p and p[0] in (key, "*"))


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    if depth > DEPTH_MAX or value is None or isinstance(value, bool):
        return
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _leaves(item, depth + 1)
    elif isinstance(value, (bytes, bytearray)):
        yield bytes(value).decode("utf-8", "replace")
    else:
        yield value


_NO_SECRETS = Redactor(patterns=False)
