"""Tables as CSV, LaTeX and HTML, and reports made of paragraphs, tables and pictures. Nothing of a user's is obeyed."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from pgfa.io.writing import write_table
from pgfa.report.text import number, show

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}",
}  # fmt: skip


def latex_escape(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    Examples
    --------
    >>> print(latex_escape("50% of $x_1$"))
    50\% of \$x\_1\$
    """
    return "".join(_LATEX.get(character, character) for character in show(text))


def markdown_escape(text: str) -> str:
    r"""Text that Markdown shows as it is, without links, code or formulae, also in a cell of a table.

    Examples
    --------
    >>> print(markdown_escape("a|b <i> [x](y) $z$"))
    a\|b &lt;i&gt; \[x\](y) \$z\$
    """
    escaped = "".join("\\" + character if character in "\\|*`$[]" else character for character in show(text))
    # Addresses become links by themselves.
    return html.escape(escaped, quote=False).replace("://", r":\//").replace("www.", r"www\.")


def cell(value: Any) -> str:
    """A cell for people: numbers with three digits, nothing for what does not exist."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "" if pd.isna(value) else number(value)
    return "" if value is None else show(value)


def to_latex(table: pd.DataFrame) -> str:
    """A tabular with rules of the package booktabs."""
    lines = [r"\begin{tabular}{" + "l" * table.shape[1] + "}", r"\toprule"]
    lines += [" & ".join(latex_escape(str(column)) for column in table.columns) + r" \\", r"\midrule"]
    for row in table.itertuples(index=False):
        lines.append(" & ".join(latex_escape(cell(value)) for value in row) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def to_html(table: pd.DataFrame) -> str:
    """A table element."""
    head = "".join(f"<th>{html.escape(show(column))}</th>" for column in table.columns)
    rows = [
        "<tr>" + "".join(f"<td>{html.escape(cell(value))}</td>" for value in row) + "</tr>"
        for row in table.itertuples(index=False)
    ]
    return "\n".join(["<table>", f"<tr>{head}</tr>", *rows, "</table>", ""])


def to_markdown(table: pd.DataFrame) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(markdown_escape(str(column)) for column in table.columns) + " |"]
    lines.append("|" + " --- |" * table.shape[1])
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join(markdown_escape(cell(value)) for value in row) + " |")
    return "\n".join([*lines, ""])


def write_all(table: pd.DataFrame, folder: Path, name: str) -> None:
    """The table as name.csv, name.tex and name.html."""
    folder.mkdir(parents=True, exist_ok=True)
    write_table(table, folder / f"{name}.csv")
    (folder / f"{name}.tex").write_text(to_latex(table), encoding="utf-8")
    (folder / f"{name}.html").write_text(_PAGE.format(title=html.escape(name), body=to_html(table)), encoding="utf-8")


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }}
table {{ border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto }}
th, td {{ border-bottom: 1px solid #ddd; padding: .25em .7em; text-align: left; vertical-align: top }}
img {{ max-width: 100% }} pre {{ background: #f5f5f5; padding: .7em; overflow-x: auto }}
</style></head><body>
{body}</body></html>
"""


@dataclass
class Page:
    """A report, written once and kept as Markdown and as HTML."""

    title: str
    _parts: list[tuple[str, Any]] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self._parts.append(("heading", text))

    def paragraph(self, text: str) -> None:
        self._parts.append(("paragraph", " ".join(text.split())))

    def code(self, text: str) -> None:
        self._parts.append(("code", text))

    def table(self, table: pd.DataFrame) -> None:
        self._parts.append(("table", table))

    def picture(self, path: str, text: str) -> None:
        self._parts.append(("picture", (path, text)))

    def links(self, links: dict[str, str]) -> None:
        """A list of links to other pages: texts by path, without its ending."""
        self._parts.append(("links", links))

    def to_markdown(self) -> str:
        def part(kind: str, content: Any) -> str:
            if kind == "heading":
                return f"## {markdown_escape(content)}\n"
            if kind == "table":
                return to_markdown(content)
            if kind == "picture":
                return f"![{markdown_escape(content[1])}]({content[0]})\n"
            if kind == "links":
                return "".join(f"- [{markdown_escape(text)}]({path}.md)\n" for path, text in content.items())
            if kind == "code":
                return f"```\n{show_lines(content)}\n```\n"
            return f"{markdown_escape(content)}\n"

        return "\n".join([f"# {markdown_escape(self.title)}\n", *(part(*item) for item in self._parts)])

    def to_html(self) -> str:
        def part(kind: str, content: Any) -> str:
            if kind == "heading":
                return f"<h2>{html.escape(show(content))}</h2>\n"
            if kind == "table":
                return to_html(content)
            if kind == "picture":
                return f'<p><img src="{html.escape(content[0])}" alt="{html.escape(show(content[1]))}"></p>\n'
            if kind == "links":
                items = [
                    f'<li><a href="{html.escape(path)}.html">{html.escape(show(text))}</a></li>'
                    for path, text in content.items()
                ]
                return "<ul>\n" + "\n".join(items) + "\n</ul>\n"
            if kind == "code":
                return f"<pre>{html.escape(show_lines(content))}</pre>\n"
            return f"<p>{html.escape(show(content))}</p>\n"

        body = f"<h1>{html.escape(show(self.title))}</h1>\n" + "".join(part(*item) for item in self._parts)
        return _PAGE.format(title=html.escape(show(self.title)), body=body)

    def write(self, folder: Path) -> None:
        """Write report.md and report.html."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.md").write_text(self.to_markdown(), encoding="utf-8")
        (folder / "report.html").write_text(self.to_html(), encoding="utf-8")


def show_lines(text: str) -> str:
    """Several lines, each without anything that a terminal could take for a command."""
    return "\n".join(show(line) for line in text.splitlines())
