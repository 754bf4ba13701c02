"""What happens to tokens after a text was cut: stop words, a stemmer, synonyms, in this order."""

from collections.abc import Callable, Collection, Sequence

from gnomon.reference import analysis, lucene, porter

Token = tuple[str, int, int]
Rule = tuple[tuple[str, ...], tuple[str, ...]]  # a sequence of tokens, and what it adds


def filtered(
    text: str,
    preset: str,
    stop_words: Collection[str] = (),
    stem: Callable[[str], str] | None = None,
    rules: Sequence[Rule] = (),
) -> list[Token]:
    """Return the tokens of `text` that are no stop words, stemmed, and synonyms behind their cause.

    A whole identifier is not stemmed; neither is what the stemmer would leave nothing of.

    >>> filtered("the max_sizes", "standard-v1", {"the"}, porter.stem)
    [('max_sizes', 4, 13), ('max', 4, 7), ('size', 8, 13)]
    >>> filtered("new cars", "standard-v1", rules=[(("cars",), ("motor", "vehicles"))])
    [('new', 0, 3), ('cars', 4, 8), ('motor', 4, 8), ('vehicles', 4, 8)]
    """
    found: list[Token] = []
    for token, start, end, whole in analysis.marked_spans(text, preset):
        if token not in stop_words:
            stemmed = token if stem is None or whole else stem(token) or token
            found.append((stemmed, start, end))
    return expanded(found, rules)


def expanded(tokens: list[Token], rules: Sequence[Rule]) -> list[Token]:
    """Return the tokens with those of their synonyms: from left to right, longest phrase first."""
    longest_first = sorted(rules, key=lambda rule: -len(rule[0]))
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        length = 1
        added: tuple[str, ...] = ()
        for key, others in longest_first:
            if tuple(token for token, _, _ in tokens[at : at + len(key)]) == key:
                length, added = len(key), others
                break
        matched = tokens[at : at + length]
        start, end = min(start for _, start, _ in matched), max(end for _, _, end in matched)
        found += matched
        found += [(other, start, end) for other in added]
        at += length
    return found


def lucene_english(text: str) -> list[Token]:
    """Return what the preset lucene-english gives with its own stop words and stemmer.

    >>> [token for token, _, _ in lucene_english("The foxes' jumping")]
    ['fox', 'jump']
    """
    return filtered(text, "lucene-english", lucene.STOP_WORDS, porter.stem)
