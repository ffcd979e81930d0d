r"""The engine `amortise`: one training for many data sets.

First the surrogate is fitted to the weak form over the whole prior; no PDE is solved and no data
are read. Then an encoder learns $q(z \mid y)$ from data sets that the surrogate and the
noise model make up, fresh ones in each step. A new data set costs one pass of a small network.

The encoder minimises $E[-\log q(z \mid y)]$ over pairs from the model: up to a constant
$KL(p(z \mid y)\,\|\,q)$ averaged over data sets. In this sense the best Gaussian has exactly the
mean and covariance of the posterior, whatever its shape. The paper's evidence bound turns the
divergence round, and is narrower where the posterior is no Gaussian. (Neural posterior estimation,
Papamakarios & Murray 2016.)
"""

import dataclasses
from typing import Annotated, Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from pydantic import BeforeValidator, Field

from riesz.amortise import simulate
from riesz.amortise.amortised import Amortised, encode
from riesz.amortise.encoder import Encoded, Encoder, ResidualNetwork, encoder
from riesz.density.engine import AbstractEngine
from riesz.density.reduced_basis import check_reducible, reduce_over_prior
from riesz.density.surrogate.start import check_nested, training_cost
from riesz.errors import RieszError, error_context
from riesz.method.base import Work
from riesz.method.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.method.settings import Count, Share, ShareOrZero, as_number
from riesz.method.training import History, train
from riesz.penalty.rows import full_precision
from riesz.posterior.family import standard_log_density
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem

PROPOSED = 1.2
"""Proposals are this much wider than q: a q that is a little narrow does no harm."""

ModelName = Annotated[
    Literal["surrogate", "reduced"], Field(description="surrogate or reduced, what sensors see by")
]
Factor = Annotated[
    float, BeforeValidator(as_number), Field(ge=1, lt=1000, description="a number of at least 1")
]

UNUSUAL = 0.001
"""The share of simulated data sets whose fit would raise doubts."""


class EncoderState(eqx.Module):
    """What a step changes."""

    network: ResidualNetwork
    memory: PyTree


class EncoderStep(eqx.Module):
    """One step of the encoder, on fresh data sets, by the settings that it reads."""

    steps: int = eqx.field(static=True)
    num_data: int = eqx.field(static=True)
    num_proposals: int = eqx.field(static=True)
    learning_rate: float = eqx.field(static=True)
    variety: simulate.Variety = eqx.field(static=True)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        warm_up = self.steps // 20
        schedule = optax.warmup_cosine_decay_schedule(
            0.0, self.learning_rate, warm_up, max(self.steps, warm_up + 1)
        )
        # Clipped: where an early q is narrow and misplaced, slopes are huge.
        return optax.chain(optax.clip_by_global_norm(10.0), optax.adam(schedule))

    def init(self, network: ResidualNetwork) -> EncoderState:
        trainable = eqx.filter(network, eqx.is_inexact_array)
        return EncoderState(network, self.optimiser.init(trainable))

    def __call__(
        self,
        state: EncoderState,
        key: PRNGKeyArray,
        data: tuple[simulate.Simulator, Encoder],  # with a network that is not read
    ) -> tuple[EncoderState, dict[str, Float[Array, ""]]]:
        data_key, proposal_key = jr.split(key)
        simulator, start = data
        truths, observed = simulator.readings(data_key, self.num_data, self.variety)
        keys = jr.split(proposal_key, self.num_data)

        @eqx.filter_value_and_grad
        def loss(network):
            encode = dataclasses.replace(start, network=network)

            def of_data_set(own_key, truth, seen):
                q = encode(seen)
                still = jax.lax.stop_gradient(q)
                points, weights = candidates(
                    simulator, still, seen, truth, own_key, self.num_proposals
                )
                return -weights @ jax.vmap(q.log_prob)(points)

            return jnp.mean(jax.vmap(of_data_set)(keys, truths, observed))

        value, slope = loss(state.network)
        changes, memory = self.optimiser.update(slope, state.memory)
        return EncoderState(eqx.apply_updates(state.network, changes), memory), {"loss": value}


