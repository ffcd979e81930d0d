"""Tables of settings on the page of engines: defaults from the classes, meanings from here."""

from collections.abc import Mapping
from typing import Any

from riesz.inference.table import DENSITIES, METHODS, class_of

MEANING = {
    "at_mode": "hyperparameters at their mode, without a spread (empirical Bayes)",
    "block_steps": "training steps between two looks at progress",
    "coarse_patch_nodes": "nodes of a mini-patch on coarser levels",
    "dense_mass": "by nuts, a dense mass matrix; a diagonal one needs fewer warm-up draws",
    "encoder_layers": "layers of the encoder",
    "encoder_width": "width of the encoder",
    "epsilon_rel": "error of the equation at the sensors in noise sd: a number, or learned",
    "features": "functions of space in the surrogate",
    "gauss_newton_steps": "steps of the search without second derivatives of the state",
    "gram": "inner product behind the dual norm",
    "kernel": '"hmc", or "nuts" for few unknowns and as a reference',
    "learning_rate": "learning rate of the network",
    "linear_solver": "of exact solves",
    "max_halvings": "of a Newton step",
    "max_steps": "of the search for the mode, or of the fit of q",
    "max_tree_depth": "by nuts, a trajectory doubles so often at most",
    "missing": "share of values that may be missing",
    "model": '"surrogate", or "reduced" for a reduced basis of exact states',
    "noise_factor": "by how much the noise may differ from the problem's",
    "num_bends": "nonlinear functions of the unknowns in the readout",
    "num_chains": "Markov chains",
    "num_curved": "draws of a step at which curvature is computed",
    "num_data": "simulated data sets in a training step",
    "num_draws": "draws that are kept, or draws of a step of q",
    "num_exact": "draws that are importance-weighted by exact solves, and kept",
    "num_examples": "simulated data sets that define what is usual",
    "num_modes": "eigenpairs of the curvature, or size of the reduced basis; "
    "none: all directions up to 256 unknowns",
    "num_patches": "mini-patches at a time; none: by device",
    "num_proposals": "importance proposals for each simulated data set",
    "num_samples": "draws of each chain, or of the unknowns in a batch; none: until chains agree, "
    "500 by nuts",
    "num_searches": "starts of searches for modes; none: 16, or 6 with more than 32 unknowns",
    "num_snapshots": "exact states that span the reduced basis",
    "num_solves": "Gauss-Newton steps of the readout; nonlinear equations need several",
    "num_values": "values of the hyperparameters that the draws share",
    "num_warmup": "warm-up draws of each chain; none: 300, and 500 by nuts",
    "patch_nodes": "nodes of a mini-patch",
    "readout_batches": "batches in a least-squares solve of the readout; none: by device",
    "refining_draws": "draws of the last fit of q",
    "rounds": "rounds of least squares at most",
    "start": "coordinates, a posterior, or another method",
    "steps": "training steps",
    "target_accept": "acceptance rate; higher where transitions diverge",
    "tolerance": "in posterior sd: of the mode, or of means and sds of q",
    "tries_states": "try exact states before training, and refuse what cannot be represented",
    "width": "width of the network",
}
"""By the name of a setting, for whichever methods and densities have it."""


def settings_of(part: str) -> Mapping[str, Any]:
    """Settings of a method or a density, and their defaults."""
    return {name: field.default for name, field in class_of(part).model_fields.items()}


def settings_tables() -> str:
    """One table per method, and one per density, in Markdown."""
    return "\n\n".join(settings_table(part) for part in (*METHODS, *DENSITIES))


def settings_table(part: str) -> str:
    rows = [
        f"| `{name}` | {cell(default)} | {MEANING[name]} |"
        for name, default in settings_of(part).items()
    ]
    head = [f"## Settings of `{part}`", "", "| setting | default | meaning |", "|---|---|---|"]
    return "\n".join([*head, *rows])


def cell(default: Any) -> str:
    """A default as one writes it."""
    if default is None:
        return "none"
    return f"`{default!r}`" if isinstance(default, bool | int | float | str) else "automatic"
