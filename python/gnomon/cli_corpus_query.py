"""`gnomon corpus search|grep|navigate|verify-hypothesis|read|outline|list|replay`: questions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from .cli_common import UserError, user_errors
from .cli_corpus_open import AUTO, NONE, embedder_option, learned_option, open_corpus
from .cli_corpus_print import print_answer

if TYPE_CHECKING:
    from .corpus import Answer


class _Question(NamedTuple):
    """A command: a method of `Corpus` (and `Session`), and the options that are its arguments."""

    name: str
    method: str
    short: str
    help: str
    options: tuple[Any, ...]
    filters: bool = True


_K = click.option("-k", type=click.IntRange(1, 1000), default=10, show_default=True)
_QUESTIONS = (
    _Question(
        "search",
        "hybrid_search",
        "Passages for a query.",
        'Search CORPUS for QUERY: words, "phrases", AND/OR/NOT, NEAR(a,b,5), field:value, /regex/.',
        (
            click.argument("query"),
            click.option(
                "--mode",
                type=click.Choice(["auto", "sparse", "dense", "hybrid", "exact"]),
                default="auto",
                show_default=True,
            ),
            click.option("--scope", help="doc:ID, section:ID, path:GLOB or workspace:NAME."),
            click.option(
                "--relax/--no-relax", default=True, help="Nothing but what answers as written."
            ),
            click.option(
                "--collapse",
                type=click.Choice(["near"]),
                help="Of near duplicates show the first only.",
            ),
            click.option(
                "--mmr",
                type=click.FloatRange(0, 1),
                help="Fewer passages alike: 1 is relevance only, 0 novelty only.",
            ),
            click.option("--task", help="Type of task whose learned weights count."),
            embedder_option,
            learned_option,
            _K,
        ),
    ),
    _Question(
        "grep",
        "grep",
        "Every line that matches.",
        "Find every line of CORPUS that matches PATTERN (RE2).",
        (
            click.argument("pattern"),
            click.option("-F", "--literal", is_flag=True, help="PATTERN is a text."),
            click.option("--raw", is_flag=True, help="In the files' bytes, not in what they show."),
            click.option("-i", "--ignore-case", is_flag=True),
            _K,
        ),
    ),
    _Question(
        "navigate",
        "navigate",
        "What stands next to a name or a passage.",
        "Walk from TARGET (an entity, passage, section or document) along RELATION or all.",
        (
            click.argument("entity_or_id", metavar="TARGET"),
            click.argument("relation", required=False),
            click.option("--direction", type=click.Choice(["out", "in", "both"]), default="both"),
            click.option("--depth", type=click.IntRange(1, 3), default=1),
            _K,
        ),
    ),
    _Question(
        "verify-hypothesis",
        "verify_hypothesis",
        "Whether two claims stand together.",
        "Find the passages of CORPUS in which A and B stand together.",
        (
            click.argument("a"),
            click.argument("b"),
            click.option("--scope", default="section", help="chunk, section, doc or near:N."),
            _K,
        ),
    ),
    _Question(
        "read",
        "read",
        "The text of a passage, section or document.",
        "Read TARGET: a passage's id, section:ID, doc:ID, a path, or PATH:START-END.",
        (
            click.argument("target"),
            click.option("--around", type=click.IntRange(0, 50), default=0),
        ),
        False,
    ),
    _Question(
        "outline",
        "outline",
        "The headings of a document.",
        "List the sections of TARGET, a document or a section.",
        (
            click.argument("target"),
            click.option("--depth", type=click.IntRange(1, 64), default=6),
        ),
        False,
    ),
    _Question(
        "list",
        "list",
        "Documents, sources, entities or relations.",
        "List what CORPUS has of KIND whose name fits PATTERN.",
        (
            click.argument(
                "kind",
                type=click.Choice(["documents", "sources", "entities", "relations"]),
                default="documents",
            ),
            click.argument("pattern", default="*"),
            click.option("-k", type=click.IntRange(1, 1000), default=50, show_default=True),
        ),
    ),
)
_SHARED = (
    click.option("--max-tokens", type=click.IntRange(min=256), default=4000, show_default=True),
    click.option("--cursor", default="", help="From the end of the last answer."),
    click.option(
        "--as", "scopes", multiple=True, metavar="SCOPE", help="Access scope; repeatable."
    ),
    click.option("--principal", help="Whose sessions these are."),
    click.option("--session", "session_id", help="Go on with a session; 'new' begins one."),
    click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON."),
)
_FILTERS = click.option(
    "--filter", "filters", multiple=True, metavar="FIELD=VALUE", help="Repeatable; all hold."
)


def add_questions(group: click.Group) -> None:
    """Adds the commands of this module to `gnomon corpus`."""
    for question in _QUESTIONS:
        group.add_command(_command(question))
    group.add_command(_replay)


def _command(question: _Question) -> click.Command:
    """A command that opens the corpus, asks it (or a session on it), and prints the answer."""

    @click.pass_context
    def run(context: click.Context, /, corpus_path: str, **given: Any) -> None:
        with user_errors():
            _run(context, question.method, corpus_path, given)

    command: Any = run
    filters = (_FILTERS,) if question.filters else ()
    for option in reversed((*question.options, *_SHARED, *filters)):
        command = option(command)
    where = click.argument("corpus_path", metavar="CORPUS", type=click.Path(path_type=str))
    made: click.Command = click.command(
        question.name, help=question.help, short_help=question.short
    )(where(command))
    return made


def _run(context: click.Context, method: str, path: str, given: dict[str, Any]) -> None:
    asks_vectors = given.get("mode", "exact") in ("auto", "dense", "hybrid")
    embedder = given.pop("embedder", NONE)
    corpus = open_corpus(
        path,
        given.pop("principal"),
        given.pop("scopes"),
        embedder=embedder if asks_vectors or embedder != AUTO else NONE,
        learned=given.pop("learned", None),
    )
    session_id = given.pop("session_id")
    asked: Any = corpus
    if session_id is not None:
        try:
            asked = corpus.session(None if session_id == "new" else session_id)
        except KeyError as error:
            raise UserError(f"{error.args[0]}") from None
    as_json = given.pop("as_json")
    if "filters" in given:
        given["filters"] = _filters(given["filters"])
    answer: Answer = getattr(asked, method)(
        **{name: "" if value is None and name in _TEXTS else value for name, value in given.items()}
    )
    if as_json:
        click.echo(answer.to_json().decode())
    else:
        print_answer(answer)
    if answer.report.problem is not None:
        context.exit(2)


_TEXTS = ("collapse", "task")  # options that are "" where they are not given


def _filters(given: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in given:
        field, equals, value = each.partition("=")
        if not equals:
            raise UserError(f"--filter {each!r}: write FIELD=VALUE")
        found.setdefault(field, []).append(value)
    return found


@click.command("replay", short_help="Ask again what a session asked.")
@click.argument("corpus_path", metavar="CORPUS", type=click.Path(path_type=str))
@click.argument("session_id", metavar="SESSION")
@click.option("--as", "scopes", multiple=True, metavar="SCOPE", help="Access scope; repeatable.")
@click.option("--principal", help="Whose session it is.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a call.")
@click.pass_context
def _replay(
    context: click.Context,
    corpus_path: str,
    session_id: str,
    scopes: tuple[str, ...],
    principal: str | None,
    as_json: bool,
) -> None:
    """Ask everything that SESSION asked again and compare the answers; exit code 1 if one differs.

    On another generation than the recorded one answers may differ.
    """
    with user_errors():
        corpus = open_corpus(corpus_path, principal, scopes, embedder=AUTO)
        from .corpus import replay

        try:
            done = replay(corpus, corpus.session(session_id))
        except KeyError as error:
            raise UserError(f"{error.args[0]}") from None
        for each in done:
            row = {"call": each.call, "tool": each.tool, "same": each.same}
            said = "same" if each.same else f"differs (recorded on generation {each.generation})"
            click.echo(json.dumps(row) if as_json else f"{each.call:4} {each.tool}: {said}")
        if not all(each.same for each in done):
            context.exit(1)
