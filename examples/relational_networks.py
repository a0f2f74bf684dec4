"""Links that were held out, predicted: kin terms of the Alyawarra and advice between lawyers.

One fifth of the ordered pairs of people is hidden, in three ways; the relational model is fitted to the rest with the
finite prior and with the Indian buffet process, and two plain methods are fitted to the same data: the product of
degrees, and a truncated singular value decomposition. What counts is the area under the ROC curve of the hidden pairs.

Run with ``python examples/relational_networks.py [--data FOLDER]``; the folder holds kinship/ and lazega/ (see
docs/relational.md for where they are from). Writes tables and pictures to out/relational.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import pgfa
from pgfa.link_prediction import LinkPrediction, LinkScores
from pgfa.plots import COLOURS

FILES = {"kinship": "kinship/kinship_term16_104x104.csv", "lazega": "lazega/law_advice.csv"}
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SHARE_HELD_OUT = 0.2
NUM_SPLITS = 3
NUM_FEATURES = 10
PRIORS = {"finite": pgfa.BetaBernoulli(NUM_FEATURES), "buffet": pgfa.IndianBuffet()}


def read_network(name: str, folder: Path = DATA) -> np.ndarray:
    """The matrix of a network; its diagonal does not count."""
    return np.loadtxt(folder / FILES[name], delimiter=",")


def hold_out(X: np.ndarray, split: int) -> np.ndarray:
    """A copy with a fifth of the ordered pairs unknown."""
    rng = np.random.default_rng(split)
    pairs = np.argwhere(~np.eye(len(X), dtype=bool))
    hidden = pairs[rng.choice(len(pairs), size=round(SHARE_HELD_OUT * len(pairs)), replace=False)]
    known = X.copy()
    known[hidden[:, 0], hidden[:, 1]] = np.nan
    return known


# --- baselines -------------------------------------------------------------------------------------------------------


def degree_product(X: np.ndarray) -> np.ndarray:
    """Share of known links out of i times share of known links into j."""
    return np.outer(np.nan_to_num(np.nanmean(X, axis=1)), np.nan_to_num(np.nanmean(X, axis=0)))


def low_rank(X: np.ndarray, rank: int) -> np.ndarray:
    """Truncated singular value decomposition; what it says of unknown entries takes their place until it settles."""
    unknown = np.isnan(X)
    filled = np.where(unknown, np.nanmean(X), X)
    for _ in range(30):
        U, s, W = np.linalg.svd(filled, full_matrices=False)
        approximation = (U[:, :rank] * s[:rank]) @ W[:rank]
        filled[unknown] = approximation[unknown]
    return approximation


def truncated_svd(X: np.ndarray) -> np.ndarray:
    """The rank that does best on a tenth of the known entries, refitted to all of them."""
    rng = np.random.default_rng(0)
    pairs = np.argwhere(~np.isnan(X))
    checked = pairs[rng.choice(len(pairs), size=len(pairs) // 10, replace=False)]
    rest = X.copy()
    rest[checked[:, 0], checked[:, 1]] = np.nan
    aucs = {rank: _score(low_rank(rest, rank), rest, X).auc for rank in range(1, 13)}
    return low_rank(X, max(aucs, key=aucs.__getitem__))


def _score(prediction: np.ndarray, known: np.ndarray, truth: np.ndarray) -> LinkScores:
    """Scores of any real-valued prediction; its log likelihood means nothing."""
    clipped = np.where(np.eye(len(truth), dtype=bool), np.nan, prediction)
    return LinkPrediction(np.clip(clipped, 0.0, None) / np.nanmax(clipped), known, False, None).score(truth)


# --- the model -------------------------------------------------------------------------------------------------------


def compare(name: str, folder: Path = DATA, *, draws: int = 600, warmup: int = 300) -> pd.DataFrame:
    """Scores of all methods on all splits of a network."""
    X = read_network(name, folder)
    np.fill_diagonal(X, np.nan)
    rows = []
    for split in range(NUM_SPLITS):
        known = hold_out(X, split)
        for method, predict in (("degree product", degree_product), ("truncated SVD", truncated_svd)):
            scores = _score(predict(known), known, X)
            rows.append(_row(name, split, method, scores))
        model = pgfa.Relational(known, self_links=False)
        for method, prior in PRIORS.items():
            began = time.perf_counter()
            fit = pgfa.sample(
                model, prior, draws=draws, warmup=warmup, chains=4, seed=split, progress=False, check=False
            )
            scores = model.predict_links(fit).score(X)
            num_features = float(fit["sample_stats"]["used_features"].mean())
            rows.append(
                _row(name, split, method, scores)
                | {"log_likelihood": scores.log_likelihood, "features": num_features}
                | {"seconds": time.perf_counter() - began}
            )
    return pd.DataFrame(rows)


def _row(name: str, split: int, method: str, scores: LinkScores) -> dict[str, object]:
    print(f"{name}, split {split + 1}, {method}: area under the curve {scores.auc:.3f}", flush=True)
    return {
        "network": name,
        "split": split,
        "method": method,
        "auc": scores.auc,
        "average_precision": scores.average_precision,
    }


# --- kinship: features and sections ----------------------------------------------------------------------------------


def fit_kinship(folder: Path = DATA, *, draws: int = 600, warmup: int = 300):
    """The whole network, nothing held out: link probabilities, the best draw of Z, shared features, and sections."""
    X = read_network("kinship", folder)
    model = pgfa.Relational(X, self_links=False)
    fit = pgfa.sample(
        model, PRIORS["finite"], draws=draws, warmup=warmup, chains=4, seed=1, progress=False, check=False
    )
    lp = fit["sample_stats"]["lp"].values
    chain, draw = np.unravel_index(np.argmax(lp), lp.shape)
    Z = fit["posterior"]["Z"].values
    flat = Z.reshape(-1, *Z.shape[2:]).astype(float)
    unlike = np.mean([np.abs(z[:, None] - z[None]).sum(axis=2) for z in flat[:: max(1, len(flat) // 200)]], axis=0)
    sections = pd.read_csv(folder / "kinship" / "sections_from_mat.csv")["section"].to_numpy()
    return model, model.predict_links(fit).probability, Z[chain, draw], unlike, sections


def section_agreement(unlike: np.ndarray, sections: np.ndarray) -> float:
    """Share of people whose nearest other, by features on which the two differ, is of the same section."""
    distance = unlike + np.where(np.eye(len(unlike), dtype=bool), np.inf, 0.0)
    return float(np.mean(sections[np.argmin(distance, axis=1)] == sections))


def draw_kinship(X: np.ndarray, probability: np.ndarray, Z: np.ndarray, sections: np.ndarray) -> Figure:
    """Data, features and predictions, people ordered by kin section."""
    Z = Z[:, Z.any(axis=0)]
    # Features by the section that owns most of them, people by section and then by what they own.
    share = np.array([[Z[sections == s, k].mean() for s in np.unique(sections)] for k in range(Z.shape[1])])
    features = np.lexsort((-Z.sum(axis=0), np.argmax(share, axis=1)))
    order = np.lexsort((*(-Z[:, k].astype(int) for k in features[::-1]), sections))
    figure = Figure(figsize=(11.0, 4.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(4, 2.0, 4))
    left.imshow(X[np.ix_(order, order)], cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    colours = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in COLOURS[:4]])
    tiles = np.ones((*Z.shape, 3))
    owned = Z[np.ix_(order, features)] == 1
    tiles[owned] = colours[sections[order] - 1][np.nonzero(owned)[0]]
    middle.imshow(tiles, aspect="auto", interpolation="nearest")
    image = right.imshow(probability[np.ix_(order, order)], cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
    edges = np.flatnonzero(np.diff(sections[order])) + 0.5
    for axes in (left, right):
        for edge in edges:
            axes.axvline(edge, color=COLOURS[1], linewidth=0.8)
            axes.axhline(edge, color=COLOURS[1], linewidth=0.8)
        axes.set(xticks=[], yticks=[], xlabel="alter")
    for edge in edges:
        middle.axhline(edge, color="0.3", linewidth=0.8)
    starts = np.concatenate([[-0.5], edges, [len(order) - 0.5]])
    for axes in (left, middle):
        axes.set_yticks(
            (starts[:-1] + starts[1:]) / 2, [f"section {s}" for s in np.unique(sections)], rotation=90, va="center"
        )
        axes.tick_params(length=0)
    middle.set(xticks=range(Z.shape[1]), xlabel="feature")
    middle.set_xticklabels([str(k + 1) for k in range(Z.shape[1])], fontsize=7)
    left.set(title="who calls whom by kin term 16")
    middle.set(title="features owned")
    right.set(title="posterior probability of a link")
    figure.colorbar(image, ax=right, shrink=0.8)
    return figure


def draw_scores(scores: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(7.0, 3.0), layout="constrained")
    panels = figure.subplots(1, scores["network"].nunique(), squeeze=False)[0]
    methods = list(dict.fromkeys(scores["method"]))
    for axes, (name, rows) in zip(panels, scores.groupby("network")):
        for i, method in enumerate(methods):
            values = rows.loc[rows["method"] == method, "auc"]
            axes.plot(values, [i] * len(values), "o", color=COLOURS[i], alpha=0.6)
            axes.plot([values.mean()], [i], "|", color=COLOURS[i], markersize=18, markeredgewidth=2)
        axes.set(
            title=name, xlabel="area under the curve, held-out pairs", yticks=range(len(methods)), yticklabels=methods
        )
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[1:]:
        axes.set_yticklabels([])
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with kinship/ and lazega/")
    parser.add_argument("--draws", type=int, default=600)
    parser.add_argument("--warmup", type=int, default=300)
    arguments = parser.parse_args()
    lengths = {"draws": arguments.draws, "warmup": arguments.warmup}
    out = Path("out/relational")
    out.mkdir(parents=True, exist_ok=True)
    scores = pd.concat([compare(name, arguments.data, **lengths) for name in FILES], ignore_index=True)
    print(scores.groupby(["network", "method"], sort=False)[["auc", "average_precision", "seconds"]].mean().round(4))
    scores.to_csv(out / "scores.csv", index=False)
    draw_scores(scores).savefig(out / "scores.png", dpi=150)
    model, probability, Z, unlike, sections = fit_kinship(arguments.data, **lengths)
    agreement = section_agreement(unlike, sections)
    print(f"kinship: the nearest by features is of the same section for {agreement:.0%} of people")
    pd.DataFrame({"agreement": [agreement]}).to_csv(out / "sections.csv", index=False)
    draw_kinship(model.X, probability, Z, sections).savefig(out / "kinship.png", dpi=150)
    print(f"Written to {out}: scores.csv, scores.png, sections.csv, kinship.png")


if __name__ == "__main__":
    main()
