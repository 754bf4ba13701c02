"""What names look like in prose, and how two spellings of one name become the same key.

The patterns lean to precision: a word counts as an option, a class or an environment variable only
where the text around it says so (`=` behind it, "the ... option", a heading among options, a table
of parameters). Other identifiers get the type ``identifier`` and become an option when the same
document shows elsewhere that they are one.

>>> normalise("option", "--max-allowed-packet"), normalise("function", "Cursor.execute()")
('max_allowed_packet', 'cursor.execute')
"""

from __future__ import annotations

import re
from functools import lru_cache

TYPES = (
    "function", "class", "parameter", "option", "error_code", "error_symbol", "sqlstate", "package",
    "env_var", "version", "issue", "message", "identifier",
)  # fmt: skip

# One pass over a word (what stands between white space); the name of the group that matched says
# what it is. `number` needs a product before it, `ticket` the word "bug".
TOKEN = re.compile(
    r"(?P<symbol>\b(?:ER|CR|EE|WARN|HA_ERR)_[A-Z][A-Z0-9_]*[A-Z0-9]\b)"
    r"|\b(?P<call>(?!function\(\))[A-Za-z_]\w{0,80}(?:(?:\.|::|->)[A-Za-z_]\w{0,80}){0,8})\(\)"
    r"|\b(?P<method>[A-Za-z_]\w{0,80}(?:\.[A-Za-z_]\w{0,80}){1,8})(?=\()"
    r"|\b(?P<exception>[A-Z][a-z0-9]+[A-Za-z0-9]{0,80}(?:Exception|Error))\b"
    r"|\b(?P<issue>(?:[Bb]ug|BUG)#?\d{3,}|CVE-\d{4}-\d{4,7}"
    r"|(?:MDEV|MENT|MCOL|CONJ|CONC|CONPY|ODBC|CONJS|R2DBC|WL)[-#]\d{1,6})\b"
    r"|(?<![\w.:/=#-])[vV]?(?P<bare>\d{1,2}\.\d{1,2}\.\d{1,3})(?![\w]|[.:/-]\d)"
    r"|(?<![\w.:/=#-])[vV]?(?P<number>\d{1,3}\.\d{1,3})(?![\w%]|[.:/-]\d)"
    r"|\b(?:[Mm]aria[Dd][Bb]|[Mm]y[Ss][Qq][Ll]|InnoDB|XtraDB|[Pp]ercona|[Ss]erver)-"
    r"(?P<dashed>\d{1,2}\.\d{1,2}(?:\.\d{1,3})?)(?![\w]|[./-]\w)"
    r"|\A\(?#(?P<ticket>\d{3,})\b"
    r"|\$\{?(?P<env>[A-Z][A-Z0-9_]{2,})\b"
    r"|(?<![\w-])--(?P<flag>[a-z][a-z0-9]+(?:[-_][a-z0-9]+)*)"
    r"|@@(?:(?:global|session|local|GLOBAL|SESSION)\.)?(?P<atvar>[a-z]\w+)"
    r"|\b(?P<snake>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b"
    r"|\b(?P<camel>[a-z]+[0-9]*[A-Z][A-Za-z0-9]*)\b"
    r"|\b(?P<pascal>[A-Z][a-z]+[0-9]*[A-Z][A-Za-z0-9]*)\b"
    r"|\b(?P<upper>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b"
    r"|\b(?P<mixed>[A-Za-z]+_[A-Za-z0-9_]*[A-Za-z0-9]|[A-Z]{2,}[a-z][A-Za-z0-9]*"
    r"|[A-Z]+[a-z0-9]+[A-Z][A-Za-z0-9]*)\b"
)
# What spans words, each with the word that a text must have for it to be tried.
ERROR = re.compile(
    r"\b(?:ERROR|[Ee]rror)(?: ?[Cc]odes?| ?[Nn]umbers?)?:? #?(?P<error>[1-9]\d{3})\b"
    r"(?: ?\((?P<state>[0-9A-Z]{5})\))?"
)
REPORT = re.compile(r"\b(?P<report>(?:[Bb]ug|BUG) \d{4,})\b")
STATE = re.compile(r"\bSQL[- ]?STATE:?[ ='\"(\[]{1,3}(?P<sqlstate>[0-9A-Z]{5})\b")
SET_ENV = re.compile(r"(?:-e|--env|export|ENV) (?P<setenv>[A-Z][A-Z0-9_]{2,})\b")
# Before ``NAME=value`` where a shell takes it as a variable.
SHELL_START = re.compile(r"(?:\A|\n[ \t]*|(?:\A|\s)- |[$#'\"] ?|\b(?:sudo|env|set) )\Z")
INSTALL = re.compile(
    r"\b(?:pip3?|npm|apt-get|apt|yum|dnf|zypper|brew|composer|gem|cargo|go) (?:-y )?"
    r"(?P<install>install|i|add|get|require) (?:-\S+ )*"
)
PRODUCT = re.compile(
    r"\b(?:MariaDB|MySQL|Percona|PHP|Java|JDK|JDBC|ODBC|DB-API|C?Python|Node\.js|Go|Connector/\w+|InnoDB|Galera"
    r"|HikariCP|Ubuntu|Debian|CentOS|RHEL|Rocky Linux|AlmaLinux|Fedora|SLES|macOS|Docker|Spring"
    r"|[Vv]ersions?|[Rr]elease)(?: (?:Server|Community|Enterprise))* (?:[<>]=? )?[vV]?$"
)
BUG_WORD = re.compile(
    r"(?:\b(?:[Bb]ug|BUG|[Ii]ssue|[Ff]ix(?:e[sd])?|[Cc]lose[sd]?|[Rr]esolve[sd]?|[Mm]erged) \(?#?"
    r"|\(#)$"
)
TICKETS_END = re.compile(r"(?:[,;]? #\d+)*\)?\.?[ ]*(?:\n|\Z)")  # of a line that ends with them
ISSUE_LINK = re.compile(r"/(?:issues|pull|merge_requests)/\d+")
# An install command's names, and statements that import.
PACKAGE_WORDS = re.compile(
    r"[ ]?(?P<name>[@A-Za-z][\w./@-]*\w)(?=[\s,;)`'\"\\]|\.(?:\s|$)|$|==|>=)"
)
PACKAGE_FILE = re.compile(r"\.(?:txt|in|toml|deb|rpm)\Z")
IMPORTS = re.compile(
    r"^[ \t]*(?:from (?P<from>[\w.]+) import\b|import (?P<import>[a-z][\w]*(?:\.[\w*]+)*);?\s*$"
    r"|.{0,60}\brequire\(['\"](?P<require>[^'\"\n]+)['\"]\)"
    r"|import .{0,80} from ['\"](?P<es>[^'\"\n]+)['\"]"
    r"|using (?P<using>[A-Z]\w+(?:\.\w+)*);)",
    re.MULTILINE,
)
ASSIGNED = re.compile(
    r"^[ \t]*(?P<assigned>[a-zA-Z][\w-]{0,80}[A-Za-z0-9])[ ]?=(?!=)", re.MULTILINE
)
OPTION_NOUN = re.compile(
    r"[`'\"]?,? ?(?:(?:system|server|session|status|global|client|connection"
    r"|config(?:uration)?|command[- ]line"
    r"|startup|string|dynamic|driver|pool|SQL|table) )*(?:variable|option|parameter"
    r"|propert(?:y|ies)|setting)s?\b"
    r"|[`'\"]? (?:(?:is|was|are|were|be|not) )*(?:set to|enabled|disabled|defaults? to)\b"
)
NOUN_BEFORE = re.compile(
    r"\b(?:variable|option|parameter|propert(?:y|ies)|setting)s?(?:,? (?:is|are|named|called"
    r"|of))?[ :]*[`'\"(]?$"
    r"|\b(?:[Ss]et(?:ting|s)?|[Ee]nabl(?:e|es|ing)|[Dd]isabl(?:e|es|ing)|[Ii]ncreas(?:e|ing)"
    r"|[Dd]ecreas(?:e|ing))"
    r"(?: the)? [`'\"]?$"
    r"|\bvalues? (?:of|for) (?:the )?[`'\"]?$"
)
# Where a link leads says what its text names.
OPTION_LINK = re.compile(
    r"(?:variable|option|parameter|setting|propert)[\w-]*(?:/|\.md|\.html|#|$)", re.I
)
FUNCTION_LINK = re.compile(r"functions?/(?:[^#]*/)?[\w.-]*(?:#|$)", re.I)
ERROR_NOUN = re.compile(r"[`'\"]? (?:error|exception|warning)s?\b")
CLASS_BEFORE = re.compile(
    r"\b(?:class|interface|exception|enum|struct|delegate|new|extends|implements|throws?|catch \()"
    r"[ \xa0]?[`'\"]?$"
)
FUNCTION_NOUN = re.compile(r"[`'\"\]]?(?:\(\))? (?:function|method|procedure|constructor|UDF)s?\b")
PACKAGE_BEFORE = re.compile(r"\b(?:namespace|package|module)[ \xa0]?[`'\"\[]?$")
# What is called like this in SQL is a table or a key, not a function.
NOT_CALLED = re.compile(
    r"(?:\b(?:INTO|TABLE|REFERENCES|EXISTS|INDEX|KEY|ON|UPDATE|FROM|JOIN|VIEW|TYPE|PARTITION) "
    r"|['\"@]|(?<![)\s])\.)$",
    re.I,
)
SET_OPTION = re.compile(
    r"(?:^|; ?|\bSTATEMENT )[ \t]*SET (?:(?:GLOBAL|SESSION|PERSIST|LOCAL"
    r"|STATEMENT) )?(?P<set>[a-z][a-z0-9]*(?:_[a-z0-9]+)*)[ ]?=",
    re.MULTILINE,
)
CLASS_END = re.compile(
    r"(?:Client|Factory|Connection|Command|Reader|Writer|Manager|Builder|Handler|Provider"
    r"|Adapter|Pool"
    r"|Driver|Listener|Context|Session|Service|Impl|Statement|Transaction|Policy|Interface"
    r"|ResultSet|Iterator"
    r"|Callback|Interceptor|Visitor|Parser|Template|Repository|Exception|Error)$"
)
OPTION_PLACE = re.compile(
    r"\b(?:variables|options|parameters|properties|settings|configuration|flags)\b", re.I
)
ENV_PLACE = re.compile(r"\benvironment variables?\b", re.I)
IDENTIFIER = re.compile(r"(?:--|@@)?[A-Za-z][\w-]*[A-Za-z0-9]")
FILE_END = re.compile(
    r"\.(?:c|cc|h|so|dll|cnf|ini|md|txt|log|sh|py|java|js|sql|xml|json|jar|exe|rpm|deb|ya?ml"
    r"|frm|ibd)\b"
)

