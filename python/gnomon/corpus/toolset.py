"""The tools of a corpus at work: for `gnomon.agent`, and as definitions for other frameworks.

Who asks is never the model's to say. A toolset stands on a corpus that was opened for a principal
(or on a session of it), or takes `principal` and `scopes` as injected arguments, which no model
can send.

>>> from gnomon.corpus.toolset import anthropic_definitions
>>> [tool["name"] for tool in anthropic_definitions()][:2]
['search_general_knowledge', 'search_precise']
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .answers import Answer
from .questions import Questions
from .tool_answers import told
from .tool_handlers import tool_call
from .tool_specs import META_PROMPT, NAMES, SPECS

if TYPE_CHECKING:
    from gnomon.agent import Tool

    from .api import Corpus

__all__ = [
    "META_PROMPT",
    "answer_tool",
    "anthropic_definitions",
    "call_tool",
    "corpus_tools",
    "langchain_tools",
    "openai_definitions",
]


def answer_tool(asked: Questions[Answer], name: str, arguments: Mapping[str, Any]) -> Answer:
    """The answer of the tool `name` to valid arguments, in full.

    Raises KeyError for a name that is none of the eight; `corpus_tools` and the MCP server check
    the arguments first, this does not.
    """
    return asked._ask(tool_call(name, arguments))


def call_tool(asked: Questions[Answer], name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the model gets: ``{"status": ..., "evidence": [...], "report": {...}}``.

    "failed" is an answer with a problem and without evidence (a stale cursor, an id that is not
    there, a budget that is used up); the report says which.
    """
    answer = answer_tool(asked, name, arguments)
    failed = answer.report.problem is not None and not answer.items and not answer.lines
    return {"status": "failed" if failed else "succeeded", **told(answer)}


def corpus_tools(
    corpus: Corpus | Questions[Answer], *, injected: bool = False, risk: int = 0
) -> dict[str, Tool]:
    """The eight tools for a `gnomon.agent.ToolRuntime`: read-only and idempotent.

    Parameters
    ----------
    corpus : Corpus or Session
        What the tools ask. With `injected` a corpus, which each call sees as the caller may.
    injected : bool
        Whether each call needs the arguments `principal` (str) and `scopes` (list of str, or None
        where no access scope is enforced) from the host: for one runtime that serves many callers.
    risk : int
        The risk of each tool.
    """
    from gnomon.agent import Tool

    tools = {}
    for spec in SPECS:
        schema = copy.deepcopy(spec.schema)
        if injected:
            schema["properties"] |= copy.deepcopy(_INJECTED)
        tools[spec.name] = Tool(
            spec.name,
            schema,
            risk,
            _execute(corpus, spec.name, injected),
            purpose=spec.purpose,
            injected=frozenset(_INJECTED if injected else ()),
            effect="read",
            idempotent=True,
        )
    return tools


_INJECTED: dict[str, Any] = {
    "principal": {"type": "string", "maxLength": 1000},
    "scopes": {"type": ["array", "null"], "items": {"type": "string", "maxLength": 1000}},
}


def _execute(corpus: Any, name: str, injected: bool) -> Callable[..., dict[str, Any]]:
    def execute(**arguments: Any) -> dict[str, Any]:
        asked = corpus
        if injected:
            asked = corpus.seen_by(arguments.pop("principal"), arguments.pop("scopes"))
        return call_tool(asked, name, arguments)

    execute.__name__ = name
    return execute


# --- definitions for other frameworks -------------------------------------------------------------


def anthropic_definitions() -> list[dict[str, Any]]:
    """The tools as Anthropic's Messages API takes them."""
    return [
        {
            "name": spec.name,
            "description": spec.purpose,
            "input_schema": copy.deepcopy(spec.schema),
        }
        for spec in SPECS
    ]


def openai_definitions(*, strict: bool = False, api: str = "chat") -> list[dict[str, Any]]:
    """The tools as OpenAI's Chat Completions ("chat") or Responses ("responses") API takes them.

    With `strict`, arguments that may be left out are required and may be null, and lengths are
    left out, as structured outputs want it; `answer_tool` takes null as absent.
    """
    if api not in ("chat", "responses"):
        raise ValueError(f"api must be 'chat' or 'responses', got {api!r}")
    made = []
    for spec in SPECS:
        function = {
            "name": spec.name,
            "description": spec.purpose,
            "parameters": _strict(spec.schema) if strict else copy.deepcopy(spec.schema),
            "strict": strict,
        }
        made.append(
            {"type": "function", "function": function}
            if api == "chat"
            else {"type": "function", **function}
        )
    return made


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = {}
    for name, field in schema["properties"].items():
        kept = {k: v for k, v in copy.deepcopy(field).items() if k not in _LENGTHS}
        if "items" in kept:
            kept["items"] = {k: v for k, v in kept["items"].items() if k not in _LENGTHS}
        if name not in schema["required"]:
            kept["type"] = [kept["type"], "null"]
            if "enum" in kept:
                kept["enum"] = [*kept["enum"], None]
        properties[name] = kept
    return {**schema, "properties": properties, "required": list(properties)}


_LENGTHS = ("minLength", "maxLength")


def langchain_tools(corpus: Questions[Answer], names: Iterable[str] = NAMES) -> list[Any]:
    """The tools as LangChain's `StructuredTool`, for a corpus or a session.

    The content is the JSON of the answer, the artifact the `Answer`. Needs the extra ``langchain``.
    Arguments are checked against the same strict schema; what is wrong with them is told to the
    model (`ToolException`, handled).
    """
    try:
        from langchain_core.tools import StructuredTool, ToolException
    except ImportError as error:
        raise ImportError(
            "langchain_tools needs langchain-core: pip install 'gnomon[langchain]'"
        ) from error
    contracts = {name: tool.contract for name, tool in corpus_tools(corpus).items()}
    by_name = {spec.name: spec for spec in SPECS}

    def made(name: str) -> Any:
        def run(**arguments: Any) -> tuple[str, Answer]:
            try:
                checked = contracts[name].validate(arguments).value
            except ValueError as error:
                raise ToolException(str(error)) from error
            answer = answer_tool(corpus, name, checked)
            return as_text(told(answer)), answer

        return StructuredTool.from_function(
            run,
            name=name,
            description=by_name[name].purpose,
            args_schema=copy.deepcopy(by_name[name].schema),
            response_format="content_and_artifact",
            handle_tool_error=True,
        )

    return [made(name) for name in names]


def as_text(value: Any) -> str:
    """Compact JSON as text."""
    from .tool_answers import as_json

    return as_json(value).decode("utf-8")
