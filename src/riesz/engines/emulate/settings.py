"""Sizes and lengths of `emulate`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EmulateSettings:
    """The defaults suit up to some tens of unknowns.

    Where the readout of the surrogate can be solved for, `rounds` of least squares do it; steps
    and learning rates are for networks and norms that must be trained.
    """

    width: int = 32
    features: int = 64
    num_patches: int = 4
    patch_nodes: int = 64
    coarse_patch_nodes: int = 25
    num_samples: int = 16  # of the unknowns in a batch
    rounds: int = 25  # at most
    num_bends: int = 16  # functions of the unknowns beside the linear ones
    readout_batches: int = 48  # of samples and patches in a round
    refining_draws: int = 512
    prior_steps: int = 400
    steps: int = 800
    block_steps: int = 200
    patience: int | None = None  # blocks without progress before training stops
    learning_rate: float = 5e-3
    family_learning_rate: float = 2e-2
