r"""The engine `laplace`: a Gaussian about the most likely unknowns, by exact solves.

Newton's method with conjugate gradients finds the mode; the curvature there, in the few directions
in which it differs from the prior's, gives the spread. Both cost a number of solves that does not
grow with the number of unknowns, so that there may be one at each node of the mesh.
"""

import warnings
from dataclasses import dataclass

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.laplace.hessian import data_actions, leading_eigenpairs
from riesz.engines.laplace.newton import Mode, NewtonSettings, most_likely
from riesz.engines.start import check_shape
from riesz.engines.training import bar, spoken
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.solve import require_float64
from riesz.posterior.family import PriorUpdate
from riesz.posterior.posterior import Posterior
from riesz.posterior.states import ExactStates
from riesz.problem.problem import Coordinates, InverseProblem

NEGLIGIBLE = 0.01
"""Directions in which the data tell less than this part of what the prior does keep the prior."""


FEW = 0.1
"""The same, for directions that were not looked at: more would narrow the posterior by 5 %."""


@dataclass(frozen=True)
class LaplaceSettings(NewtonSettings):
    """Of the search for the mode, and how many directions are looked at around it."""

    num_modes: int = 50


def laplace(
    problem: InverseProblem,
    *,
    seed: int = 0,
    settings: LaplaceSettings | None = None,
    start: Coordinates | None = None,
    linear_solver: AbstractLinearSolver | None = None,
    progress: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Posterior:
    """The mode of the posterior, and the Gaussian that its curvature there makes."""
    require_float64(problem.forward)
    settings = LaplaceSettings() if settings is None else settings
    solver = SparseLU() if linear_solver is None else linear_solver
    origin = jnp.zeros(problem.num_coordinates) if start is None else jnp.asarray(start)
    check_shape(problem, origin)
    with bar(not progress) as shown:
        task = shown.add_task("mode", total=settings.max_steps, terms="")
        found = most_likely(
            problem,
            solver,
            settings,
            origin,
            lambda terms: shown.update(task, advance=1, terms=spoken(terms)),
            checkpoint,
        )
    mode, notes = found.place.coordinates, notes_of(found)

    def action(directions):
        return data_actions(problem, found.place, solver, directions)

    values, directions = leading_eigenpairs(action, len(mode), settings.num_modes, jr.key(seed))
    smallest = float(np.abs(np.asarray(values)).min())
    if smallest > FEW and len(values) < len(mode):
        notes = (
            *notes,
            f"{len(values)} directions were looked at, and in the last of them the data still tell "
            f"{smallest:.2g} of what the prior does: ask for more, num_modes=...",
        )
    if not bool(jnp.all(values > -1)):
        raise RieszError(
            "the log-posterior has no maximum where the search ended: it bends upwards. Start "
            "elsewhere, start=..., or use nuts."
        )
    kept = np.abs(np.asarray(values)) > NEGLIGIBLE
    family = PriorUpdate(mode, directions[:, kept], values[kept])
    for note in notes:
        warnings.warn(f"laplace: {note}", stacklevel=2)
    curves = {name: jnp.asarray(curve) for name, curve in found.history.items()}
    history = curves | {"eigenvalues": values}
    return Posterior(problem, family, ExactStates(solver), history, "laplace", seed, notes)


def notes_of(found: Mode) -> tuple[str, ...]:
    steps = len(found.history["cost"])
    if found.converged:
        return ()
    return (
        f"the search for the mode ended after {steps} step{'' if steps == 1 else 's'}, where the "
        f"slope still was {np.linalg.norm(found.place.slope):.2g}: allow more with max_steps=..., "
        "or start elsewhere.",
    )
