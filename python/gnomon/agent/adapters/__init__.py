"""The ledger where people already are: MCP, LangGraph, pydantic-ai, the OpenAI Agents SDK, DBOS.

Each module sends a framework's tool calls through a runtime's ``dispatch`` under a derived
operation id, so that one action is one execution however often the framework or the model asks. The
ledger is the truth; what a framework recorded is a copy of what it was told.

The frameworks are optional: ``pip install 'gnomon[adapters]'``. A module imports its framework when
it is used.
"""