# Each of the patterns that look back, PRODUCT, PACKAGE_BEFORE and NOUN_BEFORE, ends with one of its
# words and then signs that the screens below strip (with them a line feed, before which a `$` may
# stand). So where the last two letters before a place are those of none of the words, the pattern
# does not match, and is not tried. A Connector/... has a screen of its own.
_PRODUCT_ENDS = frozenset(
    word[-2:]
    for word in (
        *("MariaDB", "MySQL", "Percona", "PHP", "Java", "JDK", "Python", "Node.js", "Go", "InnoDB"),
        *("JDBC", "ODBC", "DB-API"),
        *("Galera", "HikariCP", "Ubuntu", "Debian", "CentOS", "RHEL", "Rocky Linux", "AlmaLinux"),
        *("Fedora", "SLES", "macOS", "Docker", "Spring", "Version", "Versions", "Release"),
        *("Server", "Community", "Enterprise"),
    )
)
_NOUN_ENDS = frozenset(
    word[-2:]
    for word in (
        *("variable", "variables", "option", "options", "parameter", "parameters", "property"),
        *("propertys", "properties", "propertiess", "setting", "settings"),
        *("is", "are", "named", "called", "of", "set", "sets", "enable", "enables", "enabling"),
        *("disable", "disables", "disabling", "increase", "increasing", "decrease", "decreasing"),
        *("the", "for"),
    )
)


