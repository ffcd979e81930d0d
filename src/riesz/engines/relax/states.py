"""The relaxed model: how likely values of the unknowns are, and the states that go with them."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.engines.relax.discrepancy import (
    AbstractErrors,
    Linearised,
    log_densities,
    suited,
)
from riesz.engines.relax.in_time import (
    LinearisedInTime,
    carried,
    linearised_equation,
    linearised_in_time,
)
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Automatic
from riesz.latent.latent import ManyZ
from riesz.posterior.family import Draws
from riesz.posterior.posterior import AbstractStateMap, Read, States, compiled_states
from riesz.problem.problem import Coordinates, InverseProblem

Here = Linearised | LinearisedInTime


class RelaxedStates(AbstractStateMap):
    r"""A state drawn for each draw of the unknowns, by exact solves, one after the other.

    For given unknowns and a given $\epsilon$ the relaxed equation makes u Gaussian, and the data
    narrow it. Matheron's rule (pathwise conditioning, Wilson et al. 2021) turns a draw before the
    data into one after: $u = u_0 + \epsilon^2 L^{-1} A L^{-\top} H^\top S^{-1} (y - H u_0 - e)$
    with noise $e$. Where the equation is not linear it is linearised about its solution. An
    $\epsilon$ that is not known has several values with prior weights: it is drawn, too, as the
    data have it for these unknowns, and the density of the unknowns is a sum over its values.
    """

    epsilon: Float[Array, " scale"]
    log_weight: Float[Array, " scale"]  # before the data are seen
    factor: AbstractErrors
    linear_solver: AbstractLinearSolver = Automatic()

    def ready(self, problem: InverseProblem) -> "RelaxedStates":
        """The same with the solver that suits a problem, to be chosen before anything compiles."""
        solver = suited(problem) if isinstance(self.linear_solver, Automatic) else None
        return self if solver is None else dataclasses.replace(self, linear_solver=solver)

    def from_outside(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws, z: ManyZ
    ) -> States:
        return compiled_states(self.ready(problem), problem, key, coordinates)

    def __call__(self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws) -> States:
        keys = jr.split(key, len(coordinates))
        return jax.lax.map(lambda drawn: self.conditional(problem, *drawn), (keys, coordinates))

    def log_fits(self, problem: InverseProblem, z: PyTree, here: Here) -> Float[Array, " scale"]:
        r"""Of data and each $\epsilon$ for given unknowns; the data are $N(H G[\xi],\, S(\xi))$."""
        sd = problem.noise_sd(z)
        gap = (problem.observed - problem.operator @ here.state) / sd
        spread = here.discrepancy(self.factor) / (sd[:, None] * sd[None, :])
        fits = log_densities(gap, spread, self.epsilon) - jnp.sum(jnp.log(sd))
        return fits + self.log_weight

    def log_joint(
        self, problem: InverseProblem, coordinates: Coordinates
    ) -> Float[Array, " scale"]:
        r"""The same with the unknowns."""
        here = linearised_equation(problem, coordinates, self.linear_solver)
        fits = self.log_fits(problem, problem.z(coordinates), here)
        return problem.latents.log_prior(coordinates) + fits

    def log_prob(self, problem: InverseProblem, coordinates: Coordinates) -> Float[Array, ""]:
        r"""The log-posterior of the unknowns up to a constant, $\epsilon$ integrated out."""
        return jax.nn.logsumexp(self.log_joint(problem, coordinates))

    def conditional(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Coordinates
    ) -> Float[Array, " node"]:
        """One state given the unknowns and the data."""
        here, z = (
            linearised_equation(problem, coordinates, self.linear_solver),
            problem.z(coordinates),
        )
        return here.moved(problem, z, self.error(problem, key, z, here))

    def error(
        self, problem: InverseProblem, key: PRNGKeyArray, z: PyTree, here: Here
    ) -> Float[Array, "*step free"]:
        """An error of the equation, or one a step, given the unknowns and the data."""
        variances = problem.noise_sd(z) ** 2
        scale_key, error_key, noise_key = jr.split(key, 3)
        epsilon = self.epsilon[jr.categorical(scale_key, self.log_fits(problem, z, here))]
        error = epsilon * self.factor.drawn(error_key, here.without_error())  # before the data
        noise = jnp.sqrt(variances) * jr.normal(noise_key, variances.shape, variances.dtype)
        covariance = jnp.diag(variances) + epsilon**2 * here.discrepancy(self.factor)
        gap = problem.observed - problem.operator @ here.state - here.seen(error) - noise
        pulled = here.pulled(jnp.linalg.solve(covariance, gap))
        return error + epsilon**2 * self.factor.gram(pulled)

    def beside_the_march(
        self,
        problem: InverseProblem,
        key: PRNGKeyArray,
        z: PyTree,
        under: InverseProblem,
        read: Read,
        solver: AbstractLinearSolver,
    ) -> Float[Array, "time place"]:
        here = linearised_in_time(problem, z, solver)
        return carried(under, z, self.error(problem, key, z, here), read, solver)
