r"""The engine `amortise`: one training for many data sets.

First the surrogate is fitted to the weak form over the whole prior; no PDE is solved and no data
are read. Then an encoder learns $q(z \mid y)$ from data sets that the surrogate and the
noise model make up, fresh ones in each step. A new data set costs one pass of a small network.

The encoder minimises $E[-\log q(z \mid y)]$ over pairs from the model: up to a constant
$KL(p(z \mid y)\,\|\,q)$ averaged over data sets. In this sense the best Gaussian has exactly the
mean and covariance of the posterior, whatever its shape. The paper's evidence bound turns the
divergence round, and is narrower where the posterior is no Gaussian.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.engines.amortise.amortised import Amortised, encoded
from riesz.engines.amortise.encoder import Encoded, Encoder, ResidualNetwork, encoder
from riesz.engines.amortise.prior_surrogate import OVER_PRIOR, over_the_prior
from riesz.engines.amortise.simulate import (
    Coordinates,
    DataSets,
    Observed,
    Simulator,
    check_simulable,
)
from riesz.engines.emulate.settings import EmulateSettings
from riesz.engines.emulate.start import default_penalty, initial_surrogate
from riesz.engines.training import History, train
from riesz.penalty.gram import Gram
from riesz.penalty.penalty import AbstractPenalty
from riesz.penalty.precision import full_precision
from riesz.posterior.family import standard_log_density
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import Surrogate

PROPOSED = 1.2
"""Proposals are this much wider than q: a q that is a little narrow does no harm."""

UNUSUAL = 0.001
"""The share of simulated data sets whose fit would raise doubts."""


@dataclasses.dataclass(frozen=True)
class AmortiseSettings:
    """Sizes and lengths of a training; the defaults suit a handful of unknowns."""

    surrogate: EmulateSettings = OVER_PRIOR
    num_solves: int = 1  # Gauss-Newton steps of its readout; nonlinear equations need several
    width: int = 128  # of the encoder
    num_layers: int = 3
    steps: int = 4000
    block_steps: int = 200
    num_data: int = 256  # data sets in a step
    num_proposals: int = 15  # of the unknowns, for each data set
    learning_rate: float = 2e-3
    num_examples: int = 4000  # data sets that tell what is usual


class EncoderState(eqx.Module):
    """What a step changes."""

    network: ResidualNetwork
    memory: optax.OptState


class EncoderData(eqx.Module):
    """What a step reads."""

    simulator: Simulator
    encoder: Encoder  # with a network that is not read


class EncoderStep(eqx.Module):
    """One step of the encoder, on fresh data sets."""

    settings: AmortiseSettings = eqx.field(static=True)

    def __call__(
        self, state: EncoderState, key: PRNGKeyArray, data: EncoderData
    ) -> tuple[EncoderState, dict[str, Float[Array, ""]]]:
        data_key, proposal_key = jr.split(key)
        truths, observed = data.simulator.pairs(data_key, self.settings.num_data)
        keys = jr.split(proposal_key, self.settings.num_data)

        @eqx.filter_value_and_grad
        def loss(network):
            encode = dataclasses.replace(data.encoder, network=network)

            def of_data_set(own_key, truth, seen):
                q = encode(seen)
                points, weights = candidates(
                    data.simulator,
                    jax.lax.stop_gradient(q),
                    seen,
                    truth,
                    own_key,
                    self.settings.num_proposals,
                )
                return -weights @ jax.vmap(q.log_prob)(points)

            return jnp.mean(jax.vmap(of_data_set)(keys, truths, observed))

        value, slope = loss(state.network)
        changes, memory = optimiser(self.settings).update(slope, state.memory)
        return EncoderState(eqx.apply_updates(state.network, changes), memory), {"loss": value}


def candidates(
    simulator: Simulator,
    q: Encoded,
    observed: Observed,
    truth: Coordinates,
    key: PRNGKeyArray,
    num_proposals: int,
) -> tuple[Float[Array, "candidate coordinate"], Float[Array, " candidate"]]:
    r"""The unknowns behind a data set and draws near q, with weights.

    The truth is one draw from the posterior of its data. Choose among it and draws from any other
    density $r$ with probabilities proportional to $p(y, z) / r(z)$: the chosen one is again a
    draw from the posterior, exactly (iterated sampling importance resampling; Andrieu, Lee &
    Vihola 2018). Averaged over the choice, the loss keeps its expectation, and loses most of its
    noise once q is good.
    """
    normals = PROPOSED * jr.normal(key, (num_proposals, len(truth)), truth.dtype)
    points = jnp.concatenate([truth[None], q.mean[None] + normals @ q.factor().T])

    def log_weight(point):
        white = q.inverse_factor() @ (point - q.mean) / PROPOSED
        joint = simulator.log_likelihood(observed, point) + standard_log_density(point)
        return joint - standard_log_density(white)

    return points, jax.nn.softmax(jax.vmap(log_weight)(points))


def optimiser(settings: AmortiseSettings) -> optax.GradientTransformation:
    warm_up = settings.steps // 20
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, settings.learning_rate, warm_up, max(settings.steps, warm_up + 1)
    )
    # Clipped: where an early q is narrow and misplaced, slopes are huge.
    return optax.chain(optax.clip_by_global_norm(10.0), optax.adam(schedule))


def amortise(
    problem: InverseProblem,
    *,
    seed: int = 0,
    settings: AmortiseSettings | None = None,
    gram: Gram | None = None,
    penalty: AbstractPenalty | None = None,
    surrogate: Surrogate | None = None,
    quiet: bool = False,
) -> Amortised:
    """Train once for all data sets that the problem's sensors may see.

    Of the problem's own observations only the size is used, as a scale. Needs a problem on a
    hierarchy of meshes, or a penalty of one's own; `gram` is the inner product behind the norm,
    for rough coefficients; `surrogate` is where training starts.
    """
    check_simulable(problem)
    settings = AmortiseSettings() if settings is None else settings
    network_key, surrogate_key, encoder_key = jr.split(jr.key(seed), 3)
    of_surrogate = settings.surrogate
    if penalty is None:
        penalty = default_penalty(problem, of_surrogate, gram, engine="amortise")
    if surrogate is None:
        surrogate = initial_surrogate(
            problem, network_key, width=of_surrogate.width, features=of_surrogate.features
        )
    with full_precision():
        surrogate, physics = over_the_prior(
            problem,
            penalty,
            surrogate,
            of_surrogate,
            surrogate_key,
            num_solves=settings.num_solves,
            quiet=quiet,
        )
        simulator = Simulator(problem, surrogate)
        found, usual_fit, losses = trained_encoder(simulator, settings, encoder_key, quiet=quiet)
    history = {name: jnp.asarray(curve) for name, curve in {**physics, **losses}.items()}
    return Amortised(simulator, found, usual_fit, history, seed)


def trained_encoder(
    simulator: Simulator, settings: AmortiseSettings, key: PRNGKeyArray, *, quiet: bool
) -> tuple[Encoder, Float[Array, ""], History]:
    """An encoder for simulated data sets, and the log-likelihood that they rarely fall below."""
    example_key, start_key, train_key = jr.split(key, 3)
    examples = simulated(simulator, example_key, settings.num_examples)
    start = encoder(
        examples,
        simulator.problem.num_coordinates,
        start_key,
        width=settings.width,
        num_layers=settings.num_layers,
    )
    trainable = eqx.filter(start.network, eqx.is_inexact_array)
    state, history = train(
        EncoderStep(settings),
        EncoderState(start.network, optimiser(settings).init(trainable)),
        train_key,
        EncoderData(simulator, start),
        num_steps=settings.steps,
        block_steps=settings.block_steps,
        label="encoder",
        quiet=quiet,
    )
    found = dataclasses.replace(start, network=state.network)
    _, fits = encoded(found, simulator, examples)
    usual = np.quantile(np.asarray(fits), UNUSUAL)
    return found, jnp.asarray(usual, examples.dtype), history


@eqx.filter_jit
def simulated(simulator: Simulator, key: PRNGKeyArray, num_data: int) -> DataSets:
    return simulator.pairs(key, num_data)[1]
