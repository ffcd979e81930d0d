"""New measurements at other places, from draws: the state, what shifts it, and noise."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from riesz.mesh.location import Location
from riesz.observe.sites import ErrorsGiven
from riesz.prediction.draws import AtPlaces, PosteriorDraws
from riesz.problem.unknowns import MEASUREMENT, STATE, VALUE

Probabilities = Float[np.ndarray, "draw #place"]


@dataclass(frozen=True, eq=False)
class NewPoints:
    """Places, some of which are asked for at a time; without `where` the nodes of the mesh.

    `design` holds covariates there, `given` the states, where they are of another date. What is
    open at a place beside the draw is told by its probability: what neighbours share, `local`, and
    `noise`. Readings of one site share their errors: `site` is its number, `when` the time.
    """

    draws: PosteriorDraws
    points: Float[np.ndarray, "place dim"]
    where: Location | None
    design: Float[np.ndarray, "place effect"] | None
    local: Probabilities
    noise: Probabilities
    given: AtPlaces | None = None
    site: Int[np.ndarray, " place"] | None = None
    when: Float[np.ndarray, " place"] | None = None
    errors: ErrorsGiven | None = None  # that readings of the sites share

    def locate(self, part: slice) -> Location | None:
        where = self.where
        if where is None:
            return None
        return Location(where.cell[part], where.barycentric[part], where.inside[part])

    def states(self, part: slice) -> AtPlaces:
        if self.given is not None:
            return self.given[:, part]
        draws, here = self.draws, self.locate(part)
        states = draws.state.at(draws.mesh, here)
        return states[:, part] if here is None else states

    def predictor(self, part: slice) -> AtPlaces:
        """The state with all that shifts it for measurements."""
        design = None if self.design is None else self.design[part]
        shifts, own = self.draws.shifts, of_part(self.local, part)
        return shifts.predictor(self.states(part), self.points[part], design, own)

    def location(self, part: slice) -> AtPlaces:
        """What new measurements scatter about, in their unit."""
        return self.draws.shifts.location(self.predictor(part))

    def new_measurements(self, part: slice) -> AtPlaces:
        """New measurements, noise included."""
        shifts, shared = self.draws.shifts, None
        if self.site is not None and self.errors is not None:
            when = None if self.when is None else self.when[part]
            shared = self.errors.at(self.site[part], when)
        return shifts.new_measurements(self.predictor(part), of_part(self.noise, part), shared)

    def values(self, name: str, part: slice) -> Float[np.ndarray, "draw place *components"]:
        """Of an unknown, the state, or new measurements with noise or, as "value", without."""
        if name in self.draws.names:
            return self.unknown(name, part)
        kinds = {STATE: self.states, VALUE: self.location, MEASUREMENT: self.new_measurements}
        return kinds[name](part)

    def unknown(self, name: str, part: slice) -> Float[np.ndarray, "draw place *components"]:
        here = self.locate(part)
        values = self.draws.unknown_at(name, self.points[part], here)
        return values[:, part] if here is None else values


def of_part(probability: Probabilities, part: slice) -> Probabilities:
    return probability if probability.shape[1] == 1 else probability[:, part]


def new_points(
    draws: PosteriorDraws,
    points: Float[np.ndarray, "place dim"],
    where: Location | None,
    design: Float[np.ndarray, "place effect"] | None = None,
    *,
    given: AtPlaces | None = None,
    seed: int = 0,
    together: bool = True,
    site: Int[np.ndarray, " place"] | None = None,
    when: Float[np.ndarray, " #place"] | None = None,
) -> NewPoints:
    """Where places are looked at one by one, what is open is the same quantile at all of them, so
    that maps are smooth; where draws are, not `together`, each place has its own.

    Without sites, places are of new ones.
    """
    rng, shape = np.random.default_rng(seed), (draws.num_draws, len(points))
    if together:
        # One for each draw, evenly spread, in random order: what they make has the right width.
        orders = (rng.permutation(draws.num_draws) for _ in range(2))
        local, noise = (((order + 0.5) / draws.num_draws)[:, None] for order in orders)
    else:
        local, noise = rng.uniform(size=(2, *shape))
    when = None if when is None else np.broadcast_to(when, len(points))
    errors = None if site is None else draws.shifts.errors
    return NewPoints(draws, points, where, design, local, noise, given, site, when, errors)
