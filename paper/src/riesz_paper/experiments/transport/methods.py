"""The methods that the transport experiment compares, each from a problem to a posterior."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from riesz.density.engine import Engine
from riesz.density.exact import Exact, ExactDensity
from riesz.density.surrogate.surrogate import Surrogate
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Dense, SparseLU
from riesz.io.store.results import Row
from riesz.method.base import Work
from riesz.method.gaussian_vi import GaussianVI
from riesz.method.mcmc.mcmc import MCMC
from riesz.method.mcmc.nuts import NutsSettings, all_chains
from riesz.penalty.penalty import WeakFormPenalty, weak_form_penalty
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem
from riesz_paper.baselines.by_gradients import GradientSettings, emulate_by_gradients
from riesz_paper.baselines.joint_training import JointTraining, train_jointly
from riesz_paper.baselines.strong_form.pinn import pinn
from riesz_paper.experiments.transport.data import Case, posed
from riesz_paper.tapers.taper import HardTaper
from riesz_paper.tapers.tapered import taper_radius, tapered_norm

ENGINE = Engine(GaussianVI(), Surrogate())
SETTINGS = GradientSettings()
PAPER = JointTraining(
    prior_steps=0,
    steps=10_000,
    tail=0.0,
    block_steps=1000,
    learning_rate=1e-3,
    family_learning_rate=1e-3,
)
"""The paper's training, as far as it is told; our learning rate decays to zero."""
TAPER_NODES = (32, 64, 128)
PINN_INSIDE, PINN_BOUNDARY = 512, 128  # points in a step
PINN_BOUNDARY_WEIGHT = 1000.0
"""The paper's one leaves the boundary values free, the state being so small: 5 sd on 17^2 nodes."""

NUTS_LENGTHS = {7: (40, 60)}
"""Warm-up and draws on the largest mesh, where a gradient takes a second."""
NUTS_LENGTH = (100, 400)
EFFECTIVE = 400
"""Effective draws to which the cost of a sampler is scaled."""

Method = Callable[[InverseProblem, int], Posterior]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Timed:
    """How long something took: on the clock, and of all processors together."""

    seconds: float
    cpu_seconds: float


def timed(run: Callable[[], Result]) -> tuple[Result, Timed]:
    clock, cpu = perf_counter(), process_time()
    result = run()
    return result, Timed(perf_counter() - clock, process_time() - cpu)


def hard_taper_penalty(problem: InverseProblem, nodes: int, num_patches: int) -> WeakFormPenalty:
    """The paper's mini-patches with so many nodes on average, weighted by the number of nodes."""
    taper = HardTaper(taper_radius(problem.forward, nodes))
    norm = tapered_norm(problem.forward, taper)
    return weak_form_penalty(problem.forward, norm=norm, num_patches=num_patches)


def emulate_tapered(nodes: int, problem: InverseProblem, seed: int) -> Posterior:
    penalty = hard_taper_penalty(problem, nodes, SETTINGS.num_patches)
    return emulate_by_gradients(problem, penalty, seed=seed, settings=SETTINGS)


