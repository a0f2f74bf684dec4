"""Row samplers: ways to move one row of Z given the others."""

from pgfa.samplers.base import RowSampler
from pgfa.samplers.column_block import ColumnBlock
from pgfa.samplers.column_moves import ColumnMove
from pgfa.samplers.discrete_particle_filter import DiscreteParticleFilter
from pgfa.samplers.gibbs import Gibbs
from pgfa.samplers.hamming_ball import HammingBall
from pgfa.samplers.joint_flip import JointFlip
from pgfa.samplers.locally_balanced import LocallyBalanced
from pgfa.samplers.metropolis_flips import MetropolisFlips
from pgfa.samplers.mixture import Mixture
from pgfa.samplers.particle_gibbs import ParticleGibbs
from pgfa.samplers.row_gibbs import RowGibbs
from pgfa.samplers.singleton_exchange import SingletonExchange
from pgfa.samplers.three_and_two import ThreeAndTwo

__all__ = [
    "ColumnBlock",
    "ColumnMove",
    "DiscreteParticleFilter",
    "Gibbs",
    "HammingBall",
    "JointFlip",
    "LocallyBalanced",
    "MetropolisFlips",
    "Mixture",
    "ParticleGibbs",
    "RowGibbs",
    "RowSampler",
    "SingletonExchange",
    "ThreeAndTwo",
]
