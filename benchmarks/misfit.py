"""How often is a right model contradicted, and how often a wrong one, with the right word?

Linear problems, whose posteriors are known in closed form: a source, a field of some terms or one
number, and a boundary value. Data are of the model's own making, or of a truth that breaks it.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from bench import parser_of, save
from scipy.special import log_ndtr

import riesz as rz
from riesz.diagnose.criticism.findings import LEVELS, Misfit
from riesz.diagnose.criticism.predictive_checks import misfit_of
from riesz.posterior.family import EmpiricalDraws, full_rank_of
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.prediction.drawing import posterior_draws
from riesz.prediction.draws import NodalDraws, PosteriorDraws, exactly

SEED, COUNT, NUM_DRAWS, WIDTH = 0, 200, 400, 0.12
RIGHT = {"few": (12, 3, 0.2), "some": (40, 8, 0.05), "more": (60, 20, 0.1), "many": (150, 30, 0.05)}
"""Observations, terms of the source, and noise sd."""

LIMITED, LIMITED_KINDS, NUM_WEIGHED = 0.3, ("few", "some"), 20_000
"""The share of values that a limit hides, where, and draws that are weighed for it."""


class Linear:
    """A linear problem, and the posteriors of any data by formulas."""

    def __init__(self, count: int, terms: int, noise: float):
        self.noise, rng = noise, np.random.default_rng(SEED)
        self.places = rng.uniform(0.05, 0.95, (count, 2))
        source = rz.KarhunenLoeve(rz.Matern32(0.3, sd=10.0), num_terms=terms)
        self.problem = rz.inverse_problem(
            rz.rectangle((10, 10)),
            rz.diffusion(1.0) - rz.source("f"),
            latents={"f": source if terms > 1 else dist.Normal(5.0, 3.0), "edge": dist.Normal()},
            dirichlet={"boundary": "edge"},
            observations=rz.observations(self.places, np.zeros(count)),
            likelihood=rz.Gaussian(noise),
        )
        self.size = self.problem.num_coordinates
        ends = jnp.concatenate([jnp.zeros((1, self.size)), jnp.eye(self.size)])
        states = np.asarray(ExactStates().in_parts(self.problem, ends))
        seen = self.problem.operator.to_scipy() @ states.T
        self.matrix, self.origin = seen[:, 1:] - seen[:, :1], seen[:, 0]
        square = self.matrix.T @ self.matrix / noise**2
        self.covariance = np.linalg.inv(np.eye(self.size) + square)
        self.draws = posterior_draws(
            self.posterior(self.origin), num_draws=NUM_DRAWS, for_summary=True
        )
        self.functions = functions_of(self.problem.latents.latents["f"], terms)

    def draws_at(self, coordinates: np.ndarray) -> PosteriorDraws:
        """Those of a posterior, with the predictions and the field that belong to coordinates."""
        predicted = exactly(self.origin + coordinates @ self.matrix.T)
        unknowns = dict(self.draws.unknowns)
        if len(self.functions):
            nodal = coordinates[:, : len(self.functions)] @ self.functions
            unknowns["f"] = NodalDraws(exactly(nodal), False)
        observed = dataclasses.replace(self.draws.observed, predicted=predicted)
        return dataclasses.replace(self.draws, observed=observed, unknowns=unknowns)

    @property
    def level(self) -> np.ndarray:
        """The direction of all coordinates in which the field moves everywhere."""
        along = self.functions.mean(axis=1)
        return np.append(along / np.linalg.norm(along), np.zeros(self.size - len(along)))

    def posterior(self, values: np.ndarray) -> Posterior:
        mean = self.covariance @ self.matrix.T @ (values - self.origin) / self.noise**2
        observed = rz.observations(self.places, values)
        problem = dataclasses.replace(
            self.problem, observed=jnp.asarray(values), observations=observed
        )
        family = full_rank_of(jnp.asarray(mean), jnp.asarray(np.linalg.cholesky(self.covariance)))
        return Posterior(problem, family, ExactStates(), {}, "formula", 0)

    def data(self, rng: np.random.Generator, coordinates: np.ndarray | None = None) -> np.ndarray:
        own = rng.normal(size=self.size) if coordinates is None else coordinates
        return self.origin + self.matrix @ own + self.noise * rng.normal(size=len(self.places))

    def limited(self, values: np.ndarray, rng: np.random.Generator) -> tuple[Posterior, Any]:
        """The posterior where the lowest values are known to lie below a limit, and which do.

        Draws of that of all others, weighed by what the limits say.
        """
        limit = np.quantile(values, LIMITED)
        below = values < limit
        rows, gaps = self.matrix[~below], (values - self.origin)[~below]
        covariance = np.linalg.inv(np.eye(self.size) + rows.T @ rows / self.noise**2)
        mean = covariance @ rows.T @ gaps / self.noise**2
        many = rng.multivariate_normal(mean, covariance, NUM_WEIGHED)
        room = (limit - self.origin - many @ self.matrix.T)[:, below] / self.noise
        logs = log_ndtr(room).sum(axis=1)
        weights = np.exp(logs - logs.max())
        chosen = many[rng.choice(NUM_WEIGHED, NUM_DRAWS, p=weights / weights.sum())]
        problem = dataclasses.replace(
            self.problem,
            observed=jnp.asarray(np.maximum(values, limit)),
            likelihood=rz.Censored(self.noise, jnp.asarray(below)),
        )
        draws = EmpiricalDraws(jnp.asarray(chosen)[None])
        return Posterior(problem, draws, ExactStates(), {}, "weights", 0), below

    def misfit_of_limited(self, values: np.ndarray, seed: int, rng: np.random.Generator) -> Misfit:
        posterior, below = self.limited(values, rng)
        draws = self.draws_at(np.asarray(posterior.distribution.all()))
        shown = np.asarray(posterior.problem.observed)
        observed = dataclasses.replace(draws.observed, values=shown, censored=below)
        return misfit_of(posterior, dataclasses.replace(draws, observed=observed, seed=seed))

    def misfit(self, values: np.ndarray, seed: int, **about: Any) -> Misfit:
        posterior = self.posterior(values)
        key, _ = jr.split(jr.key(seed))
        draws = self.draws_at(np.asarray(posterior.sample(key, NUM_DRAWS)))
        observed = dataclasses.replace(draws.observed, values=values)
        draws = dataclasses.replace(draws, observed=observed, seed=seed)
        return misfit_of(posterior, draws, **about)


def functions_of(latent: Any, terms: int) -> np.ndarray:
    """What each coordinate of the source does at the nodes; nothing where it is one number."""
    if terms == 1:
        return np.zeros((0, 0))
    rows = jnp.concatenate([jnp.zeros((1, terms)), jnp.eye(terms)])
    nodal = latent.coefficient("f").field.nodal_draws(np.asarray(jax.vmap(latent.value)(rows)))
    return nodal[1:] - nodal[0]


def right(name: str, count: int, *, has_limits: bool = False) -> dict[str, Any]:
    """How often each word is said of data that the model itself made."""
    linear, told, any_told = Linear(*RIGHT[name]), Counter(), 0
    for number in range(count):
        rng = np.random.default_rng((SEED, *RIGHT[name][:2], number))
        values = linear.data(rng)
        if has_limits:
            found = linear.misfit_of_limited(values, number, rng)
        else:
            found = linear.misfit(values, number)
        told.update({one.kind for one in found.findings})
        any_told += bool(found.findings)
    shares = {kind: told[kind] / count for kind in LEVELS}
    what = f"right, {name}{', limits of detection' if has_limits else ''}"
    return row(what, linear, count, any_told / count) | shares


def row(what: str, linear: Linear, count: int, share: float) -> dict[str, Any]:
    return {
        "what": what,
        "observations": len(linear.places),
        "unknowns": linear.size,
        "data_sets": count,
        "told": share,
    }


def wrong(count: int) -> list[dict[str, Any]]:
    """How often each break is told by a word that points at it: one number for the source."""
    linear = Linear(40, 1, 0.05)
    squares = np.sum((linear.places - 0.7) ** 2, axis=1)
    bump = np.exp(-squares / (2 * WIDTH**2))
    near = set(np.flatnonzero(squares < (2 * WIDTH) ** 2).tolist())
    depth = np.random.default_rng(SEED).normal(size=len(linear.places))

    def at_the_source(found: Misfit) -> bool:
        kinds = ("region", "observation", "neighbours")
        return any(one.kind in kinds and near & set(one.places) for one in found.findings)

    def told(*kinds: str) -> Callable[[Misfit], bool]:
        return lambda found: any(one.kind in kinds for one in found.findings)

    def named(found: Misfit) -> bool:
        return any(one.kind == "prior" and one.names == ("edge",) for one in found.findings)

    noise, size = linear.noise, len(linear.places)
    breaks: dict[str, tuple[Callable[[np.random.Generator], np.ndarray], Any]] = {
        "a missing source, 4 noise sd high": (
            lambda rng: linear.data(rng) + 4 * noise * bump,
            at_the_source,
        ),
        "a covariate left out, 1 noise sd": (
            lambda rng: linear.data(rng) + noise * depth,
            told("covariate"),
        ),
        "a prior off by three sd": (lambda rng: linear.data(rng, np.array([0.0, 3.0])), named),
        "noise of Student-t, 2 degrees of freedom": (
            lambda rng: (
                linear.data(rng) + noise * (rng.standard_t(2, size) - rng.normal(size=size))
            ),
            told("tails", "observation"),
        ),
        "noise twice as large": (
            lambda rng: linear.data(rng) + np.sqrt(3) * noise * rng.normal(size=size),
            told("spread"),
        ),
    }
    rows = []
    for what, (values, points_at) in breaks.items():
        about = {"covariates": {"depth": depth}} if "covariate" in what else {}
        each = (
            linear.misfit(values(np.random.default_rng((SEED, number))), number, **about)
            for number in range(count)
        )
        rows.append(row(what, linear, count, float(np.mean([points_at(one) for one in each]))))
    return rows


def shifted(count: int) -> dict[str, Any]:
    """How often the prior of a field is named whose level is off by three sd."""
    linear, found = Linear(*RIGHT["some"]), []
    for number in range(count):
        rng = np.random.default_rng((SEED, number))
        values = linear.data(rng, rng.normal(size=linear.size) + 3 * linear.level)
        told = linear.misfit(values, number).findings
        found.append(any(one.kind == "prior" and one.names == ("f",) for one in told))
    return row("a field off by three sd of its level", linear, count, float(np.mean(found)))


SMOKE = {"COUNT": 2, "NUM_DRAWS": 40, "NUM_WEIGHED": 200, "LIMITED_KINDS": ("few",)}


def main() -> None:
    parser = parser_of(globals(), "results/bench-misfit.json")
    parser.add_argument("--count", type=int, default=COUNT, help="Data sets of each kind.")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = [
        *(right(name, options.count) for name in RIGHT),
        *(right(name, options.count, has_limits=True) for name in LIMITED_KINDS),
        *wrong(options.count),
        shifted(options.count),
    ]
    for one in rows:
        print(f"{one['what']:45s} {one['told']:.3f}")
    config = {"levels": LEVELS, "num_draws": NUM_DRAWS, "problems": RIGHT}
    worst = max(one["told"] for one in rows if one["what"].startswith("right"))
    summary = {"right_told_at_most": worst}
    save(options.out, config, SEED, rows, summary)


if __name__ == "__main__":
    main()
