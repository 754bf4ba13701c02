"""A small corpus with everything in it that tools, server, page and evaluation need."""

from __future__ import annotations

from pathlib import Path

from gnomon.corpus.coordinator import CorpusIndex, Documents
from gnomon.corpus.model import Source

DOCS = {
    "driver/options.md": """# Connection options

## AllowPublicKeyRetrieval

The `AllowPublicKeyRetrieval` option (default `false`) lets the client ask the server for its RSA
public key. Setting `AllowPublicKeyRetrieval=true` could allow a malicious proxy to perform a MITM
attack to get the plaintext password.

## SslMode

`SslMode=Required` encrypts the connection. See also
[retrieval of keys](troubleshooting.md).

## max_pool_size

The `max_pool\\_size` option limits the pool, 100 by default. Since 2.5.0.
""",
    "driver/troubleshooting.md": """# Troubleshooting

## Public Key Retrieval is not allowed

The client prints *Public Key Retrieval is not allowed*.

### Fix

1. (Preferred) Use a secure connection by adding `;SslMode=Required` to the connection string.
2. Set `AllowPublicKeyRetrieval=true`.

### See also

* [Connection options](options.md#allowpublickeyretrieval)
""",
    "server/e1153.md": """# Error 1153: Got a packet bigger than 'max_allowed_packet' bytes

| Error Code | SQLSTATE | Error | Description |
| --- | --- | --- | --- |
| 1153 | 08S01 | ER\\_NET\\_PACKET\\_TOO\\_LARGE | Got a packet bigger than bytes |

## Possible Causes and Solutions

The client's packet exceeds `max\\_allowed\\_packet`. Increase
[max_allowed_packet](variables.md#max_allowed_packet).
""",
    "server/variables.md": """# Server variables

#### `max_allowed_packet`

* Description: Maximum size in bytes of a packet. If this value is changed, it should be changed on
  the client side as well.
* Default Value: `16777216`

#### `wait_timeout`

* Description: Time in seconds that the server waits for a connection to become active.
* Default Value: `28800`
""",
    "server/pool.py": '''"""A pool."""


class Pool:
    """Holds connections."""

    def acquire(self, timeout: float = 5.0) -> "Connection":
        """Raises PoolExhausted when max_pool_size connections are out."""
        return self._take(timeout)

    def _take(self, timeout: float) -> "Connection":
        raise NotImplementedError
''',
    "hostile.md": """# <script>window.hacked = 1</script>

<img src=x onerror="window.hacked = 2"> The `zebra_option` says "><svg onload=alert(1)> & done.

```html
<script>window.hacked = 3</script>
```

Emoji 👩‍👩‍👧 before the zebra_option and \u202ereversed\u202c text.
""",
}
_PLAN = "# Plan\n\nThe `swordfish_option` is 42. See AllowPublicKeyRetrieval.\n"
SECRET = {"secret/plan.md": _PLAN}


def make(path: Path, documents: dict[str, str] | None = None) -> Path:
    """The index of the documents at `path`: those above for scope "docs", one for "secret"."""
    index = CorpusIndex.create(path)
    try:
        index.update([_documents("docs", documents or DOCS), _documents("secret", SECRET)])
    finally:
        index.close()
    return path


def _documents(scope: str, texts: dict[str, str]) -> Documents:
    encoded = [(name, text.encode("utf-8")) for name, text in texts.items()]
    return Documents(Source(name=scope, acl=(scope,)), encoded)
