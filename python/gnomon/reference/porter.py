"""Porter's stemmer (M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980).

With the two departures of its author's own program, `bli` for `abli` and `logi`, as in Lucene's
PorterStemFilter. Letters other than a, e, i, o, u and y count as consonants, in every script; words
of at most two UTF-16 units stay as they are.
"""

_STEP_2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")),
    *(("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    *(("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive")),
    *(("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
    ("logi", "log"),
)
_STEP_3 = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic")),
    *(("ful", ""), ("ness", "")),
)
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou"),
    *("ism", "ate", "iti", "ous", "ive", "ize"),
)


def stem(word: str) -> str:
    """Return the stem of `word`, which is in lower case.

    >>> [stem(word) for word in ("caresses", "ponies", "hopping", "relational", "sky")]
    ['caress', 'poni', 'hop', 'relat', 'sky']
    """
    word = "".join(map(_units, word))
    if len(word) > 2:
        word = _step_1(word)
        word = _replace(word, _STEP_2)
        word = _replace(word, _STEP_3)
        word = _step_5(_step_4(word))
    return word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _units(char: str) -> str:
    """The UTF-16 units of `char`, each as a character."""
    code = ord(char) - 0x10000
    return char if code < 0 else chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def _step_1(word: str) -> str:
    if word.endswith("sses") or word.endswith("ies"):
        word = word[:-2]
    elif word.endswith("s") and word[-2] != "s":
        word = word[:-1]
    if word.endswith("eed"):
        if measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for suffix in ("ed", "ing"):
            if word.endswith(suffix):
                if has_vowel(word[: -len(suffix)]):
                    word = _repaired(word[: -len(suffix)])
                break
    if word.endswith("y") and has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return word


def _repaired(stem: str) -> str:
    """What is left after -ed or -ing, with the e or without the double letter it had before."""
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if ends_double(stem):
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if measure(stem) == 1 and ends_cvc(stem) else stem


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, new in rules:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return stem + new if measure(stem) > 0 else word
    return word


def _step_4(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            if suffix == "ion" and not stem.endswith(("s", "t")):
                continue
            return stem if measure(stem) > 1 else word
    return word


def _step_5(word: str) -> str:
    size = measure(word)
    if word.endswith("e") and (size > 1 or (size == 1 and not ends_cvc(word[:-1]))):
        word = word[:-1]
    if word.endswith("l") and ends_double(word) and size > 1:
        word = word[:-1]
    return word


def consonants(word: str) -> list[bool]:
    """Of each letter whether it is a consonant; y is one at the start and after a vowel.

    >>> consonants("yay")
    [True, False, True]
    """
    found: list[bool] = []
    for char in word:
        after_vowel = not found or not found[-1]
        found.append(after_vowel if char == "y" else char not in "aeiou")
    return found


def measure(stem: str) -> int:
    """How often a vowel is followed by a consonant: Porter's m.

    >>> [measure(stem) for stem in ("tree", "trouble", "troubles")]
    [0, 1, 2]
    """
    kinds = consonants(stem)
    return sum(1 for at in range(1, len(kinds)) if kinds[at] and not kinds[at - 1])


def has_vowel(stem: str) -> bool:
    """Whether `stem` has a vowel, Porter's *v*."""
    return not all(consonants(stem))


def ends_double(stem: str) -> bool:
    """Whether `stem` ends with the same consonant twice, Porter's *d."""
    return len(stem) >= 2 and stem[-1] == stem[-2] and consonants(stem)[-1]


def ends_cvc(stem: str) -> bool:
    """Whether `stem` ends consonant, vowel, consonant other than w, x, y: Porter's *o."""
    return stem[-1:] not in ("w", "x", "y") and consonants(stem)[-3:] == [True, False, True]
