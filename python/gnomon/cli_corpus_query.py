"""`gnomon corpus search|grep|navigate|verify-hypothesis|read|outline|list|replay`: questions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .cli_common import UserError, user_errors, visible

if TYPE_CHECKING:
    from .corpus import Answer, Corpus, Item

_COMMANDS: list[click.Command] = []


def add_questions(group: click.Group) -> None:
    """Adds the commands of this module to `gnomon corpus`."""
    for command in _COMMANDS:
        group.add_command(command)


_Ask = Callable[..., "Answer"]


def _question(name: str, help: str, *options: Any, filters: bool = True) -> Callable[[_Ask], _Ask]:
    """A command that opens the corpus, asks it (or a session on it), and prints the answer.

    The decorated function says what is asked: it gets the corpus or session and the options.
    """

    def decorate(ask: _Ask) -> _Ask:
        @click.pass_context
        def run(context: click.Context, /, corpus_path: str, **given: Any) -> None:
            with user_errors():
                _run(context, ask, corpus_path, given)

        command: Any = run
        shared = [*_SHARED, *(_FILTERS if filters else [])]
        for option in reversed([*options, *shared]):
            command = option(command)
        command = click.argument("corpus_path", metavar="CORPUS", type=click.Path(path_type=str))(
            command
        )
        text = (ask.__doc__ or "").strip()
        _COMMANDS.append(click.command(name, help=text, short_help=help)(command))
        return ask

    return decorate


_SHARED = [
    click.option("--max-tokens", type=click.IntRange(min=256), default=4000, show_default=True),
    click.option("--cursor", default="", help="From the end of the last answer."),
    click.option(
        "--as", "scopes", multiple=True, metavar="SCOPE", help="Access scope; repeatable."
    ),
    click.option("--principal", help="Whose sessions these are."),
    click.option("--session", "session_id", help="Go on with a session; 'new' begins one."),
    click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON."),
]
_FILTERS = [
    click.option(
        "--filter", "filters", multiple=True, metavar="FIELD=VALUE", help="Repeatable; all hold."
    ),
]


def _run(
    context: click.Context, ask: Callable[..., Answer], path: str, given: dict[str, Any]
) -> None:
    corpus = _opened(path, given.pop("principal"), given.pop("scopes"))
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
    answer = ask(asked, **given)
    if as_json:
        click.echo(answer.to_json().decode())
    else:
        _print(answer)
    if answer.report.problem is not None:
        context.exit(2)


def _opened(path: str, principal: str | None, scopes: tuple[str, ...]) -> Corpus:
    try:
        from .corpus import Corpus
    except ImportError as error:
        raise UserError(str(error)) from error
    return Corpus.open(path, principal, scopes or None)


def _filters(given: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in given:
        field, equals, value = each.partition("=")
        if not equals:
            raise UserError(f"--filter {each!r}: write FIELD=VALUE")
        found.setdefault(field, []).append(value)
    return found


_K = click.option("-k", type=click.IntRange(1, 1000), default=10, show_default=True)


@_question(
    "search",
    "Passages for a query.",
    click.argument("query"),
    click.option(
        "--mode",
        type=click.Choice(["auto", "sparse", "dense", "hybrid", "exact"]),
        default="auto",
        show_default=True,
    ),
    click.option("--scope", help="doc:ID, section:ID, path:GLOB or workspace:NAME."),
    click.option("--no-relax", is_flag=True, help="Nothing but what answers as written."),
    _K,
)
def _search(asked: Any, no_relax: bool, **given: Any) -> Answer:
    """Search CORPUS for QUERY: words, "phrases", AND/OR/NOT, NEAR(a,b,5), field:value, /regex/."""
    answer: Answer = asked.hybrid_search(relax=not no_relax, **given)
    return answer


@_question(
    "grep",
    "Every line that matches.",
    click.argument("pattern"),
    click.option("-F", "--literal", is_flag=True, help="PATTERN is a text."),
    click.option("--raw", is_flag=True, help="In the files' bytes, not in what they show."),
    click.option("-i", "--ignore-case", is_flag=True),
    _K,
)
def _grep(asked: Any, **given: Any) -> Answer:
    """Find every line of CORPUS that matches PATTERN (RE2)."""
    answer: Answer = asked.grep(**given)
    return answer


@_question(
    "navigate",
    "What stands next to a name or a passage.",
    click.argument("target"),
    click.argument("relation", required=False),
    click.option("--direction", type=click.Choice(["out", "in", "both"]), default="both"),
    click.option("--depth", type=click.IntRange(1, 3), default=1),
    _K,
)
def _navigate(asked: Any, target: str, **given: Any) -> Answer:
    """Walk from TARGET (an entity, passage, section or document) along RELATION or all."""
    answer: Answer = asked.navigate(target, **given)
    return answer


@_question(
    "verify-hypothesis",
    "Whether two claims stand together.",
    click.argument("a"),
    click.argument("b"),
    click.option("--scope", default="section", help="chunk, section, doc or near:N."),
    _K,
)
def _verify(asked: Any, **given: Any) -> Answer:
    """Find the passages of CORPUS in which A and B stand together."""
    answer: Answer = asked.verify_hypothesis(**given)
    return answer


@_question(
    "read",
    "The text of a passage, section or document.",
    click.argument("target"),
    click.option("--around", type=click.IntRange(0, 50), default=0),
    filters=False,
)
def _read(asked: Any, **given: Any) -> Answer:
    """Read TARGET: a passage's id, section:ID, doc:ID, a path, or PATH:START-END."""
    answer: Answer = asked.read(**given)
    return answer


