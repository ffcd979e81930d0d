r"""The engine `relax`: the joint objective of Tait & Damoulas (2020) at a finite $\epsilon$.

The surrogate and q are trained together on misfit, prior and penalty, and every gradient reaches
both. The posterior is that of a model in which the equation holds up to an error of scale
$\epsilon$; it is stated in units of the noise (`epsilon_rel`), and fixed, annealed or learned. In
the end q is brought to that posterior by exact solves, with what training leaves out.
"""

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import Field

from riesz.devices import Devices
from riesz.engines.base import (
    AbstractEngine,
    Count,
    CountOrNone,
    CountOrZero,
    Share,
    ShareOrZero,
    Work,
    as_gram,
)
from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.emulate.engine import Emulate, num_features, trajectory_over_prior
from riesz.engines.emulate.in_time import check_trajectory
from riesz.engines.emulate.start import (
    PatchSettings,
    check_nested,
    default_penalty,
    initial_surrogate,
    penalty_in_time,
    training_cost,
)
from riesz.engines.relax.discrepancy import AbstractErrors, gram_factor
from riesz.engines.relax.error_scale import (
    check_problem,
    gram_matrix,
    maximum_likelihood_epsilon,
    median_unit,
    median_units,
)
from riesz.engines.relax.gaussian_refinement import RefinedGaussian, refine_gaussian
from riesz.engines.relax.schedule import Epsilon, Scales, as_schedule
from riesz.engines.relax.states import RelaxedStates, check_memory, loose_trajectory, step_grams
from riesz.engines.relax.training import (
    AnySurrogate,
    RelaxPace,
    Watch,
    init_state,
    initial_data,
    train_stage,
    train_to_tail,
)
from riesz.errors import RieszError
from riesz.notes import Note
from riesz.penalty.gram import Gram, check_energy
from riesz.penalty.in_time import StepPenalty
from riesz.penalty.penalty import AbstractPenalty, exact_penalty
from riesz.posterior.family import full_rank
from riesz.posterior.posterior import Posterior
from riesz.problem.linearity import affine_coordinates, affine_dirichlet_values
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import nodal_surrogate

HARMLESS = 0.1
"""An `epsilon_rel` up to which the log-determinant does next to nothing."""


class Relax(PatchSettings, AbstractEngine):
    """The posterior where the equation may be wrong by `epsilon_rel`, in units of the noise.

    Errors of the equation move the state at the sensors by `epsilon_rel` noise sds, on average and
    before the data are seen: a number, or a schedule (`Annealed`, `Learned`). The defaults suit a
    handful of unknowns. `norm` is that of residuals, estimated on mini-patches of a hierarchy of
    meshes or exact, with the inner product `gram`; diffusivity 0 and reaction 1 make errors of the
    source white. `surrogate="nodal"` is a reference for small meshes and unknowns that are known
    closely.
    """

    name: ClassVar[str] = "relax"
    is_exact: ClassVar[bool] = False  # training needs no solve, its units and states do
    compiling: ClassVar[float] = 120.0
    takes_time: ClassVar[bool] = True

    epsilon_rel: Epsilon = 0.1
    surrogate: Annotated[Literal["network", "nodal"], Field(description="network or nodal")] = (
        "network"
    )
    norm: Annotated[Literal["patches", "exact"], Field(description="patches or exact")] = "patches"
    width: Count = 32
    features: Count = 32
    prior_steps: CountOrZero = 500  # of a network, on the equation alone
    steps: Count = 2000
    tail: ShareOrZero = 0.25  # of them over which q is averaged, at the end value of epsilon
    block_steps: Count = 250
    patience: CountOrNone = None  # blocks without progress before training stops
    learning_rate: Share = 5e-3
    family_learning_rate: Share = 2e-2
    polishing_rounds: CountOrZero = 20  # at the end, by exact solves, at most; 0 for none
    polishing_draws: Count = 64  # in a round; more where there are many unknowns

    def inert(self) -> dict[str, str]:
        result: dict[str, str] = {}
        if self.surrogate == "nodal":
            unread = ("width", "features", "prior_steps")
            result |= dict.fromkeys(unread, "it goes with surrogate = 'network'")
        if self.norm == "exact":
            unread = ("num_patches", "patch_nodes", "coarse_patch_nodes")
            result |= dict.fromkeys(unread, "it goes with norm = 'patches'")
        if self.polishing_rounds == 0:
            result["polishing_draws"] = "polishing_rounds is 0"
        return result

    def check(self, problem: InverseProblem) -> None:
        super().check(problem)
        check_problem(problem)
        if problem.time is not None:
            self.check_in_time(problem)
        elif self.norm == "patches":
            check_nested(problem, self.name, self.gram)
        else:
            check_energy(problem.forward, as_gram(self.gram))
            affine_dirichlet_values(problem)

    def check_in_time(self, problem: InverseProblem) -> None:
        others = {"surrogate": "network", "norm": "patches"}
        for name, only in others.items():
            if getattr(self, name) != only:
                raise RieszError(
                    f"relax takes {name} = {only!r} for equations in time, and it is "
                    f"{getattr(self, name)!r}."
                )
        check_nested(problem, self.name, self.gram)
        own = sizes_in_time(self)
        features = num_features(problem, own.num_bends, self.features)
        drawn = own.batches()
        squares = 2 * drawn.num_batches * drawn.num_samples * features**2
        check_trajectory(problem, squares, self.name)
        check_memory(problem)

    def cost(self, solve: float, problem: InverseProblem) -> float:
        return training_cost(solve, problem)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        if problem.time is not None:
            penalty = penalty_in_time(problem, self)
        elif self.norm == "exact":
            penalty = exact_penalty(problem.forward, as_gram(self.gram))
        else:
            penalty = default_penalty(problem, self)
        return fit_relaxed(
            *(problem, self, penalty),
            seed=work.seed,
            progress=work.progress,
            checkpoint=work.checkpoint,
            devices=work.devices,
        )


