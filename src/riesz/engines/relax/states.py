r"""States under the relaxed model: draws of u given the unknowns and the data.

For given unknowns, $L u = f + \epsilon w$ with $w \sim N(0, A)$ makes u Gaussian, and the data
narrow it. Matheron's rule (pathwise conditioning, Wilson et al. 2021) turns a draw before the
data into one after them:
$u = u_0 + \epsilon^2 L^{-1} A L^{-\top} H^\top S^{-1} (y - H u_0 - e)$ with noise $e$.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.engines.relax.error_scale import GramFactor, linearised, noise_variances
from riesz.fem.assembly import with_dirichlet
from riesz.fem.linear.host_call import host_lu
from riesz.posterior.family import Draws
from riesz.posterior.states import AbstractStateMap
from riesz.problem.problem import Coordinates, InverseProblem


class RelaxedStates(AbstractStateMap):
    """A state drawn for each draw of the unknowns, by exact solves, one after the other.

    Where the equation is not linear it is linearised about its solution.
    """

    epsilon: Float[Array, ""]
    factor: GramFactor

    def __call__(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws
    ) -> Float[Array, "draw node"]:
        keys = jr.split(key, len(coordinates))
        return jax.lax.map(lambda drawn: self.conditional(problem, *drawn), (keys, coordinates))

    def conditional(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Coordinates
    ) -> Float[Array, " node"]:
        """One state given the unknowns and the data."""
        here, forward = linearised(problem, coordinates), problem.forward
        variances = noise_variances(problem, coordinates)
        error_key, noise_key = jr.split(key)
        normals = jr.normal(error_key, (forward.num_free,), forward.dtype)
        error = self.epsilon * (self.factor @ normals)  # of the equation, before the data
        noise = jnp.sqrt(variances) * jr.normal(noise_key, variances.shape, forward.dtype)
        covariance = jnp.diag(variances) + self.epsilon**2 * here.discrepancy(self.factor)
        gap = problem.observed - problem.operator @ here.state - here.responses @ error - noise
        weights = jnp.linalg.solve(covariance, gap) @ here.responses
        error = error + self.epsilon**2 * (self.factor @ self.factor.transposed(weights))
        change = host_lu(here.matrix, error, transposed=False)
        values = here.state[forward.free] + change
        return with_dirichlet(forward, values, problem.z(coordinates))