@_question(
    "outline",
    "The headings of a document.",
    click.argument("target"),
    click.option("--depth", type=click.IntRange(1, 64), default=6),
    filters=False,
)
def _outline(asked: Any, **given: Any) -> Answer:
    """List the sections of TARGET, a document or a section."""
    answer: Answer = asked.outline(**given)
    return answer


@_question(
    "list",
    "Documents, sources, entities or relations.",
    click.argument(
        "kind",
        type=click.Choice(["documents", "sources", "entities", "relations"]),
        default="documents",
    ),
    click.argument("pattern", default="*"),
    click.option("-k", type=click.IntRange(1, 1000), default=50, show_default=True),
)
def _list(asked: Any, **given: Any) -> Answer:
    """List what CORPUS has of KIND whose name fits PATTERN."""
    answer: Answer = asked.list(**given)
    return answer


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
        corpus = _opened(corpus_path, principal, scopes)
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


_COMMANDS.append(_replay)


# Text for people


def _print(answer: Answer) -> None:
    for item in answer.items:
        _print_item(item)
    for line in answer.lines:
        count = f"  {line.count}" if line.count else ""
        click.echo(
            visible(f"{'  ' * max(line.level - 1, 0)}{line.path or line.title}{count}  {line.id}")
        )
    report = answer.report
    if report.problem is not None:
        said = f"{report.problem.message}; {report.problem.remedy}".removesuffix("; ")
        click.echo(visible(f"gnomon: {said}"), err=True)
        return
    if report.repeat_of is not None:
        click.echo(f"the answer is that of call {report.repeat_of}")
    for fallback in report.fallbacks:
        click.echo(visible(f"[{fallback.step}: {fallback.found}] {fallback.why} {fallback.query}"))
    if report.no_hit is not None:
        _print_no_hit(answer)
    shown = ", ".join(f"{name} {value:g}" for name, value in report.counts.items())
    click.echo(
        visible(
            f"{report.returned} of {report.total}{'' if report.exhaustive else ' (ranked)'}"
            f"{'; ' + shown if shown else ''}"
        )
    )
    if report.session:
        click.echo(f"session {report.session}, call {report.call}")
    if report.cursor:
        click.echo(f"more: --cursor {report.cursor}")


def _print_item(item: Item) -> None:
    first, last = item.span
    mark = f" [{item.relaxed}]" if item.relaxed else ""
    edge = f" {item.edge.source} -{item.edge.relation}-> {item.edge.target}" if item.edge else ""
    score = "" if item.score is None else f" {item.score.value:.3f}"
    click.echo(visible(f"{item.path}:{first}-{last}{score}{mark}{edge}  {item.chunk_id}"))
    color = sys.stdout.isatty()
    before, behind = ("\x1b[1m", "\x1b[0m") if color else ("", "")
    parts, at = [], 0
    for start, end in item.marks:
        parts += [visible(item.excerpt[at:start]), before, visible(item.excerpt[start:end]), behind]
        at = end
    text = "".join([*parts, visible(item.excerpt[at:])]).strip()
    if text:
        click.echo(f"    {text}")


def _print_no_hit(answer: Answer) -> None:
    no_hit = answer.report.no_hit
    assert no_hit is not None
    guilty = f": {', '.join(no_hit.guilty)}" if no_hit.guilty else ""
    click.echo(visible(f"nothing found, {no_hit.reason}{guilty}; {no_hit.advice}"))
    for each in no_hit.nearest:
        click.echo(visible(f"    {each.term}: {', '.join(each.instead)}?"))