class Beginning(NamedTuple):
    """What training starts from."""

    factor: AbstractErrors
    exact_unit: Float[Array, ""]  # the epsilon that moves the sensors as noise does
    unit: Float[Array, ""]  # the same for the norm by patches
    surrogate: AnySurrogate
    learns_prior: bool  # by steps on the equation alone


def steady_beginning(
    problem: InverseProblem, engine: Relax, penalty: AbstractPenalty, key: PRNGKeyArray
) -> Beginning:
    matrix = gram_matrix(penalty)
    factor = gram_factor(matrix)
    units = median_units(problem, penalty, matrix, factor)
    if engine.surrogate == "nodal":
        scale = as_schedule(engine.epsilon_rel).last * units[0]
        start = nodal_surrogate(problem.forward, problem.latents, matrix, scale)
        return Beginning(factor, *units, start, learns_prior=False)
    start = initial_surrogate(problem, key, width=engine.width, features=engine.features)
    return Beginning(factor, *units, start, learns_prior=True)


def beginning_in_time(
    problem: InverseProblem, engine: Relax, penalty: StepPenalty, key: PRNGKeyArray
) -> Beginning:
    """A trajectory that solves all steps over the prior, by least squares as in `emulate`."""
    gram, fit_key = as_gram(engine.gram), jr.fold_in(key, 0)
    factor = step_grams(problem.forward, penalty, Gram() if gram is None else gram)
    unit = median_unit(problem, factor)
    fitted, sums = trajectory_over_prior(problem, sizes_in_time(engine), penalty, fit_key)
    loose_key = jr.fold_in(key, 1)
    epsilon = as_schedule(engine.epsilon_rel).last * unit
    start = loose_trajectory(problem, penalty, fitted, sums, epsilon, loose_key)
    return Beginning(factor, unit, unit, start, learns_prior=False)


def sizes_in_time(engine: Relax) -> Emulate:
    """Of the least squares that a trajectory starts from."""
    return Emulate(
        num_patches=engine.num_patches,
        patch_nodes=engine.patch_nodes,
        coarse_patch_nodes=engine.coarse_patch_nodes,
        num_samples=engine.num_samples,
        width=engine.width,
        features=engine.features,
    )


def fit_relaxed(
    problem: InverseProblem,
    engine: Relax,
    penalty: AbstractPenalty | StepPenalty,
    *,
    seed: int,
    progress: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
    devices: Devices | None = None,
) -> Posterior:
    """The posterior with a penalty of any kind."""
    schedule = as_schedule(engine.epsilon_rel)
    check_problem(problem)
    network_key, prior_key, key, polish_key = jr.split(jr.key(seed), 4)
    if isinstance(penalty, StepPenalty):
        start = beginning_in_time(problem, engine, penalty, network_key)
    else:
        start = steady_beginning(problem, engine, penalty, network_key)
    factor, exact_unit, unit, surrogate, learns_prior = start
    prior = full_rank(problem.num_coordinates, problem.forward.dtype)
    pace = RelaxPace(
        *(engine.num_samples, engine.prior_steps, engine.steps),
        *(engine.learning_rate, engine.family_learning_rate),
    )
    watch = Watch(engine.block_steps, engine.patience, progress, checkpoint)
    state = init_state(surrogate, prior, pace)
    data = initial_data(
        problem, penalty, surrogate, prior, unit, schedule, engine.steps, engine.tail
    )
    if learns_prior:
        state, _ = train_stage(pace, state, prior_key, data, "prior", watch, on_prior=True)
    refreshed = partial(maximum_likelihood_epsilon, problem, factor, float(exact_unit))
    state, data, history = train_to_tail(schedule, state, key, data, refreshed, pace, watch)
    state, tail = train_stage(pace, state, jr.fold_in(key, 1), data, "tail", watch)
    curves = {name: np.concatenate([*history.get(name, ()), tail[name]]) for name in tail}
    # The mean of q's parameters since epsilon has its end value and the tail began.
    q = jax.tree.map(lambda total: total / len(tail["kl"]), state.tail_sum)
    scales = schedule.scales()
    states = RelaxedStates(exact_unit * scales.values, jnp.asarray(scales.log_weights), factor)
    end = None
    if engine.polishing_rounds:
        end = refine_gaussian(
            *(problem, states, q, polish_key),
            num_draws=engine.polishing_draws,
            rounds=engine.polishing_rounds,
            progress=progress,
            checkpoint=checkpoint,
            devices=devices,
        )
        q = end.family
    return Posterior(
        problem=problem,
        distribution=q,
        states=states,
        history={name: jnp.asarray(curve) for name, curve in curves.items()},
        engine=engine.name,
        seed=seed,
        notes=notes_on_fit(problem, scales, end),
    )


def notes_on_fit(
    problem: InverseProblem, scales: Scales, end: RefinedGaussian | None
) -> tuple[Note, ...]:
    """What a reader must know before trusting the posterior."""
    is_learned = len(scales.values) > 1
    if end is None:
        is_affine = len(affine_coordinates(problem)) == problem.num_coordinates
        if is_affine or (scales.values <= HARMLESS).all():
            return ()
        return (Note("no_polishing"),)
    notes = []
    if not end.is_settled:
        notes.append(Note("polishing_unsettled"))
    if is_learned:
        low, middle, high = np.interp((0.025, 0.5, 0.975), np.cumsum(end.scales), scales.values)
        notes.append(Note("epsilon_range", low=low, high=high, median=middle))
    return tuple(notes)
