"""What the commands share: errors for people, and text that a terminal can be trusted with."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

# A document must not drive the reader's terminal: controls (C0, DEL, C1) show as symbols, and so do
# the characters that reorder the line around them (CVE-2021-42574). One for one: spans stay valid.
_UNSAFE = (
    {code: 0x2400 + code for code in range(0x20)}
    | {0x7F: 0x2421}
    | dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
    | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
)


def visible(text: str) -> str:
    r"""`text` on one line, with every control character replaced by a visible one.

    >>> visible("a\x1b[31mb\n")
    'a␛[31mb␊'
    """
    return text.translate(_UNSAFE)


class UserError(click.ClickException):
    """Ends the command with one line on stderr and exit code 2."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the line."""
        click.echo(f"gnomon: {visible(self.message)}", file=file, err=file is None)


@contextmanager
def signals_held() -> Iterator[None]:
    """SIGINT and SIGTERM that arrive inside take effect at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs handlers in the main thread only
        return
    arrived: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [
        signal.signal(number, lambda number, _: arrived.append(number)) for number in numbers
    ]
    try:
        yield
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for waiting in arrived:
            signal.raise_signal(waiting)


@contextmanager
def user_errors() -> Iterator[None]:
    """Turns what can go wrong through no fault of gnomon's into UserError."""
    from ._core import CorruptIndex

    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output went away; click ends quietly
    except OSError as error:
        what = error.strerror or str(error)
        raise UserError(f"{error.filename}: {what}" if error.filename else str(error)) from error
    except MemoryError as error:
        raise UserError("out of memory; index fewer files, or with less --max-bytes") from error
    except (CorruptIndex, ValueError) as error:
        raise UserError(str(error)) from error


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """A table: plain columns in a pipe, ruled in a terminal."""
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        for cells in (columns, *rows):
            line = "  ".join(
                cell.ljust(width) if number == 0 else cell.rjust(width)
                for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            click.echo(line.rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for cells in rows:
        table.add_row(*(Text(cell) for cell in cells))
    Console(highlight=False, markup=False, emoji=False).print(table)
