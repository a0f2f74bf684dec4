"""Dispatch at compile time, and what compiled loops may do."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba.core import event

import pgfa
from pgfa._compile import compiled, implements


class Mixed(NamedTuple):
    values: np.ndarray
    scale: float


class AllAlike(NamedTuple):
    first: np.ndarray
    second: np.ndarray


class Unknown(NamedTuple):
    first: np.ndarray


def total(thing):
    raise NotImplementedError


@implements(total, Mixed)
def _total_of_mixed(thing):
    return thing.scale * thing.values.sum()


@implements(total, AllAlike, inline=True)
def _total_of_all_alike(thing):
    return thing.first.sum() + thing.second.sum()


@implements(total, None)
def _total_of_anything_else(thing):
    return -1.0


@compiled
def call_total(thing):
    return total(thing)


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (Mixed(np.ones(3), 2.0), 6.0),
        # Tuples whose fields all have one type are another type to the compiler.
        (AllAlike(np.ones(3), np.ones(4)), 7.0),
        (Unknown(np.ones(3)), -1.0),
    ],
)
def test_the_class_of_the_first_argument_chooses_the_body(thing, expected):
    assert call_total(thing) == expected


def add_some(thing, count):
    return thing.scale + count


def add_one_and_two(thing):
    return add_some(thing, 1) + add_some(thing, count=2)


def test_what_compiled_code_calls_is_compiled_once_and_python_may_call_it_too(monkeypatch):
    monkeypatch.setitem(globals(), "add_some", compiled(add_some))
    compilations = []

    class Listener(event.Listener):
        def on_start(self, happening):
            compilations.append(happening.data["dispatcher"].py_func.__name__)

        def on_end(self, happening):
            pass

    thing = Mixed(np.ones(3), 2.0)
    with event.install_listener("numba:compile", Listener()):
        assert compiled(add_one_and_two)(thing) == 7.0
        assert sorted(compilations) == ["add_one_and_two", "add_some"]
        assert add_some(thing, 5) == 7.0
    assert compilations.count("add_some") == 2


@compiled
def refuse(count):
    if count > 1:
        raise ValueError("too many:", count)
    return count


@compiled
def refuse_twice(count):
    return refuse(count) + refuse(count + 1)


def test_functions_that_compiled_code_calls_can_raise_with_values():
    assert refuse_twice(0) == 1
    with pytest.raises(ValueError, match=r"too many:.*2"):
        refuse_twice(1)


def adds_up_and_writes(function):
    """Innermost loops of a function that change a number and an array at once."""
    for loop in ast.walk(function):
        if not isinstance(loop, (ast.For, ast.While)):
            continue
        inside = [node for statement in loop.body for node in ast.walk(statement)]
        if any(isinstance(node, (ast.For, ast.While)) for node in inside):
            continue
        targets = [target for node in inside if isinstance(node, ast.Assign) for target in node.targets]
        of_one_turn = {target.id for target in targets if isinstance(target, ast.Name)}
        changed = [node.target for node in inside if isinstance(node, ast.AugAssign)]
        sums = [target for target in changed if isinstance(target, ast.Name) and target.id not in of_one_turn]
        if sums and any(isinstance(target, ast.Subscript) for target in targets + changed):
            yield loop.lineno


def test_loops_that_may_be_reordered_do_not_both_add_up_and_write():
    """Such loops are vectorised only where arrays are far enough apart, so that sums would depend on addresses."""
    counts_only = {"_list_owned"}  # whole numbers, which add up to the same in any order
    found = []
    for path in sorted(Path(pgfa.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or node.name in counts_only:
                continue
            if any("'arithmetic'" in ast.unparse(decorator) for decorator in node.decorator_list):
                found += [f"{path.name}:{line} {node.name}" for line in adds_up_and_writes(node)]
    assert found == []


@pytest.mark.parametrize("count", [4, 6, 10, 13])
def test_sums_do_not_depend_on_where_arrays_lie(count):
    """Shares of a few populations, in memory right behind their logarithms and far away from these."""
    from pgfa.models import pyclone_posterior as posterior

    rng = np.random.default_rng(count)
    model = pgfa.simulate("pyclone", pgfa.BetaBernoulli(2), rng=1, num_rows=5, num_samples=1).model
    density = model._density_of({})
    target = posterior.make_target(model._layouts.by_sample, density, model._information, 1.0, 1.0, 1.0, count)
    target.z[...] = rng.integers(0, 2, size=target.z.shape)
    point = posterior.make_point(target)
    buffer = np.empty(100)
    buffer[:count] = rng.normal(size=count)
    found = []
    for start in (count, 60):
        here = point._replace(u=buffer[:count], v=buffer[start : start + count])
        posterior.predict(target, 0, here)
        found.append(here.phi.tobytes())
    assert found[0] == found[1]
