"""Models: the likelihood of the data given the features."""

from pgfa.models.additive import AdditiveModel
from pgfa.models.base import Model
from pgfa.models.linear_gaussian import LinearGaussian
from pgfa.models.pyclone import PyClone
from pgfa.models.relational import Relational

__all__ = ["AdditiveModel", "LinearGaussian", "Model", "PyClone", "Relational"]
