"""The documentation: its code runs, its links lead somewhere, its names exist."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import pgfa

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
on_every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def code_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


@on_every_page
def test_code_runs(page, tmp_path, monkeypatch):
    """The blocks of a page, one after the other; short runs stand in for long ones."""
    monkeypatch.chdir(tmp_path)
    names = {"pgfa": pgfa, "X": np.random.default_rng(0).normal(size=(30, 4))}
    for block in code_blocks(page):
        block = block.replace("draws=500, warmup=500", "draws=20, warmup=20, progress=False")
        block = block.replace("num_rows=1000", "num_rows=50").replace("chain.step(100)", "chain.step(3)")
        block = block.replace("np.zeros((4, 2)))", "np.zeros((4, 2))), tests='structure', progress=False")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(block, page.name, "exec"), names)


@on_every_page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


@on_every_page
def test_names_exist(page):
    for dotted in set(re.findall(r"`pgfa((?:\.\w+)+)", page.read_text())):
        thing = pgfa
        for name in dotted.strip(".").split("."):
            thing = getattr(thing, name)


def test_the_make_targets_that_are_named_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), flags=re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
