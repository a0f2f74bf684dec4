"""Summaries of draws: what is a feature in one draw is found again in the others, whatever its place."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import pgfa
from pgfa.summary import _match, states_of, summarise


def make_tree(draws, lp=None, V=None, labels=None):
    """A tree of one or more chains from lists of feature matrices."""
    width = max(Z.shape[1] for chain in draws for Z in chain)
    num_rows = draws[0][0].shape[0]
    shape = (len(draws), len(draws[0]))
    stacked = np.zeros((*shape, num_rows, width), dtype=np.uint8)
    count = np.zeros(shape, dtype=np.int64)
    for c, chain in enumerate(draws):
        for d, Z in enumerate(chain):
            stacked[c, d, :, : Z.shape[1]] = Z
            count[c, d] = Z.shape[1]
    posterior = {
        "Z": (("chain", "draw", "row", "feature"), stacked),
        "num_features": (("chain", "draw"), count),
        "alpha": (("chain", "draw"), np.ones(shape)),
    }
    if V is not None:
        padded = np.full((*shape, width, V[0][0].shape[1]), np.nan)
        for c, chain in enumerate(V):
            for d, values in enumerate(chain):
                padded[c, d, : len(values)] = values
        posterior["V"] = (("chain", "draw", "feature", "column"), padded)
    coords = {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])}
    if labels is not None:
        coords["row"] = labels
    lp = np.arange(float(np.prod(shape))).reshape(shape) if lp is None else np.asarray(lp, dtype=float)
    stats = xr.Dataset({"lp": (("chain", "draw"), lp)}, coords={"chain": np.arange(shape[0])})
    return xr.DataTree.from_dict({"posterior": xr.Dataset(posterior, coords=coords), "sample_stats": stats})


def random_matrix(rng, num_rows=30, num_features=4):
    while True:
        Z = (rng.random((num_rows, num_features)) < rng.random(num_features)).astype(np.uint8)
        if Z.any(axis=0).all() and len({column.tobytes() for column in Z.T}) == num_features:
            return Z


def test_exchanged_columns_are_put_back():
    rng = np.random.default_rng(0)
    truth = random_matrix(rng)
    V = rng.normal(size=(4, 3))
    orders = [rng.permutation(4) for _ in range(12)]
    tree = make_tree([[truth[:, o] for o in orders[:6]], [truth[:, o] for o in orders[6:]]], V=[
        [V[o] for o in orders[:6]], [V[o] for o in orders[6:]]
    ])  # fmt: skip
    found = summarise(tree)
    assert set(np.unique(found.owners)) <= {0.0, 1.0}
    np.testing.assert_array_equal(found.owners.to_numpy(), found.reference.Z)
    np.testing.assert_array_equal(np.sort(found.reference.Z.sum(axis=0))[::-1], found.reference.Z.sum(axis=0))
    np.testing.assert_array_equal(found.agreement, 1.0)
    mean, sd = found.mean_and_sd(tree["posterior"]["V"])
    np.testing.assert_allclose(mean, found.reference.parameters["V"])
    np.testing.assert_allclose(sd, 0.0, atol=1e-12)
    # Without alignment both would be a blur.
    assert np.abs(np.asarray(tree["posterior"]["V"].mean(("chain", "draw"))) - V).max() > 0.1


def test_probabilities_are_shares_of_draws():
    first = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.uint8)
    second = first.copy()
    second[2, 0] = 0
    tree = make_tree([[first, second[:, ::-1], first, first]], lp=[[5.0, 1.0, 2.0, 3.0]], labels=list("abcde"))
    found = summarise(tree)
    assert (found.chain, found.draw, found.log_density) == (0, 0, 5.0)
    assert found.owners["F1"].to_dict() == {"a": 1.0, "b": 1.0, "c": 0.75, "d": 0.0, "e": 0.0}
    assert found.owners["F2"].to_dict() == {"a": 0.0, "b": 0.0, "c": 0.0, "d": 1.0, "e": 1.0}
    assert found.agreement[0] == pytest.approx((3 + 2 / 3) / 4)
    assert found.columns[0, 1].tolist() == [1, 0]


def test_draws_with_more_or_fewer_features():
    full = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]], dtype=np.uint8)
    less, more = full[:, [1, 0]], np.column_stack([full[:, 2], np.array([1, 0, 0, 0, 0], dtype=np.uint8), full[:, :2]])
    V = [[np.full((Z.shape[1], 1), float(Z.shape[1])) for Z in (full, less, more)]]
    tree = make_tree([[full, less, more]], lp=[[9.0, 1.0, 1.0]], V=V)
    found = summarise(tree)
    assert found.columns[0].tolist() == [[0, 1, 2], [1, 0, -1], [2, 3, 0]]
    np.testing.assert_allclose(found.owners["F3"], [0, 0, 0, 0, 2 / 3])
    mean, _ = found.mean_and_sd(tree["posterior"]["V"])
    np.testing.assert_allclose(mean[:, 0], [3.0, 3.0, 3.5])


def test_unused_features_and_exact_duplicates():
    Z = np.array([[1, 0, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]], dtype=np.uint8)
    found = summarise(make_tree([[Z, Z]]))
    assert found.names == ["F1", "F2", "F3"]
    assert found.duplicates == [["F1", "F2"]]
    assert summarise(make_tree([[np.zeros((3, 2), dtype=np.uint8)]])).owners.shape == (3, 0)
    assert summarise(make_tree([[np.zeros((3, 0), dtype=np.uint8)]])).owners.shape == (3, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_pairing_differs_in_as_few_entries_as_any(seed):
    rng = np.random.default_rng(seed)
    A = (rng.random((6, 3)) < 0.5).astype(np.float32)
    B = (rng.random((6, rng.integers(0, 4))) < 0.5).astype(np.float32)
    match, overlap = _match(A, B)

    def distance(partners):
        partnered = [j for j in partners if j >= 0]
        alone = B[:, [j for j in range(B.shape[1]) if j not in partnered]].sum()
        mine = sum(np.abs(A[:, k] - (B[:, j] if j >= 0 else 0)).sum() for k, j in enumerate(partners))
        return float(mine + alone)

    slots = [*range(B.shape[1]), -1, -1, -1]
    best = min(distance(choice) for choice in set(permutations(slots, 3)))
    assert distance(match) == best
    for k, j in enumerate(match):
        assert overlap[k] == (A[:, k] @ B[:, j] if j >= 0 else 0.0)


def test_chains_can_be_chosen():
    rng = np.random.default_rng(1)
    first, second = random_matrix(rng), random_matrix(rng)
    tree = make_tree([[first, first], [second, second]], lp=[[5.0, 5.0], [1.0, 1.0]])
    both, one = summarise(tree), summarise(tree, chains=[1])
    assert both.chain == 0
    assert both.agreement_by_chain[0] == 1.0 > both.agreement_by_chain[1]
    assert one.chain == 1
    assert sorted(one.reference.Z.T.tolist()) == sorted(second.T.tolist())
    np.testing.assert_array_equal(one.owners.to_numpy(), one.reference.Z)
    for wrong in ([2], []):
        with pytest.raises(ValueError, match="chains must be among 0, 1"):
            summarise(tree, chains=wrong)


def test_mean_and_sd_of_values_far_from_zero():
    Z = np.ones((2, 1), dtype=np.uint8)
    values = 1e9 + np.random.default_rng(0).normal(size=50)
    tree = make_tree([[Z] * 50], V=[[np.array([[value]]) for value in values]])
    mean, sd = summarise(tree).mean_and_sd(tree["posterior"]["V"])
    assert mean[0, 0] == pytest.approx(values.mean(), rel=1e-15)
    assert sd[0, 0] == pytest.approx(values.std(), rel=1e-5)


def test_states_are_the_draws():
    truth = pgfa.simulate("linear-gaussian", pgfa.IndianBuffet(), rng=3, num_rows=15, num_columns=3)
    fit = pgfa.sample(
        truth.model,
        pgfa.IndianBuffet(),
        pgfa.Gibbs(),
        draws=10,
        warmup=5,
        chains=2,
        seed=1,
        progress=False,
        check=False,
    )
    states = list(states_of(fit))
    assert len(states) == 20
    assert len(list(states_of(fit, at_most=7))) == 7
    for state, lp in zip(states, np.asarray(fit["sample_stats"]["lp"]).ravel()):
        chain = pgfa.Chain(truth.model, pgfa.IndianBuffet(), seed=0, state=state)
        assert chain.log_density() == pytest.approx(lp, rel=1e-12)
    best = summarise(fit)
    used = pgfa.State(best.reference.Z, best.reference.alpha, best.reference.parameters)
    chain = pgfa.Chain(truth.model, pgfa.IndianBuffet(), seed=0, state=used)
    assert chain.log_density() == pytest.approx(best.log_density, rel=1e-9)


def test_pieces_make_no_difference(monkeypatch):
    rng = np.random.default_rng(2)
    tree = make_tree([[random_matrix(rng) for _ in range(7)]])
    whole = summarise(tree).owners
    monkeypatch.setattr("pgfa.summary._PIECE", 1)
    np.testing.assert_array_equal(whole, summarise(tree).owners)
