"""Numbers, units, dates, negations, conditions and identifiers of a text, in comparable form.

A deterministic reader, not a language model: regular expressions and closed word lists for English
and Chinese. It reads what is written, so 1,000 and 1000 are one number and May 1, 2024 is
2024-05-01, but 1 s and 1000 ms are two facts, and a number spelled as an English word is none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

KINDS = ("number", "unit", "date", "negation", "condition", "identifier")


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: ``value`` is what is compared, ``text`` is how it was written, at start..end."""

    kind: str
    value: str
    text: str
    start: int
    end: int


_MONTH_NAMES = (
    "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|"
    "september sep sept|october oct|november nov|december dec"
)
_MONTHS = {
    name: number
    for number, names in enumerate(_MONTH_NAMES.split("|"), start=1)
    for name in names.split()
}
_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
# Case matters in units: Mb is not MB, and m is not M.
_UNITS = (
    "% ‰ °C °F ° ℃ ℉ kg mg µg μg ug ng g lb lbs oz km cm mm µm μm nm m mi ft L l mL ml dl ms µs μs "
    "us ns s sec secs second seconds min mins minute minutes h hr hrs hour hours d day days week "
    "weeks month months year years Hz kHz MHz GHz V mV kV A mA W kW MW GW Wh kWh MWh J kJ MJ N Pa "
    "hPa kPa MPa bar mbar psi K mol mmol µmol b B bit bits byte bytes kB KB MB GB TB PB KiB MiB "
    "GiB TiB kb Kb Mb Gb kbps Mbps Gbps bps rpm dB px dpi USD EUR GBP CNY JPY CHF dollars euros "
    "cents percent pp bp req requests tokens people persons users patients items rows thousand "
    "million billion trillion k M bn "
    "元 美元 欧元 人民币 万元 亿元 万 亿 千 百 个 人 名 次 项 条 台 件 倍 天 日 周 月 年 小时 分钟 "
    "秒 毫秒 克 千克 公斤 毫克 吨 米 千米 公里 厘米 毫米 升 毫升 度 摄氏度"
)
_UNIT = "|".join(re.escape(unit) for unit in sorted(set(_UNITS.split()), key=len, reverse=True))
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+"
_SIGN = r"(?:(?<![\w.)\]])[-−+±])?"

_DATE = re.compile(
    rf"(?P<iso>\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]\d{{2}}:\d{{2}}(?::\d{{2}}(?:\.\d+)?)?"
    rf"(?:Z|[+-]\d{{2}}:?\d{{2}})?)?)(?![\w-])"
    rf"|(?P<cjk>\d{{4}}\s*年(?:\s*\d{{1,2}}\s*月(?:\s*\d{{1,2}}\s*[日号])?)?)"
    rf"|(?P<slash>(?<![\w/.])(?:\d{{1,4}}/\d{{1,2}}/\d{{1,4}}|\d{{4}}\.\d{{1,2}}\.\d{{1,2}}"
    rf"|\d{{1,2}}\.\d{{1,2}}\.\d{{4}})(?![\w/]|\.\d))"
    rf"|(?P<dmy>\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH},?\s+\d{{4}}\b)"
    rf"|(?P<mdy>\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}}\b)"
    rf"|(?P<my>\b{_MONTH}\s+\d{{4}}\b)"
    rf"|(?P<dm>\b\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH})"
    rf"|(?P<md>\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?!\s*[%\d]))"
    rf"|(?P<time>\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:\s*[aApP]\.?[mM]\.?\b)?(?:\s*(?:UTC|GMT|CET|EST|PST)\b)?)",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(
    # A look-behind before each open start keeps a long run of letters linear.
    r"(?<![\w+.-])[a-z][a-z0-9+.-]*://[^\s<>\"'，。；）]+"  # URL
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # mail address
    r"|(?<![\w/.-])(?:/(?:[\w.-]+/)*|(?:[\w.-]+/){2,})[\w.-]+"  # path
    r"|(?<![\w/.-])[\w.-]+/[\w-]+\.[\w.-]+"  # folder/file.ext
    r"|(?<![\w-])[A-Z][A-Z0-9]*(?:-[A-Z0-9]+){0,4}-\d[\w-]*"  # CVE-2024-1, ISO-9001
    r"|\bv?\d+(?:\.\d+){2,}(?:[-+][\w.]+)?\b"  # 1.2.3
    r"|\bv\d+(?:\.\d+)*\b"  # v2
    r"|\b\w+(?:(?:::|\.)\w+)+\(?\)?(?<=[A-Za-z_)])"  # a.b.c, a::b, call()
    r"|\b[A-Za-z0-9]*_[\w]+\b|\b_?[A-Za-z]\w*\(\)"  # snake_case, call()
    r"|\b[a-z]+[A-Z]\w*\b"  # camelCase
    r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w+(?:-\w+)*\b"  # B12, sha7f3c, x86
    r"|(?<!\w)--?[A-Za-z][\w-]*"  # --option
    r"|\b[A-Z]{2,}\b(?!['$])",  # TLS
    re.ASCII,
)
_QUANTITY = re.compile(
    rf"(?P<money>US\$|[$€£¥₹])?\s?(?P<sign>{_SIGN})(?P<number>{_NUMBER})"
    rf"(?:\s?(?P<unit>(?:{_UNIT})(?:\s?/\s?(?:{_UNIT}))?)(?![A-Za-z]))?",
)
_ATTACHED = re.compile(rf"(?P<number>{_NUMBER})(?P<unit>(?:{_UNIT})(?:/(?:{_UNIT}))?)", re.ASCII)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|lacks?|lacking|"
    r"fail(?:s|ed)?\s+to|excluding|excludes?|prohibit(?:s|ed)?|forbid(?:s|den)?|"
    r"den(?:y|ies|ied))\b|\b[A-Za-z]+n['’]t\b|不|没有?|无|未|非(?!常)|勿|别(?!人|的)|禁止|拒绝|除外",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|only|except(?:ing)?|provided\s+that|as\s+long\s+as|until|when|whenever|"
    r"at\s+(?:least|most)|up\s+to|(?:more|less|fewer|greater)\s+than|before|after)\b"
    r"|如果|若(?!干)|除非|仅|只有|只能|只在|当.{1,20}?时|至少|至多|最多|超过|不超过|以上|以下|之前|之后",
    re.IGNORECASE,
)

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}