def after_product(text: str, begin: int) -> bool:
    """Whether the name of a product, with which versions go, stands before a place."""
    before = text[max(begin - 40, 0) : begin]
    if before.rstrip(" vV<>=\n")[-2:] not in _PRODUCT_ENDS and "Connector/" not in before:
        return False
    return PRODUCT.search(before) is not None


def after_package(text: str, begin: int) -> bool:
    """Whether "package", "module" or "namespace" stands before a place."""
    before = text[max(begin - 16, 0) : begin]
    if before.rstrip(" \xa0`'\"[\n")[-1:] != "e":
        return False
    return PACKAGE_BEFORE.search(before) is not None


def class_before(text: str, begin: int) -> bool:
    """Whether "class", "interface" or the like stands before a place."""
    return CLASS_BEFORE.search(text[max(begin - 24, 0) : begin]) is not None


def noun_before(text: str, begin: int) -> re.Match[str] | None:
    """What says before a place that an option is named there."""
    before = text[max(begin - 40, 0) : begin]
    if before.rstrip(" :`'\"(\n")[-2:] not in _NOUN_ENDS:
        return None
    return NOUN_BEFORE.search(before)


_BUG = re.compile(r"^bug ?#? ?", re.I)


@lru_cache(maxsize=1 << 16)  # names repeat
def normalise(kind: str, name: str) -> str:
    """The spelling of a name that all its spellings share."""
    name = name.strip()
    if kind == "function":
        name = name.replace("::", ".").replace("->", ".").removesuffix("()")
    elif kind in ("option", "identifier"):
        name = name.lstrip("-@").replace("-", "_")
    elif kind == "issue":
        name = _BUG.sub("bug#", name).replace("WL#", "WL-")
    elif kind == "version":
        name = name.lstrip("vV")
    return name.casefold()


@lru_cache(maxsize=1 << 16)
def key_of(kind: str, name: str) -> str:
    """The key of the node for a name."""
    return f"{kind}:{normalise(kind, name)}"
