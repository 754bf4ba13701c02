"""The word-break classes of UAX #29 as Lucene's StandardTokenizer uses them, a letter each.

Derived from this Python's `unicodedata` by the definitions of the Word_Break property, so that both
know the same Unicode version; characters that the definitions name one by one are named here.
cpp/unicode_tables.py reads this file for the compiled tokenizer.
"""

import unicodedata

# The classes; their places in this string are their numbers in the compiled tables.
OTHER, EXTEND, LETTER, HEBREW, NUMERIC, KATAKANA, JOINER = ".", "x", "a", "h", "n", "k", "_"
MID_LETTER, MID_NUMBER, MID_BOTH, QUOTE, DOUBLE_QUOTE = "l", "m", "b", "'", '"'
ASIAN, ASIAN_MARK, HAN, HIRAGANA = "s", "S", "H", "i"
CLASSES = ".xahnk_lmb'\"sSHi"

_NAMED = {
    **dict.fromkeys("\u003a\u00b7\u0387\u05f4\u2027\ufe13\ufe55\uff1a", MID_LETTER),
    **dict.fromkeys("\u002e\u2018\u2019\u2024\ufe52\uff07\uff0e", MID_BOTH),
    **dict.fromkeys(
        "\u002c\u003b\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b",
        MID_NUMBER,
    ),
    "'": QUOTE,
    '"': DOUBLE_QUOTE,
    "\u202f": JOINER,
    "\u066b": NUMERIC,
    "\u05f3": LETTER,
    "\u200b": OTHER,
}
_KATAKANA = (
    *((0x3031, 0x3035), (0x309B, 0x309C), (0x30A0, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF)),
    *((0x32D0, 0x32FE), (0x3300, 0x3357), (0xFF66, 0xFF9D), (0x1AFF0, 0x1AFFE)),
    *((0x1B000, 0x1B000), (0x1B120, 0x1B122), (0x1B155, 0x1B155), (0x1B164, 0x1B167)),
)
_HIRAGANA = (
    *((0x3041, 0x3096), (0x309D, 0x309F), (0x1B001, 0x1B11F), (0x1B132, 0x1B132)),
    *((0x1B150, 0x1B152), (0x1F200, 0x1F200)),
)
_HAN = (
    *((0x2E80, 0x2FD5), (0x3007, 0x3007), (0x3021, 0x3029), (0x3038, 0x303A), (0x3400, 0x4DBF)),
    *((0x4E00, 0x9FFF), (0xF900, 0xFAD9), (0x20000, 0x2FA1D), (0x30000, 0x3FFFD)),
)
# Line_Break=SA: Thai, Lao, Myanmar, Khmer, Tai Le, New Tai Lue, Tai Tham, Tai Viet, Ahom.
_ASIAN = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19DF), (0x1A20, 0x1AAF)),
    *((0xA9E0, 0xA9FF), (0xAA60, 0xAADF), (0x11700, 0x1173F)),
)
# Ideographs of other scripts: neither letters nor Han. Tangut, Khitan, Nushu, and U+3006.
_OTHER_IDEOGRAPHS = ((0x3006, 0x3006), (0x17000, 0x18D08), (0x1B170, 0x1B2FB))
_PICTOGRAPHS = (
    *((0xA9, 0xA9), (0xAE, 0xAE), (0x203C, 0x203C), (0x2049, 0x2049), (0x2122, 0x2122)),
    *((0x2139, 0x2139), (0x2194, 0x2199), (0x21A9, 0x21AA), (0x231A, 0x231B), (0x2328, 0x2328)),
    *((0x2388, 0x2388), (0x23CF, 0x23CF), (0x23E9, 0x23F3), (0x23F8, 0x23FA), (0x24C2, 0x24C2)),
    *((0x25AA, 0x25AB), (0x25B6, 0x25B6), (0x25C0, 0x25C0), (0x25FB, 0x25FE), (0x2600, 0x2605)),
    *((0x2607, 0x2612), (0x2614, 0x2685), (0x2690, 0x2705), (0x2708, 0x2712), (0x2714, 0x2714)),
    *((0x2716, 0x2716), (0x271D, 0x271D), (0x2721, 0x2721), (0x2728, 0x2728), (0x2733, 0x2734)),
    *((0x2744, 0x2744), (0x2747, 0x2747), (0x274C, 0x274C), (0x274E, 0x274E), (0x2753, 0x2755)),
    *((0x2757, 0x2757), (0x2763, 0x2767), (0x2795, 0x2797), (0x27A1, 0x27A1), (0x27B0, 0x27B0)),
    *((0x27BF, 0x27BF), (0x2934, 0x2935), (0x2B05, 0x2B07), (0x2B1B, 0x2B1C), (0x2B50, 0x2B50)),
    *((0x2B55, 0x2B55), (0x3030, 0x3030), (0x303D, 0x303D), (0x3297, 0x3297), (0x3299, 0x3299)),
    *((0x1F000, 0x1F0FF), (0x1F10D, 0x1F10F), (0x1F12F, 0x1F12F), (0x1F16C, 0x1F171)),
    *((0x1F17E, 0x1F17F), (0x1F18E, 0x1F18E), (0x1F191, 0x1F19A), (0x1F1AD, 0x1F1E5)),
    *((0x1F201, 0x1F20F), (0x1F21A, 0x1F21A), (0x1F22F, 0x1F22F), (0x1F232, 0x1F23A)),
    *((0x1F23C, 0x1F23F), (0x1F249, 0x1F3FA), (0x1F400, 0x1F53D), (0x1F546, 0x1F64F)),
    *((0x1F680, 0x1F6FF), (0x1F774, 0x1F77F), (0x1F7D5, 0x1F7FF), (0x1F80C, 0x1F80F)),
    *((0x1F848, 0x1F84F), (0x1F85A, 0x1F85F), (0x1F888, 0x1F88F), (0x1F8AE, 0x1F8FF)),
    *((0x1F90C, 0x1F93A), (0x1F93C, 0x1F945), (0x1F947, 0x1FAFF), (0x1FC00, 0x1FFFD)),
)
# Other symbols that the definitions count as letters or as letters of the Asian scripts above.
_LETTERS = (
    *((0x02C2, 0x02C5), (0x02D2, 0x02D7), (0x02DE, 0x02DF), (0x02ED, 0x02ED), (0x02EF, 0x02FF)),
    *((0x055B, 0x055C), (0x055E, 0x055E), (0x24B6, 0x24E9), (0xA720, 0xA721), (0xA789, 0xA78A)),
    *((0xAB5B, 0xAB5B), (0x1F130, 0x1F149)),
    *((0x1F150, 0x1F169), (0x1F170, 0x1F189)),
)
_ASIAN_SYMBOLS = (
    *((0x109E, 0x109F), (0x19DA, 0x19DA), (0x19DE, 0x19DF), (0x1AA0, 0x1AAD), (0xAA77, 0xAA79)),
    *((0xAADE, 0xAADF), (0x1173A, 0x1173B), (0x1173F, 0x1173F)),
)


