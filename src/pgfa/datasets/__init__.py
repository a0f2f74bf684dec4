"""Real data sets that come with the package, each with its credit and licence."""

from pgfa.datasets.base import Dataset
from pgfa.datasets.lazega import load_lazega
from pgfa.datasets.mice_protein import load_mice_protein
from pgfa.datasets.xenograft import load_xenograft

__all__ = ["Dataset", "load_lazega", "load_mice_protein", "load_xenograft"]