def facts(text: str) -> list[Fact]:
    """Every fact of ``text`` in order of place. A date's digits are not numbers as well.

    >>> [(fact.kind, fact.value) for fact in facts("Take no more than 1,000 mg by May 1, 2024.")]
    [('negation', 'no'), ('condition', 'more than'), ('number', '1000'), ('unit', '1000 mg'), \
('date', '2024-05-01')]
    """
    text = text.translate(_FULL_WIDTH)  # one code point for one: places stay
    found: list[Fact] = []
    taken = bytearray(len(text))  # 1 where a date, identifier or quantity already stands
    for fact in _dates(text):
        found.append(fact)
        taken[fact.start : fact.end] = b"\1" * (fact.end - fact.start)
    for fact in _identifiers(text):
        if not any(taken[fact.start : fact.end]):
            found.append(fact)
            taken[fact.start : fact.end] = b"\1" * (fact.end - fact.start)
    for match in _QUANTITY.finditer(text):
        if not any(taken[match.start("number") : match.end("number")]):
            found.extend(_quantity(match))
    for kind, pattern in (("negation", _NEGATION), ("condition", _CONDITION)):
        for match in pattern.finditer(text):
            found.append(_fact(kind, _word(match.group()), match.group(), match.start()))
    return sorted(found, key=lambda fact: (fact.start, fact.end, KINDS.index(fact.kind)))


def _fact(kind: str, value: str, text: str, start: int) -> Fact:
    return Fact(kind, value, text, start, start + len(text))


def _word(text: str) -> str:
    word = " ".join(text.lower().replace("’", "'").split())
    if word in ("can't", "cannot"):
        return "not"
    return "not" if word.endswith("n't") else word


def _dates(text: str) -> Iterator[Fact]:
    for match in _DATE.finditer(text):
        kind, written = match.lastgroup or "", match.group().rstrip()
        yield _fact("date", _date_value(kind, written), written, match.start())


def _date_value(kind: str, written: str) -> str:
    digits = re.findall(r"\d+", written)
    if kind == "iso":
        return written.replace(" ", "T").upper()
    if kind == "cjk":
        return "-".join([digits[0], *(part.zfill(2) for part in digits[1:])])
    if kind == "slash":
        # Only year first is unambiguous; 01/02/2024 is compared as it is written.
        year_first = len(digits[0]) == 4
        return "-".join(part.zfill(2) for part in digits) if year_first else written
    if kind == "time":
        return re.sub(r"[\s.]", "", written).upper()
    names = [word.strip(".").lower() for word in re.findall(r"[A-Za-z]+\.?", written)]
    month = f"{next(_MONTHS[name] for name in names if name in _MONTHS):02d}"
    day_first = kind in ("dmy", "dm")
    day = digits[0].zfill(2) if day_first or kind in ("mdy", "md") else None
    year = digits[-1] if kind in ("dmy", "mdy", "my") else "-"
    return "-".join(part for part in (year, month, day) if part is not None)


def _identifiers(text: str) -> Iterator[Fact]:
    for match in _IDENTIFIER.finditer(text):
        written = match.group().rstrip(".,;:!?")
        if not written or _ATTACHED.fullmatch(written) or re.fullmatch(_NUMBER, written):
            continue  # 5mg is a quantity
        yield _fact("identifier", unicodedata.normalize("NFC", written), written, match.start())


def _quantity(match: re.Match[str]) -> Iterator[Fact]:
    sign = "-" if match["sign"] in ("-", "−") else ("±" if match["sign"] == "±" else "")
    value = sign + _plain(match["number"])
    start = match.start("sign") if match["sign"] else match.start("number")
    yield Fact("number", value, match["sign"] + match["number"], start, match.end("number"))
    if match["unit"] is not None:
        unit = re.sub(r"\s", "", match["unit"])
        yield Fact("unit", f"{value} {_unit_value(unit)}", match.group(), start, match.end("unit"))
    if match["money"] is not None:
        money = match["money"].replace("US$", "$")
        yield Fact(
            "unit", f"{money}{value}", match.group(), match.start("money"), match.end("number")
        )


def _plain(number: str) -> str:
    value = Decimal(number.replace(",", ""))
    if abs(value.adjusted()) > 400:  # 1e999999999 must not be written out
        return number.lower()
    plain = f"{value:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


_SAME_UNIT = {
    "percent": "%", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "min",
    "mins": "min", "minute": "min", "minutes": "min", "hr": "h", "hrs": "h", "hour": "h",
    "hours": "h", "d": "day", "days": "day", "weeks": "week", "months": "month", "years": "year",
    "lbs": "lb", "l": "L", "ml": "mL", "μg": "µg", "ug": "µg", "μm": "µm", "μs": "µs", "us": "µs",
    "℃": "°C", "℉": "°F", "bytes": "B", "byte": "B", "bits": "b", "bit": "b", "公斤": "千克",
    "公里": "千米",
}  # fmt: skip


def _unit_value(unit: str) -> str:
    return "/".join(_SAME_UNIT.get(part, part) for part in unit.split("/"))