def candidates(
    simulator: simulate.Simulator,
    q: Encoded,
    observed: simulate.Observed | simulate.SensorData,
    truth: simulate.Coordinates,
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


class Amortise(simulate.PriorSurrogate, AbstractEngine):
    """One training for all data sets that the problem's sensors may see.

    `train` gives what answers any data set at once; as an engine it answers the problem's own.
    Its `model` of what sensors see is a surrogate, which needs a hierarchy of meshes and suits a
    handful of unknowns, or a reduced equation of exact states, which suits tens of them where the
    equation is linear in the state. With `missing`, data sets may lack up to such a share of their
    values; with a `noise_factor`, sds may be so much larger or smaller than the problem's.
    """

    # Class variables, where pairs of a method and a density have properties.
    name: ClassVar[str] = "amortise"  # pyright: ignore[reportIncompatibleVariableOverride]
    compiling: ClassVar[float] = 120.0  # pyright: ignore[reportIncompatibleVariableOverride]
    is_normal: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]
    is_timed: ClassVar[bool] = False  # pyright: ignore[reportIncompatibleVariableOverride]

    encoder_width: Count = 128
    encoder_layers: Count = 3
    steps: Count = 4000
    block_steps: Count = 200
    num_data: Count = 256  # data sets in a step
    num_proposals: Count = 15  # of the unknowns, for each data set
    learning_rate: Share = 2e-3
    num_examples: Count = 4000  # data sets that tell what is usual
    model: ModelName = "surrogate"
    missing: ShareOrZero = 0.0
    noise_factor: Factor = 1.0

    @property
    def variety(self) -> simulate.Variety:
        return simulate.Variety(self.missing, self.noise_factor)

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields}

    def check(self, problem: InverseProblem) -> None:
        if problem.time is not None:
            raise RieszError(
                "amortise takes steady states, and this equation is one in time: use mcmc."
            )
        if self.model == "reduced":
            with error_context("amortise with a reduced model"):
                check_reducible(problem)
        else:
            check_nested(problem, self.name, self.gram)
        simulate.check_simulable(problem)
        if self.noise_factor > 1:
            simulate.independent_noise_sd(problem, problem.forward.dtype)
        if self.missing and not problem.likelihood.is_independent:
            raise RieszError(
                "missing values are for independent noise, and noise is "
                f"{problem.likelihood.describe()}: leave missing out."
            )

    def cost(self, solve: float, problem: InverseProblem) -> float:
        return training_cost(solve, problem)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        result = self.train(
            problem, seed=work.seed, progress=work.progress, checkpoint=work.checkpoint
        )
        return result.build_posteriors(np.asarray(problem.observed)[None])[0]

    def train(
        self,
        problem: InverseProblem,
        *,
        seed: int = 0,
        progress: bool = False,
        checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
    ) -> Amortised:
        """Posteriors of any data set; of the problem's own only the size is used, as a scale."""
        self.check(problem)
        network_key, surrogate_key, encoder_key = jr.split(jr.key(seed), 3)
        with full_precision():
            if self.model == "reduced":
                simulator = simulate.Simulator(problem, reduce_over_prior(problem, seed))
            else:
                own = simulate.surrogate_over_prior(problem, self, network_key, surrogate_key)
                simulator = simulate.Simulator(problem, own)
            work = Work(seed, progress, checkpoint)
            result, usual_fit, losses = train_encoder(simulator, self, encoder_key, work)
        history = {name: jnp.asarray(curve) for name, curve in losses.items()}
        return Amortised(simulator, result, usual_fit, history, seed, self.variety)


def train_encoder(
    simulator: simulate.Simulator, engine: Amortise, key: PRNGKeyArray, work: Work
) -> tuple[Encoder, Float[Array, ""], History]:
    """An encoder for simulated data sets, and the log-likelihood that they rarely fall below."""
    example_key, start_key, train_key = jr.split(key, 3)
    simulated = eqx.filter_jit(simulate.Simulator.readings)
    _, examples = simulated(simulator, example_key, engine.num_examples, engine.variety)
    own_noise = None
    if engine.noise_factor > 1:
        own_noise = simulate.independent_noise_sd(simulator.problem, examples.values.dtype)
    start = encoder(
        jnp.asarray(examples.values),
        simulator.problem.num_coordinates,
        start_key,
        width=engine.encoder_width,
        num_layers=engine.encoder_layers,
        noise_sd=own_noise,
        reads_gaps=engine.missing > 0,
    )
    sizes = engine.steps, engine.num_data, engine.num_proposals
    step = EncoderStep(*sizes, engine.learning_rate, engine.variety)
    state, history = train(
        step,
        step.init(start.network),
        train_key,
        (simulator, start),
        num_steps=engine.steps,
        block_steps=engine.block_steps,
        label="encoder",
        progress=work.progress,
        checkpoint=work.checkpoint,
        stage="encoder",
    )
    result = dataclasses.replace(start, network=state.network)
    _, fits = encode(result, simulator, examples)
    usual = np.quantile(np.asarray(fits), UNUSUAL)
    return result, jnp.asarray(usual, examples.values.dtype), history
