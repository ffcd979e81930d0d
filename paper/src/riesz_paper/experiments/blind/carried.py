"""Unknowns of a mesh on a finer one: the same functions of the same coordinates.

A prior that is posed anew on another mesh chooses other inducing points there, and its coordinates
mean something else; data of a finer mesh must differ by the mesh alone.
"""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from riesz.arrays import on_device
from riesz.mesh.refinement import Refinement
from riesz.priors.fields import GaussianField, NodalField
from riesz.priors.gaussian_process import KernelField
from riesz.priors.karhunen_loeve import InterpolatedField
from riesz.problem.problem import InverseProblem


def carried(problem: InverseProblem, priors: dict[str, Any], finer: Refinement) -> dict[str, Any]:
    """What is to be given for the unknowns of a problem on the finer mesh."""
    found = dict(priors)
    for name, latent in problem.latents.latents.items():
        if isinstance(latent, GaussianField):
            found[name] = on_finer(latent, finer)
    return found


def on_finer(latent: GaussianField, finer: Refinement) -> GaussianField:
    """Nodal functions are linear in each cell, so that values at midpoints follow."""
    own, nodes = latent.field, on_device(finer.mesh.nodes)

    def prolonged(values: Float[Array, " node *any"]) -> Float[Array, " fine *any"]:
        return on_device(finer.prolongation @ np.asarray(values))

    match own:
        case InterpolatedField():
            field = InterpolatedField(prolonged(own.basis.T).T, prolonged(own.mean), own.transform)
            return eqx.tree_at(lambda one: one.field, latent, field)
        case NodalField():
            field = NodalField(prolonged(own.mean), own.transform)
            assert latent.whitening is not None
            functions = prolonged(latent.whitening)
            return GaussianField(field, latent.description, finer.mesh.num_nodes, functions)
        case KernelField():
            return eqx.tree_at(lambda one: one.field.nodes, latent, nodes)
    return latent
