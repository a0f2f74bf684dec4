"""What every data set comes with, and how its files are found.

A data set is one module with a loader, and one folder under `files` with its tables and, beside them, its licence.
"""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass
from importlib import resources

import pandas as pd


@dataclass(frozen=True)
class Dataset:
    """A real data set.

    Attributes
    ----------
    data
        What a model is fitted to.
    design
        What is known from elsewhere about each row of a feature matrix; a model does not see it.
    description
        What was measured.
    credit
        Whom to cite.
    licence
        Under which terms the data are passed on.
    """

    data: pd.DataFrame
    design: pd.DataFrame
    description: str
    credit: str
    licence: str

    def __repr__(self) -> str:
        rows, columns = self.data.shape
        return f"Dataset({rows} rows, {columns} columns: {self.description.split(':')[0]})"


def read_table(folder: str, name: str, separator: str = ",") -> pd.DataFrame:
    """Read a gzip-compressed table that ships with the package."""
    packed = resources.files("pgfa.datasets").joinpath("files", folder, name).read_bytes()
    return pd.read_csv(io.BytesIO(gzip.decompress(packed)), sep=separator)
