"""Run the suites, print their tables, write them to bench-out and, when asked, to the documentation."""

from __future__ import annotations

import argparse
import os

# Before NumPy is imported: threads in the linear algebra would make neither side's time that of one core.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import re  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from rich.console import Console  # noqa: E402
from rich.markup import escape  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.suites import DAILY, Result, describe_machine, find_suites  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    suites = find_suites()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"which of {', '.join(suites)}; all unless given")
    daily = ", ".join(sorted(DAILY))
    parser.add_argument("--quick", action="store_true", help=f"few repeats, and unless suites are given only {daily}")
    parser.add_argument("--check", action="store_true", help="fail where a requirement is not met")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/benchmarks.md as well")
    arguments = parser.parse_args()
    unknown = set(arguments.suites) - suites.keys()
    if unknown:
        parser.error(f"there is no suite {', '.join(sorted(unknown))}: choose from {', '.join(suites)}")

    console = Console()
    machine = describe_machine()
    console.print(escape(machine) + "\n")
    results = {}
    for name in arguments.suites or (sorted(DAILY) if arguments.quick else suites):
        results[name] = suites[name](arguments.quick)
        show(console, results[name])

    out = ROOT / "bench-out"
    out.mkdir(exist_ok=True)
    for name, result in results.items():
        result.table.to_csv(out / f"{name}.csv", index=False)
        if result.picture is not None:
            result.picture.savefig(out / f"{name}.png", dpi=150)
    console.print(f"Written to {out.name}: " + ", ".join(f"{name}.csv" for name in results))
    if arguments.write_docs:
        path = ROOT / "docs" / "benchmarks.md"
        path.write_text(to_markdown(machine, list(results.values()), path.read_text()))
        for result in results.values():
            if result.picture is not None:
                result.picture.savefig(path.parent / picture_name(result), dpi=110)
        console.print(f"Written to {path.relative_to(ROOT)}")
    missed = sum(result.num_missed for result in results.values())
    if missed:
        console.print(f"[bold red]{missed} requirements not met[/]")
    return 1 if missed and arguments.check else 0


def _cell(value: object) -> str:
    if isinstance(value, float):
        if value != value:
            return ""
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return {"True": "yes", "False": "no"}.get(str(value), str(value))


def show(console: Console, result: Result) -> None:
    table = Table(title=result.title, title_justify="left")
    for name, values in result.table.items():
        table.add_column(str(name), justify="right" if values.dtype.kind in "if" else "left")
    for _, row in result.table.iterrows():
        style = "" if row.get("met", True) else "bold red"
        table.add_row(*(escape(_cell(value)) for value in row), style=style)
    console.print(table)
    for note in result.notes:
        console.print(escape(note))
    console.print()


def picture_name(result: Result) -> str:
    """File of a suite's picture in the documentation, after the suite's title."""
    words = re.findall(r"[a-z]+", result.title.lower())
    return "benchmark-" + "-".join(words[:4]) + ".png"


def to_markdown(machine: str, results: list[Result], present: str = "") -> str:
    """A page with the sections of these results in place of those that the present page has for them."""
    sections = {section.split("\n", 1)[0]: section for section in present.split("\n## ")[1:]}
    sections |= {result.title: _section(machine, result) for result in results}
    head = (
        "# Benchmarks\n\nWritten by `python -m benchmarks --write-docs SUITE ...`, suite by suite, and so perhaps on "
        "different machines (`make bench` runs all of them)."
    )
    return "\n\n## ".join([head, *(sections[title].rstrip() for title in sorted(sections))]) + "\n"


def _section(machine: str, result: Result) -> str:
    lines = [result.title, "", f"{machine}.", "", *result.notes, ""]
    if result.picture is not None:
        lines += [f"![{result.title}]({picture_name(result)})", ""]
    lines.append("| " + " | ".join(map(str, result.table.columns)) + " |")
    lines.append("| " + " | ".join("---" for _ in result.table.columns) + " |")
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for _, row in result.table.iterrows()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
