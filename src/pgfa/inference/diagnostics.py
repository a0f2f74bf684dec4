"""Do the chains agree, and are they long enough? Asked only of quantities that do not depend on labels of features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pgfa import checks

#: Chains that agree have an R-hat below this, for every quantity.
LARGEST_R_HAT = 1.05
#: Effective draws, bulk and tail, that a summary needs from each chain.
LEAST_ESS_PER_CHAIN = 50


class DiagnosticWarning(UserWarning):
    """Draws that should not be trusted yet."""


def diagnose(tree: xr.DataTree) -> pd.DataFrame:
    """Convergence of the quantities that mean the same in every chain.

    These are the log density, the number of features in use, alpha, the scalar parameters of the model, and the number
    of features that some pairs of rows share.

    Returns
    -------
    pandas.DataFrame
        A row for each quantity with its mean, standard deviation, rank-normalised R-hat, and bulk and tail effective
        sample size. A quantity that never moves in any chain has R-hat 1 where all chains agree on it and infinity
        where they do not; its effective sample size is not defined.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> fit = pgfa.sample(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(2), draws=50, warmup=50, chains=2, seed=1,
    ...                   progress=False, check=False)
    >>> pgfa.diagnose(fit).loc["lp"].index.tolist()
    ['mean', 'sd', 'r_hat', 'ess_bulk', 'ess_tail']
    """
    checks.draws("tree", tree)
    import arviz_stats

    rows = {}
    for name, values in invariant_quantities(tree).items():
        mean, sd = float(np.mean(values)), float(np.std(values))
        if values.shape[1] < 4 or not np.isfinite(values).all():
            r_hat = bulk = tail = float("nan")
        elif np.ptp(values, axis=1).max() == 0.0:
            r_hat, bulk, tail = (1.0 if np.ptp(values) == 0.0 else float("inf")), float("nan"), float("nan")
        else:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                dataset = xr.Dataset({"x": (("chain", "draw"), values)})
                r_hat = float(arviz_stats.rhat(dataset)["x"]) if values.shape[0] > 1 else float("nan")
                bulk = float(arviz_stats.ess(dataset, method="bulk")["x"])
                tail = float(arviz_stats.ess(dataset, method="tail")["x"])
        rows[name] = {"mean": mean, "sd": sd, "r_hat": r_hat, "ess_bulk": bulk, "ess_tail": tail}
    return pd.DataFrame.from_dict(rows, orient="index")


def invariant_quantities(tree: xr.DataTree) -> dict[str, np.ndarray]:
    """Quantities that do not depend on labels, each of shape (chains, draws)."""
    posterior, stats = tree["posterior"].dataset, tree["sample_stats"].dataset
    quantities: dict[str, Any] = {"lp": stats["lp"], "used_features": stats["used_features"]}
    for name, values in posterior.data_vars.items():
        if values.dims == ("chain", "draw") and name != "num_features":
            quantities[str(name)] = values
    shared = stats["shared_features"]
    for i, (first, second) in enumerate(np.asarray(tree["constant_data"].dataset["watched_pairs"])):
        quantities[f"shared_features[{first}, {second}]"] = shared.isel(pair=i)
    return {name: np.asarray(values.values, dtype=float) for name, values in quantities.items()}


def complaints(table: pd.DataFrame, num_chains: int) -> list[str]:
    """What is wrong with the draws, in plain words, and what to do about it; nothing where they can be trusted."""
    found = []
    disagreeing = table[table["r_hat"] > LARGEST_R_HAT]
    if len(disagreeing):
        worst, value = disagreeing["r_hat"].idxmax(), disagreeing["r_hat"].max()
        largest = "∞" if np.isinf(value) else f"{value:.2f}"
        found.append(
            f"the chains disagree (R-hat above {LARGEST_R_HAT} for {len(disagreeing)} of {len(table)} quantities; the "
            f"worst, {largest}, is that of {worst}): do not average over them. Give them a longer warm-up "
            "(warmup=...), and look at the log density of each chain: one that is far below the others is stuck"
        )
    least = LEAST_ESS_PER_CHAIN * num_chains
    short = table[(table[["ess_bulk", "ess_tail"]].min(axis=1) < least)]
    if len(short):
        lowest = short[["ess_bulk", "ess_tail"]].min(axis=1)
        found.append(
            f"the chains are too short ({lowest.min():.0f} effective draws of {lowest.idxmin()}; {least} are wanted): "
            "ask for more draws (draws=...)"
        )
    return found


def warn_of_problems(tree: xr.DataTree) -> None:
    """Say plainly where draws should not be trusted yet."""
    num_chains = tree["posterior"].sizes["chain"]
    for complaint in complaints(diagnose(tree), num_chains):
        warnings.warn(complaint, DiagnosticWarning, stacklevel=4)
