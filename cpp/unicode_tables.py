"""Write the character classes that cpp/analyze.cpp reads, from this interpreter's `unicodedata`.

Run by CMake with the Python that the extension is built for, so that the compiled analyzer and the
pure Python reference know the same Unicode version. The output depends on that version alone.

    python unicode_tables.py OUT

The second pair of tables, kBreakIndex and kBreakBlocks, holds the word-break classes of
python/gnomon/reference/word_break.py; the third, kLoweredIndex and kLoweredBlocks, how far away
the lower case of a character is, where it is one character.

Two stages: kClassIndex[code >> 8] is the number of a block of 256 classes in kClassBlocks.
Block 0 is Latin-1, so text of one byte a character needs no first stage.
"""

import runpy
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORD = 1  # letter, number or combining mark (category M*)
CJK = 2  # bigram scripts of basic-v1, whatever stands in the range
EXTRA = 4  # bigram scripts that standard-v1 adds; word characters only
UPPER = 8  # Lu, Lt
LOWER = 16  # Ll
ALNUM = 32  # str.isalnum: a word character that is not a mark
UNDERSCORE = 64
JOINS = 128  # NFKC may melt it into, or move it before, what stands before it
CHANGES = 256  # the analyzer changes it even when it stands alone: by NFKC, or U+0130

CJK_RANGES = (
    *((0x3005, 0x3007), (0x3040, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF)),
    *((0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
)
# Thai and Lao, Myanmar with its extensions A, B and C, Khmer.
EXTRA_RANGES = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    *((0x116D0, 0x116FF), (0x1780, 0x17FF)),
)
# Added to the number of a word-break class.
PICTOGRAPH = 16
REGIONAL = 32
SKIN_TONE = 64

WORD_BREAK = Path(__file__).parents[1] / "python" / "gnomon" / "reference" / "word_break.py"
CODE_POINTS = 0x110000
BLOCK = 256


def within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    """Whether the code point lies in one of the closed ranges."""
    return any(first <= code <= last for first, last in ranges)


def second_characters() -> set[str]:
    """Starters and marks that composition may melt into the character before them."""
    found = {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # Jamo V, T
    for code in range(CODE_POINTS):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return found


def class_of(char: str, seconds: set[str]) -> int:
    """Return the class bits of one character."""
    code, category = ord(char), unicodedata.category(char)
    bits = 0
    if char.isalnum():
        bits |= WORD | ALNUM
    elif category.startswith("M"):
        bits |= WORD
    if within(code, CJK_RANGES):
        bits |= CJK
    if bits & WORD and within(code, EXTRA_RANGES):
        bits |= EXTRA
    bits |= {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER}.get(category, 0)
    if char == "_":
        bits |= UNDERSCORE
    first = unicodedata.normalize("NFKD", char)[0]
    if unicodedata.combining(first) or first in seconds:
        bits |= JOINS
    if unicodedata.normalize("NFKC", char) != char or char == "\u0130":
        bits |= CHANGES
    return bits


def check_case(classes: list[int]) -> None:
    """Stop unless a character and its lower case cut text alike: analyze.cpp looks at one."""
    kept = WORD | CJK | EXTRA | ALNUM | UNDERSCORE
    for code in range(CODE_POINTS):
        lower = chr(code).lower()
        if len(lower) == 1 and classes[code] & kept != classes[ord(lower)] & kept:
            sys.exit(f"unicode_tables.py: U+{code:04X} and its lower case have different classes")


def check_lower() -> None:
    """Stop unless analyze.cpp may lower each character for itself, twice as well as once.

    Two are the caller's affair: U+0130, which becomes two characters, and U+03A3, which depends on
    its neighbours.
    """
    for code in range(CODE_POINTS):
        lower = chr(code).lower()
        if (len(lower) != 1 and code != 0x130) or lower.lower() != lower:
            sys.exit(f"unicode_tables.py: U+{code:04X} has no lower case of one character")


def rows(values: list[int]) -> str:
    """Format numbers as the lines of an initialiser."""
    lines = (values[i : i + 24] for i in range(0, len(values), 24))
    return ",\n".join("    " + ", ".join(map(str, line)) for line in lines)


def break_bits(char: str, rules: dict[str, Any]) -> int:
    """Return the number of the character's word-break class, and what it is among emoji."""
    bits: int = rules["CLASSES"].index(rules["break_class"](char))
    bits |= PICTOGRAPH * rules["is_pictograph"](char)
    bits |= REGIONAL * rules["is_regional"](char)
    return bits | SKIN_TONE * rules["is_modifier"](char)


def two_stages(name: str, kind: str, values: Sequence[int]) -> str:
    """Return the C++ definition of both tables for one value a code point."""
    numbers: dict[tuple[int, ...], int] = {}
    index = [
        numbers.setdefault(tuple(values[at : at + BLOCK]), len(numbers))
        for at in range(0, CODE_POINTS, BLOCK)
    ]
    return (
        f"constexpr std::uint16_t k{name}Index[{len(index)}] = {{\n{rows(index)}}};\n"
        f"constexpr {kind} k{name}Blocks[{len(numbers) * BLOCK}] = {{\n"
        f"{rows([value for block in numbers for value in block])}}};\n"
    )


def main(out: Path) -> None:
    """Compute the tables and write them to `out`."""
    seconds = second_characters()
    classes = [class_of(chr(code), seconds) for code in range(CODE_POINTS)]
    check_case(classes)
    check_lower()
    lower = [chr(code).lower() for code in range(CODE_POINTS)]
    steps = [ord(c) - code if len(c) == 1 else 0 for code, c in enumerate(lower)]
    rules = runpy.run_path(str(WORD_BREAK))
    breaks = [break_bits(chr(code), rules) for code in range(CODE_POINTS)]
    bits = {
        **{"Word": WORD, "Cjk": CJK, "Extra": EXTRA, "Upper": UPPER, "Lower": LOWER},
        **{"Alnum": ALNUM, "Underscore": UNDERSCORE, "Joins": JOINS, "Changes": CHANGES},
    }
    names = "".join(f"constexpr std::uint16_t k{name} = {bit};\n" for name, bit in bits.items())
    emoji = {"Pictograph": PICTOGRAPH, "Regional": REGIONAL, "SkinTone": SKIN_TONE}
    names += "".join(f"constexpr std::uint8_t k{name} = {bit};\n" for name, bit in emoji.items())
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        "// Generated by cpp/unicode_tables.py.\n"
        f'constexpr char kUnicodeVersion[] = "{unicodedata.unidata_version}";\n{names}'
        + two_stages("Class", "std::uint16_t", classes)
        + two_stages("Break", "std::uint8_t", breaks)
        + two_stages("Lowered", "std::int32_t", steps),
        encoding="ascii",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
