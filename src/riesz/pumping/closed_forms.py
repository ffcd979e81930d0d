r"""Drawdown about a well of no width in an endless aquifer, in closed form.

Theis (1935): $\frac{Q}{4\pi T} W(u)$, $u = r^2 S / 4 T t$, with the exponential integral
$W(u) = \int_u^\infty e^{-y}\,dy/y$. Hantush & Jacob (1955), where water comes through a leaky layer
of resistance $c$, have $W(u, r/\lambda) = \int_u^\infty e^{-y - r^2/4\lambda^2 y}\,dy/y$ in its
place, $\lambda^2 = T c$. In the well itself a skin factor $\sigma$ adds $\frac{Q}{2\pi T}\sigma$.
Rates that change are superposed, each change a well of its own.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np
from jaxtyping import Float
from numpy.polynomial.legendre import leggauss
from scipy.optimize import least_squares
from scipy.special import exp1

from riesz.pumping.well import Pumped, Readings

NUM_POINTS = 400
"""Of the quadrature over the logarithm of y, whose integrand is smooth."""

LARGEST = 100.0
"""Above this y the integrand is below 1e-43."""

TRIED = {
    "k": np.geomspace(1e-2, 1e4, 7),
    "Ss": np.geomspace(1e-7, 1e-2, 6),
    "c": (1e2, 1e4),
    "skin": (0.1, 10.0),
}
"""Where a search begins: m/d, 1/m, d, and the skin factor."""

NUM_SEARCHES, NUM_READINGS = 3, 200
"""From the best of these, and by so many readings evenly over time."""

Numbers = Float[np.ndarray, " *reading"]


def leaky_well_function(u: Numbers, ratio: Numbers) -> Numbers:
    """Hantush's W(u, r / lambda), by Gauss's rule over log y; zero from `LARGEST` on."""
    nodes, weights = leggauss(NUM_POINTS)
    low = np.log(np.minimum(u, LARGEST))
    half = (np.log(LARGEST) - low) / 2
    y = np.exp(low[..., None] + half[..., None] * (1 + nodes))
    return half * (np.exp(-y - ratio[..., None] ** 2 / (4 * y)) @ weights)


def superposed(
    well: Pumped, radius: Numbers, time: Numbers, values: Mapping[str, float]
) -> Numbers:
    """Drawdown about a well of no width, which stores no water, with `values` of its parameters."""
    transmissivity, storativity = (values[name] * well.thickness for name in ("k", "Ss"))
    total = np.zeros_like(time)
    for start, rate in well.changes():
        later = time > start
        r, t = radius[later], time[later] - start
        u = r**2 * storativity / (4 * transmissivity * t)
        if well.leaky:
            drawdown = leaky_well_function(u, r / np.sqrt(transmissivity * values["c"]))
        else:
            drawdown = exp1(u)
        if well.skin:
            drawdown = drawdown + 2 * values["skin"] * well.inside(r)
        total[later] += rate / (4 * np.pi * transmissivity) * drawdown
    return total


def closest(well: Pumped, seen: Readings) -> dict[str, float]:
    """Values of k, Ss, c and skin by least squares: a search that costs next to nothing."""
    names = [name for name in TRIED if name in well.parameters]
    some = np.argsort(seen.time, kind="stable")
    some = some[np.unique(np.linspace(0, len(some) - 1, NUM_READINGS).astype(int))]

    def rest(logs: Numbers) -> np.ndarray:
        values = dict(zip(names, np.exp(logs).tolist(), strict=True))
        return superposed(well, seen.radius[some], seen.time[some], values) - seen.level[some]

    starts = [np.log(one) for one in product(*(TRIED[name] for name in names))]
    starts.sort(key=lambda logs: float(np.sum(rest(logs) ** 2)))
    bounds = [np.log([1e-3 * min(TRIED[name]), 1e3 * max(TRIED[name])]) for name in names]
    found = [
        least_squares(rest, one, bounds=tuple(np.transpose(bounds)), x_scale="jac")
        for one in starts[:NUM_SEARCHES]
    ]
    best = min(found, key=lambda one: float(one.cost))
    return dict(zip(names, np.exp(best.x).tolist(), strict=True))