def relax_tapered(nodes: int, problem: InverseProblem, seed: int) -> Posterior:
    """The paper's protocol: everything trained together, one tapered patch in a step."""
    penalty = hard_taper_penalty(problem, nodes, num_patches=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an indefinite norm: that is what is shown
        return train_jointly(problem, PAPER, penalty, seed=seed)


def by_emulate(problem: InverseProblem, seed: int) -> Posterior:
    return ENGINE.run(problem, seed=seed)


def by_pinn(problem: InverseProblem, seed: int) -> Posterior:
    return pinn(
        problem,
        seed=seed,
        settings=SETTINGS,
        num_inside=PINN_INSIDE,
        num_boundary=PINN_BOUNDARY,
        boundary_weight=PINN_BOUNDARY_WEIGHT,
    )


def trained_method(name: str) -> Method:
    """A method that trains a surrogate, by its name in the rows."""
    base, _, nodes = name.rpartition("-")
    match base:
        case "emulate-hard-taper":
            return lambda problem, seed: emulate_tapered(int(nodes), problem, seed)
        case "relax-hard-taper":
            return lambda problem, seed: relax_tapered(int(nodes), problem, seed)
    return {"emulate": by_emulate, "pinn": by_pinn}[name]


@dataclass
class Compiled:
    """What was run once already, so that the next run is not held up by compilation.

    The first run of a method on a mesh is thrown away; what it took longer is told apart.
    """

    extra: dict[tuple[str, str, int], Timed]

    def timed(
        self, key: tuple[str, str, int], run: Callable[[], Result], warm_up: Callable[[], Any]
    ) -> tuple[Result, Timed, Timed]:
        """The result, what it took, and what compilation took before."""
        first = None if key in self.extra else timed(warm_up)[1]
        result, taken = timed(run)
        if first is not None:
            whole = warm_up is run
            self.extra[key] = Timed(
                first.seconds - whole * taken.seconds,
                first.cpu_seconds - whole * taken.cpu_seconds,
            )
        return result, taken, self.extra[key]


def trained(method: str, case: Case, compiled: Compiled) -> tuple[Posterior, Timed, Timed]:
    problem, _ = posed(case)
    fit, seed = trained_method(method), case.fit_seed()

    def run() -> Posterior:
        return jax.block_until_ready(fit(problem, seed))

    return compiled.timed((method, case.domain, case.levels), run, run)


def sampled_by_nuts(
    method: str, case: Case, num_chains: int, compiled: Compiled
) -> tuple[Posterior, Timed, Timed, Row]:
    """The posterior, what it took, compilation apart, and what it would take for enough draws."""
    problem, _ = posed(case)
    solver: AbstractLinearSolver = Dense() if method == "nuts-dense" else SparseLU()
    num_warmup, num_draws = NUTS_LENGTHS.get(case.levels, NUTS_LENGTH)
    settings = NutsSettings(num_warmup, 0.8, True, 10, adapt_mass=True)
    start = jax.numpy.zeros((1, problem.num_coordinates))

    def warm_up():
        density = ExactDensity(problem, solver)
        return all_chains(density, settings, jr.key(0), start, None, 1 - num_warmup, Work())

    def run() -> Posterior:
        method = MCMC(
            kernel="nuts", num_warmup=num_warmup, num_samples=num_draws, num_chains=num_chains
        )
        engine = Engine(method, Exact(linear_solver=solver))
        return engine.run(problem, seed=case.fit_seed())

    key = (method, case.domain, case.levels)
    posterior, taken, before = compiled.timed(key, run, warm_up)
    return posterior, taken, before, scaled_cost(posterior.history, taken)


def scaled_cost(history: Mapping[str, Any], taken: Timed) -> Row:
    """The cost of as many effective draws as are usually wanted, warm-up counted once."""
    gradients = int(history["num_gradients"])
    kept = int(np.sum(history["num_steps"]))
    effective = float(np.min(history["effective_draws"]))
    share = (gradients - kept + kept * EFFECTIVE / effective) / gradients
    return {
        "num_gradients": gradients,
        "effective_draws": effective,
        f"cpu_seconds_ess{EFFECTIVE}": share * taken.cpu_seconds,
    }


@eqx.filter_jit
def density_and_slope(
    problem: InverseProblem, coordinates: Float[Array, " n"], solver: AbstractLinearSolver
) -> tuple[Float[Array, ""], Float[Array, " n"]]:
    return jax.value_and_grad(ExactDensity(problem, solver))(coordinates)


def gradient_cost(case: Case, solver: AbstractLinearSolver) -> Timed:
    """What one gradient of the log-posterior takes, compiled."""
    problem, _ = posed(case)

    def run():
        # Another place than the last one: a solver may remember its factors.
        nonlocal place
        place = place + 0.01
        return jax.block_until_ready(density_and_slope(problem, place, solver))

    place = jax.numpy.zeros(problem.num_coordinates)
    run()
    return timed(run)[1]


def num_gradients(case: Case) -> int:
    """Gradients that NUTS takes for the same data on a coarse mesh: meshes hardly matter for it."""
    coarse = dataclasses.replace(case, levels=3)
    *_, extra = sampled_by_nuts("nuts-sparse", coarse, 2, Compiled({}))
    return extra["num_gradients"]