def break_class(char: str) -> str:
    """Return the class of `char`, one of CLASSES.

    >>> [break_class(c) for c in "a1_':.,"]
    ['a', 'n', '_', "'", 'l', 'b', 'm']
    """
    code, category = ord(char), unicodedata.category(char)
    if char in _NAMED:
        return _NAMED[char]
    if category == "Cn":
        return OTHER
    asian = within(code, _ASIAN) and code != 0x1A7F
    if category[0] == "M" or code in (0xFF9E, 0xFF9F) or is_modifier(char):
        return ASIAN_MARK if asian else EXTEND
    if category == "Cf":
        return EXTEND
    if category == "Pc":
        return JOINER
    if category == "Nd":
        return NUMERIC
    if within(code, _KATAKANA):
        return KATAKANA
    if within(code, _HIRAGANA):
        return HIRAGANA
    if within(code, _HAN):
        return HAN
    if (asian and category in ("Lo", "Lm")) or within(code, _ASIAN_SYMBOLS):
        return ASIAN
    if within(code, _OTHER_IDEOGRAPHS):
        return OTHER
    if category[0] == "L":
        hebrew = 0x0590 <= code <= 0x05FF or 0xFB1D <= code <= 0xFB4F
        return HEBREW if hebrew and category == "Lo" else LETTER
    return LETTER if category == "Nl" or within(code, _LETTERS) else OTHER


def is_pictograph(char: str) -> bool:
    """Whether `char` is an emoji by itself (Extended_Pictographic)."""
    code = ord(char)
    return (code < 0x3300 or 0x1F000 <= code <= 0x1FFFD) and within(code, _PICTOGRAPHS)


def is_modifier(char: str) -> bool:
    """Whether `char` is a skin tone."""
    return 0x1F3FB <= ord(char) <= 0x1F3FF


def is_regional(char: str) -> bool:
    """Whether `char` is half a flag (Regional_Indicator)."""
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    """Whether the code point lies in one of the closed ranges."""
    return any(first <= code <= last for first, last in ranges)
