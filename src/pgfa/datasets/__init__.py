"""Real data sets that come with the package, each with its credit and licence."""

from pgfa.datasets.base import Dataset
from pgfa.datasets.mice_protein import load_mice_protein

__all__ = ["Dataset", "load_mice_protein"]
