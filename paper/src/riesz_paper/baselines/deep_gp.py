r"""A deep Gaussian process: the places are bent by one process before another reads them.

Each layer is sparse; draws are pushed through the layers, each from its marginal (doubly
stochastic), and the last layer's normal is integrated out in
$\sum_n E_q[\log p(y_n | f(x_n))] - \sum_l KL(q_l | p_l)$. Inner layers have the identity as mean.
Sources: Damianou & Lawrence (2013); Salimbeni & Deisenroth (2017).
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.errors import RieszError
from riesz.method.training import History, Terms, train
from riesz.priors.kernels import RBF, AbstractKernel
from riesz_paper.baselines.gp_physics.sparse_process import (
    SparseProcess,
    inducing_among,
    sparse_process,
)
from riesz_paper.baselines.standard import Standard, standard_of
from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.method import NUM_DRAWS, Draws, Method, Values

Places = Float[Array, "place dim"]
OfPlaces = Float[Array, " place"]


@dataclass(frozen=True)
class DeepGPSettings:
    """Sizes and training; lengths and noise are where the search starts, in standard units."""

    family: type[AbstractKernel] = RBF
    num_layers: int = 2
    num_inducing: int = 50
    num_draws: int = 5  # through the inner layers, in each step
    num_steps: int = 2000
    learning_rate: float = 0.01
    inner_sd: float = 1e-2  # of q in inner layers, relative to the prior: nearly the identity
    noise: float = 0.1

    def __post_init__(self):
        if self.num_layers < 1:
            raise RieszError(f"num_layers is {self.num_layers}: a process has at least one.")


DEFAULT = DeepGPSettings()


class DeepGP(eqx.Module):
    """Processes of each layer, one an output, and the sd of the noise."""

    inner: tuple[tuple[SparseProcess, ...], ...]
    last: SparseProcess
    log_noise: Float[Array, ""]

    def moments(self, places: Places, key: PRNGKeyArray) -> tuple[OfPlaces, OfPlaces]:
        """Mean and variance of the last layer, after one draw of those before it."""
        for layer, one in zip(self.inner, jr.split(key, max(len(self.inner), 1)), strict=False):
            found = [process.moments(places) for process in layer]
            mean, variance = (jnp.stack(parts, axis=1) for parts in zip(*found, strict=True))
            noise = jr.normal(one, places.shape, places.dtype)
            places = places + mean + jnp.sqrt(variance) * noise
        return self.last.moments(places)

    def divergence(self) -> Float[Array, ""]:
        """Of all inducing values from their priors."""
        processes = [self.last, *(process for layer in self.inner for process in layer)]
        return sum((process.q.kl_to_prior() for process in processes), jnp.zeros(()))


def misfit(
    model: DeepGP, places: Places, target: OfPlaces, key: PRNGKeyArray, num_draws: int
) -> Float[Array, ""]:
    """The expected negative log-likelihood of all measurements."""
    draw = jax.vmap(lambda one: model.moments(places, one))
    means, variances = draw(jr.split(key, num_draws if model.inner else 1))
    squares = (target[None, :] - means) ** 2 + variances
    log_variance = 2 * model.log_noise
    each = 0.5 * (jnp.log(2 * jnp.pi) + log_variance + squares / jnp.exp(log_variance))
    return jnp.sum(jnp.mean(each, axis=0))


class TrainingState(eqx.Module):
    model: DeepGP
    moments: optax.OptState


class Task(eqx.Module):
    places: Places
    target: OfPlaces
    settings: DeepGPSettings = eqx.field(static=True)


def step(state: TrainingState, key: PRNGKeyArray, task: Task) -> tuple[TrainingState, Terms]:
    """One step of Adam on the bound from all measurements."""

    def cost(model: DeepGP) -> tuple[Float[Array, ""], Terms]:
        terms = {
            "misfit": misfit(model, task.places, task.target, key, task.settings.num_draws),
            "kl": model.divergence(),
        }
        return terms["misfit"] + terms["kl"], terms

    gradients, terms = eqx.filter_grad(cost, has_aux=True)(state.model)
    updates, moments = optax.adam(task.settings.learning_rate).update(gradients, state.moments)
    return TrainingState(eqx.apply_updates(state.model, updates), moments), terms


def fresh_deep_gp(places: Float[np.ndarray, "place dim"], settings: DeepGPSettings) -> DeepGP:
    """Inner layers that hardly move anything, and the prior of the last."""
    inducing = inducing_among(places, settings.num_inducing)
    last = sparse_process(settings.family, inducing)
    sharp = jnp.full(len(inducing), jnp.log(settings.inner_sd))
    narrow = eqx.tree_at(lambda process: process.q.log_diagonal, last, sharp)
    return DeepGP(
        inner=((narrow,) * places.shape[1],) * (settings.num_layers - 1),
        last=last,
        log_noise=jnp.log(jnp.asarray(settings.noise, float)),
    )


@dataclass(frozen=True, eq=False)
class DeepGPPredictor:
    """A trained process; `history` has the terms of the bound at each step."""

    model: DeepGP
    axes: tuple[Standard, ...]
    standard: Standard
    seed: int
    history: History

    def __call__(self, at: Covariates) -> Draws:
        """A mixture: each draw passes through the inner layers on its own."""
        key = jr.fold_in(jr.key(self.seed), 1)
        draws = drawn(self.model, scaled_places(at, self.axes), key)
        return self.standard.centre + self.standard.spread * np.asarray(draws, dtype=float)


@eqx.filter_jit
def drawn(model: DeepGP, places: Places, key: PRNGKeyArray) -> Float[Array, "draw place"]:
    """Measurements, standardised."""

    def one(key: PRNGKeyArray) -> OfPlaces:
        inner_key, last_key = jr.split(key)
        mean, variance = model.moments(places, inner_key)
        sd = jnp.sqrt(variance + jnp.exp(2 * model.log_noise))
        return mean + sd * jr.normal(last_key, mean.shape, mean.dtype)

    return jax.lax.map(one, jr.split(key, NUM_DRAWS))


def deep_gp(settings: DeepGPSettings = DEFAULT) -> Method:
    """Two layers of sparse processes of places, for a quantity in its own units."""

    def fit(training: Covariates, target: Values, *, seed: int) -> DeepGPPredictor:
        check_target(training, target)
        axes, standard = axes_of(training), standard_of(target)
        places = scaled_places(training, axes)
        start = fresh_deep_gp(np.asarray(places), settings)
        moments = optax.adam(settings.learning_rate).init(eqx.filter(start, eqx.is_array))
        state, history = train(
            step,
            TrainingState(start, moments),
            jr.key(seed),
            Task(places, standard.scaled(target), settings),
            num_steps=settings.num_steps,
            block_steps=settings.num_steps,
            label="deep process",
            progress=False,
        )
        return DeepGPPredictor(state.model, axes, standard, seed, history)

    return fit


def axes_of(training: Covariates) -> tuple[Standard, ...]:
    """The scale of each coordinate."""
    return tuple(standard_of(coordinate) for coordinate in training.points.T)


def scaled_places(at: Covariates, axes: tuple[Standard, ...]) -> Places:
    columns = [axis.scaled(c) for axis, c in zip(axes, at.points.T, strict=True)]
    return jnp.stack(columns, axis=1)
