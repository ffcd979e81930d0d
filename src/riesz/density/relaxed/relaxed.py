r"""The posterior where the equation may be wrong by a finite $\epsilon$ (Tait & Damoulas 2020).

For given unknowns the data are $N(H G[\xi], S(\xi))$ with $S = D + \epsilon^2 K$ (see
`discrepancy`): the state of the paper's relaxed objective is integrated out exactly, with the
log-determinant of S, which a joint training of surrogate and q leaves out. The scale $\epsilon$
has awkward units; people give `epsilon_rel` instead, with
mean$_i\,\epsilon^2 K_{ii}$ = (`epsilon_rel` $\sigma$)$^2$ at the priors' medians.
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.special
from jaxtyping import Array, Float
from pydantic import Field, PlainValidator

from riesz.density.base import AbstractDensityKind, Prepared, require_plain_data
from riesz.density.relaxed.discrepancy import AbstractErrors, noise_variances, relax_solver
from riesz.density.relaxed.states import (
    RelaxedStates,
    check_memory,
    error_grams,
    linearise,
)
from riesz.errors import RieszError
from riesz.fem.default_solver import estimate_seconds
from riesz.fem.linear.linear_solve import SparseLU
from riesz.method.base import AbstractMethod, Inferred, TargetDensity, Work
from riesz.method.settings import InnerProduct, as_gram, as_number
from riesz.notes import Note
from riesz.observe.likelihood import Gaussian
from riesz.penalty.gram import Gram, check_energy
from riesz.posterior.density import AbstractGradientDensity
from riesz.posterior.family import Draws
from riesz.posterior.posterior import AbstractStateMap, Posterior
from riesz.problem.linearity import by_equation
from riesz.problem.problem import Coordinates, InverseProblem
from riesz.problem.unknowns import STATE

LEARNED = "learned"

LEAST, MOST = 0.05, 100.0
"""Where a learned `epsilon_rel` is looked for: below it the equation is as good as exact."""

GRID = 64
"""Values between, an eighth apart: the data seldom tell the scale of an error that closely."""

TENFOLD = 0.9
"""How sure one is, before the data are seen, that a learned value is not ten times off."""

NUM_DRAWS = 50
"""Of the posterior, for the range of a learned value."""


class Scales(NamedTuple):
    """Values of `epsilon_rel`, and logarithms of their weights before the data are seen."""

    values: Float[np.ndarray, " scale"]
    log_weights: Float[np.ndarray, " scale"]


class Learned(eqx.Module):
    """Found from the data, with a log-normal prior about `start`, tenfold to both sides.

    The posterior is averaged over all values, as likely as the data leave them.
    """

    start: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        check_epsilon(self.start)

    def scales(self) -> Scales:
        logs = np.linspace(np.log(LEAST), np.log(MOST), GRID)
        sd = np.log(10) / scipy.special.ndtri((1 + TENFOLD) / 2)
        weights = -0.5 * ((logs - np.log(self.start)) / sd) ** 2
        return Scales(np.exp(logs), scipy.special.log_softmax(weights))


def check_epsilon(epsilon_rel: float) -> None:
    if not 0 < epsilon_rel < np.inf:
        raise RieszError(
            f"epsilon_rel is {epsilon_rel}: it must be positive and finite. The limit of zero is "
            "the density exact."
        )


def as_epsilon(value: Any) -> float | Learned:
    """A number stands for itself; problem files have a word for what is learned."""
    if isinstance(value, Learned):
        return value
    if value == LEARNED:
        return Learned()
    number = as_number(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(value)
    check_epsilon(float(number))
    return float(number)


Epsilon = Annotated[
    float | Learned | Literal["learned"],
    PlainValidator(as_epsilon),
    Field(description="a positive number or 'learned'; in Python rz.inference.Learned too"),
]
"""How wrong the equation may be."""


class RelaxedDensity(AbstractGradientDensity):
    """The posterior of the unknowns alone, over all values of epsilon."""

    problem: InverseProblem
    states: RelaxedStates

    def log_likelihood(self, coordinates: Coordinates) -> Float[Array, ""]:
        return jax.nn.logsumexp(self.log_likelihoods(coordinates))

    def log_likelihoods(self, coordinates: Coordinates) -> Float[Array, " scale"]:
        """For each epsilon."""
        problem, z = self.problem, self.problem.z(coordinates)
        here = linearise(problem, z, self.states.linear_solver)
        return self.states.log_fits(problem, z, here)

    @property
    def num_data(self) -> int:
        return len(self.problem.observed)

    def seconds(self) -> float:
        return relaxed_seconds(self.problem)

    def explain(self, coordinates: Coordinates, where: str) -> None:
        self.problem.explain(coordinates, where)


def relaxed_density(problem: InverseProblem, states: RelaxedStates) -> RelaxedDensity:
    """With the solver that suits the problem, chosen before anything compiles."""
    return RelaxedDensity(problem, states.ready(problem))


def relaxed_seconds(problem: InverseProblem) -> float:
    """Of a value: with factors at hand, an adjoint solve for each sensor costs as much again."""
    solver = relax_solver(problem)
    beside = 1 if isinstance(solver, SparseLU) else len(problem.observed)
    return problem.num_solves * (1 + beside) * estimate_seconds(problem.forward, solver)


class Relaxed(AbstractDensityKind):
    """The posterior where the equation may be wrong by `epsilon_rel`, in units of the noise.

    Errors of the equation move the state at the sensors by `epsilon_rel` noise sds, on average and
    before the data are seen: a number, or "learned". `gram` is the inner product of the dual norm
    in which they count; diffusivity 0 and reaction 1 make errors of the source white.
    """

    name: ClassVar[str] = "relaxed"
    compiling: ClassVar[float] = 30.0

    epsilon_rel: Epsilon = 0.1
    gram: InnerProduct = None

    @property
    def scales(self) -> Scales:
        """Values of `epsilon_rel` in the posterior."""
        if isinstance(self.epsilon_rel, Learned):
            return self.epsilon_rel.scales()
        return Scales(np.array([self.epsilon_rel]), np.zeros(1))

    def check(self, problem: InverseProblem) -> None:
        super().check(problem)
        require_plain_data(problem, self.name)
        if not all(isinstance(one, Gaussian) for one, _ in problem.likelihood.parts(0)):
            raise RieszError(
                "relaxed needs independent normal noise, to know how far the data correct the "
                f"equation, but the likelihood is {problem.likelihood.describe()}: use the density "
                "exact."
            )
        if problem.time is None:
            check_energy(problem.forward, as_gram(self.gram))
            return
        if not by_equation(problem).is_affine_in([STATE]):
            raise RieszError(
                "relaxed takes equations in time that are linear in the state, and this one is "
                "not: use the density exact."
            )
        check_memory(problem)

    def cost(self, solve: float, problem: InverseProblem, method: AbstractMethod) -> float:
        value = max(solve, relaxed_seconds(problem))
        return method.cost(value, problem.num_coordinates, len(problem.observed))

    def prepare(self, problem: InverseProblem, method: AbstractMethod, work: Work) -> Prepared:
        errors = error_grams(problem, as_gram(self.gram) or Gram())
        scales = self.scales
        epsilon = median_unit(problem, errors) * scales.values
        states = RelaxedStates(epsilon, jnp.asarray(scales.log_weights), errors)
        density = relaxed_density(problem, states)
        return Prepared(TargetDensity(density, problem.latents.coordinate_names()), states, {})

    def with_states(
        self,
        problem: InverseProblem,
        method: AbstractMethod,
        result: Inferred,
        states: AbstractStateMap,
        work: Work,
    ) -> Posterior:
        assert isinstance(states, RelaxedStates)
        if isinstance(self.epsilon_rel, Learned):
            draws = result.distribution.sample(jr.key(work.seed), NUM_DRAWS)
            density = relaxed_density(problem, states)
            note = note_on_scales(self.scales.values, np.asarray(scale_weights(density, draws)))
            result = result._replace(notes=(*result.notes, note))
        return super().with_states(problem, method, result, states, work)


def median_unit(problem: InverseProblem, errors: AbstractErrors) -> Float[Array, ""]:
    """The epsilon that moves the state at the sensors as much as the noise does, on average, at the
    priors' medians."""
    origin = jnp.zeros(problem.num_coordinates, problem.forward.dtype)
    here = linearise(problem, problem.z(origin), relax_solver(problem))
    moved = jnp.diagonal(here.discrepancy(errors))
    return jnp.sqrt(jnp.mean(noise_variances(problem, origin)) / jnp.mean(moved))


@eqx.filter_jit
def scale_weights(density: RelaxedDensity, draws: Draws) -> Float[Array, " scale"]:
    """How likely each epsilon is, given the data, averaged over draws of the unknowns."""

    def one(coordinates: Coordinates) -> Float[Array, " scale"]:
        return jax.nn.softmax(density.log_likelihoods(coordinates))

    return jnp.mean(jax.lax.map(one, draws), axis=0)


def note_on_scales(
    values: Float[np.ndarray, " scale"], weights: Float[np.ndarray, " scale"]
) -> Note:
    low, middle, high = np.interp((0.025, 0.5, 0.975), np.cumsum(weights), values)
    return Note("epsilon_range", low=low, high=high, median=middle)
