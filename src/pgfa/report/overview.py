"""The parts of a report that are the same for every model: can the draws be trusted, and who owns which feature?"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.table import Table
from rich.text import Text

from pgfa.inference.diagnostics import LARGEST_R_HAT, LEAST_ESS_PER_CHAIN, complaints
from pgfa.report.base import Findings, Fit
from pgfa.report.text import listing, number, plain, show
from pgfa.summary import choose_chains

#: Below this mean overlap with the other draws a feature is pointed out as uncertain.
_UNCERTAIN = 0.6
_NUM_OWNERS_SHOWN = 8

_PAIR = re.compile(r"shared_features\[(\d+), (\d+)\]")
_QUANTITIES = {"lp": "log density", "used_features": "features in use"}


def restrict(tree: xr.DataTree, chains: Sequence[int]) -> xr.DataTree:
    """The tree with some of its chains only."""
    places = choose_chains(tree["posterior"].dataset, chains)
    groups = {
        name: node.dataset.isel(chain=places) if "chain" in node.dataset.dims else node.dataset
        for name, node in tree.children.items()
    }
    restricted = xr.DataTree.from_dict(groups)
    restricted.attrs.update(tree.attrs)
    return restricted


# --- diagnostics ----------------------------------------------------------------------------------------------------


def diagnostics_table(diagnostics: pd.DataFrame, num_chains: int) -> Table:
    """Mean, spread and convergence of what can be compared between chains; pairs of rows are put into one line."""
    table = Table(title="Can the draws be trusted?", title_justify="left")
    table.add_column("")
    for heading in ("mean", "sd", "R-hat", "ESS bulk", "ESS tail"):
        table.add_column(heading, justify="right")
    is_pair = diagnostics.index.str.startswith("shared_features")
    for name, row in diagnostics[~is_pair].iterrows():
        table.add_row(
            _QUANTITIES.get(str(name), str(name)), number(row["mean"], 4), number(row["sd"]), *_marks(row, num_chains)
        )
    pairs = diagnostics[is_pair]
    if len(pairs):
        worst = pd.Series(
            {
                "r_hat": pairs["r_hat"].max(),
                "ess_bulk": pairs["ess_bulk"].min(),
                "ess_tail": pairs["ess_tail"].min(),
            }
        )
        table.add_row(f"shared features (worst of {len(pairs)} pairs)", "", "", *_marks(worst, num_chains))
    return table


def _marks(row: pd.Series, num_chains: int) -> list[Text]:
    least = LEAST_ESS_PER_CHAIN * num_chains
    marks = [Text("-" if row["r_hat"] != row["r_hat"] else "∞" if row["r_hat"] == np.inf else f"{row['r_hat']:.2f}")]
    marks[0].stylize("bold red" if row["r_hat"] > LARGEST_R_HAT else "")
    for name in ("ess_bulk", "ess_tail"):
        value = row[name]
        marks.append(Text("-" if value != value else f"{value:.0f}", style="bold red" if value < least else ""))
    return marks


def with_labels(diagnostics: pd.DataFrame, rows: Sequence[Any]) -> pd.DataFrame:
    """The table with a first column of names, in which pairs of rows are called by their labels."""
    named = diagnostics.rename_axis("quantity").reset_index()
    named["quantity"] = [
        _PAIR.sub(lambda pair: f"shared_features[{rows[int(pair[1])]}, {rows[int(pair[2])]}]", str(name))
        for name in named["quantity"]
    ]
    return named


def verdict(diagnostics: pd.DataFrame, fit: Fit) -> list[str]:
    """What is wrong with the draws, in the words of the command line; nothing where they can be trusted."""
    found = complaints(diagnostics, len(fit.chains))
    if len(fit.chains) == 1:
        found.append("one chain cannot show whether it is stuck: ask for more (--chains)")
    if (diagnostics["r_hat"] > LARGEST_R_HAT).any():
        found.append(
            f"the best draw is in chain {fit.summary.chain}: pgfa summary --chain {fit.summary.chain} looks at it alone"
        )
    return [_in_words(text, list(fit.summary.owners.index)) for text in found]


def one_line_verdict(diagnostics: pd.DataFrame, fit: Fit) -> str:
    """Whether the chains agree, in a sentence."""
    worst, agreement = diagnostics["r_hat"].max(), fit.summary.agreement_by_chain.min()
    if not complaints(diagnostics, len(fit.chains)):
        return "The chains agree and are long enough."
    return (
        f"These chains are short (largest R-hat {number(worst)}; agreement on features at least {agreement:.2f} in "
        f"each "
        "chain): a look at the data, not a result to publish."
    )


def _in_words(complaint: str, rows: list[Any]) -> str:
    """A complaint with options of the command line for arguments of Python, and labels of the user for numbers of
    rows."""
    text = complaint.replace("warmup=...", "--warmup").replace("draws=...", "--draws")
    text = _PAIR.sub(
        lambda pair: f"the number of features that {_row(rows, pair[1])} and {_row(rows, pair[2])} share",
        text,
    )
    for name, words in _QUANTITIES.items():
        text = re.sub(rf"\b{name}\b", f"the {words}" if name == "lp" else words, text)
    return text[:1].upper() + text[1:] + "."


def _row(rows: list[Any], place: str) -> str:
    label = rows[int(place)]
    return show(label) if isinstance(label, str) else f"row {show(label)}"


def chains_table(fit: Fit) -> Table:
    """A line for each chain: where it is, and whether it tells of the same features."""
    stats = fit.tree["sample_stats"].dataset
    table = Table(title="Chains (* has the best draw)", title_justify="left")
    table.add_column("")
    for heading in ("draws", "log density", "features in use", "agreement", "iterations/s"):
        table.add_column(heading, justify="right")
    settings = json.loads(fit.tree.attrs.get("settings", "{}"))
    thin = int(settings.get("thin", 1))
    for i, chain in enumerate(fit.chains):
        lp = np.asarray(stats["lp"].isel(chain=i).values, dtype=float)
        used = np.asarray(stats["used_features"].isel(chain=i).values)
        seconds = np.asarray(stats["time"].isel(chain=i).values, dtype=float)
        # Between draws: the first iteration of a process compiles, which says nothing about speed.
        speed = thin * (lp.size - 1) / (seconds[-1] - seconds[0]) if seconds[-1] > seconds[0] else float("nan")
        has_reference = chain == fit.summary.chain
        table.add_row(
            f"chain {chain}" + (" *" if has_reference else ""),
            str(lp.size),
            f"{lp.mean():.1f} ± {lp.std():.1f}",
            f"{used.mean():.1f}",
            f"{fit.summary.agreement_by_chain[i]:.2f}",
            number(speed),
        )
    return table


# --- features -------------------------------------------------------------------------------------------------------


def features_table(fit: Fit, findings: Findings, at_most: int) -> Table:
    """A line for each feature of the reference draw, with its owners by name."""
    summary = fit.summary
    table = Table(title=f"Features of the best draw (in chain {summary.chain})", title_justify="left")
    table.add_column("")
    table.add_column("owners", justify="right")
    table.add_column("agreement", justify="right")
    table.add_column("owned by", overflow="fold")
    if findings.feature_column is not None:
        table.add_column(findings.feature_column[0], overflow="fold")
    for k, name in enumerate(summary.names[:at_most]):
        share = summary.owners[name]
        owners = share.index[np.argsort(-share.to_numpy(), kind="stable")][: int((share > 0.5).sum())]
        agreement = Text(f"{summary.agreement[k]:.2f}", style="bold red" if summary.agreement[k] < _UNCERTAIN else "")
        cells: list[Any] = [
            name,
            str(len(owners)),
            agreement,
            plain(listing(owners, _NUM_OWNERS_SHOWN) or "nobody in most draws"),
        ]
        if findings.feature_column is not None:
            cells.append(plain(findings.feature_column[1][k]))
        table.add_row(*cells)
    return table


def features_in_words(fit: Fit, shown: int) -> list[str]:
    """How to read the table of features, and what to be careful with."""
    summary = fit.summary
    if not summary.names:
        return ["No features are in use in the best draw."]
    said = [
        "Owners are rows that own the feature in more than half of the draws. Agreement is the overlap of a "
        "feature's owners "
        "with those of its counterpart in other draws: 1 where all have the same, red where the feature is uncertain."
    ]
    if len(summary.names) > shown:
        said.append(f"{len(summary.names) - shown} more features are in features.csv.")
    return said + duplicates(fit)


def duplicates(fit: Fit) -> list[str]:
    """Which features nobody can tell apart."""
    return [
        f"{', '.join(group)} have exactly the same owners in the best draw: only what they do together means something."
        for group in fit.summary.duplicates
    ]


def common_tables(fit: Fit) -> dict[str, pd.DataFrame]:
    """Tables that every model has: diagnostics, features, owners, trace."""
    summary, stats, posterior = fit.summary, fit.tree["sample_stats"].dataset, fit.tree["posterior"].dataset
    same = {name: " ".join(group) for group in summary.duplicates for name in group}
    features = pd.DataFrame(
        {
            "feature": summary.names,
            "owners": [int((summary.owners[name] > 0.5).sum()) for name in summary.names],
            "expected_owners": [float(summary.owners[name].sum()) for name in summary.names],
            "owners_in_best_draw": summary.reference.Z.sum(axis=0, dtype=np.int64),
            "agreement": summary.agreement,
            "same_owners": [same.get(name, "") for name in summary.names],
        }
    )
    owners = summary.owners.reset_index(drop=True)
    owners.insert(0, fit.notes.row_name, pd.Series(list(summary.owners.index), dtype=object), allow_duplicates=True)
    scalars = {
        "log_density": stats["lp"],
        "features_in_use": stats["used_features"],
        **{str(name): values for name, values in posterior.data_vars.items() if values.dims == ("chain", "draw")},
    }
    scalars.pop("num_features", None)
    trace = pd.concat(
        pd.DataFrame(
            {"chain": chain, "draw": np.arange(posterior.sizes["draw"])}
            | {name: np.asarray(values.isel(chain=i).values) for name, values in scalars.items()}
        )
        for i, chain in enumerate(fit.chains)
    )
    return {"features": features, "owners": owners, "trace": trace}


def headline(fit: Fit) -> str:
    """What was fitted, in one line."""
    settings = json.loads(fit.tree.attrs.get("settings", "{}"))
    draws = fit.tree["posterior"].sizes["draw"]
    source = f"{show(fit.notes.source)}: " if fit.notes.source else ""
    return (
        f"{source}{fit.model!r}, prior {settings.get('prior')}, sampler {settings.get('sampler')}, "
        f"{len(fit.chains)} x {draws} draws, seed {settings.get('seed')}"
    )
