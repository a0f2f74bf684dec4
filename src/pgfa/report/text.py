"""Words of users on a terminal: shown as they are, never obeyed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.text import Text


def show(label: Any) -> str:
    """A label without anything that a terminal could take for a command.

    Examples
    --------
    >>> show("a\\x1b[31mb"), show("two\\nlines")
    ('a\\\\x1b[31mb', 'two\\\\nlines')
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(label))


def plain(text: Any) -> Text:
    """Text in which square brackets are square brackets."""
    return Text(show(text))


def listing(labels: Iterable[Any], at_most: int) -> str:
    """The first labels, and how many there are beside them."""
    shown = [show(label) for label in labels]
    more = len(shown) - at_most
    return ", ".join(shown[:at_most]) + (f" and {more} more" if more > 0 else "")


def number(value: float, digits: int = 3) -> str:
    """A number for a table: as many digits as mean something, no exponent where it can be avoided."""
    if value != value:
        return "-"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "-∞"
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    return f"{value:.{digits}g}"
