r"""Drawdown about a well of no width in an endless aquifer, in closed form.

Theis (1935): $\frac{Q}{4\pi T} W(u)$, $u = r^2 S / 4 T t$, with the exponential integral
$W(u) = \int_u^\infty e^{-y}\,dy/y$. Hantush & Jacob (1955), where water comes through a leaky layer
of resistance $c$, have $W(u, r/\lambda) = \int_u^\infty e^{-y - r^2/4\lambda^2 y}\,dy/y$ in its
place, $\lambda^2 = T c$.
"""

import numpy as np
from jaxtyping import Float
from numpy.polynomial.legendre import leggauss
from scipy.special import exp1

NUM_POINTS = 400
"""Of the quadrature over the logarithm of y, whose integrand is smooth."""

LARGEST = 100.0
"""Above this y the integrand is below 1e-43."""

Numbers = Float[np.ndarray, " *reading"]


def theis(
    radius: Numbers, time: Numbers, *, rate: float, transmissivity: float, storativity: float
) -> Numbers:
    """Drawdown in a confined aquifer."""
    u = radius**2 * storativity / (4 * transmissivity * time)
    return rate / (4 * np.pi * transmissivity) * exp1(u)


def hantush(
    radius: Numbers,
    time: Numbers,
    *,
    rate: float,
    transmissivity: float,
    storativity: float,
    resistance: float,
) -> Numbers:
    """Drawdown in an aquifer under a leaky layer without storage."""
    u = radius**2 * storativity / (4 * transmissivity * time)
    ratio = radius / np.sqrt(transmissivity * resistance)
    return rate / (4 * np.pi * transmissivity) * leaky_well_function(u, ratio)


def leaky_well_function(u: Numbers, ratio: Numbers) -> Numbers:
    """Hantush's W(u, r / lambda), by Gauss's rule over log y; zero from `LARGEST` on."""
    nodes, weights = leggauss(NUM_POINTS)
    low = np.log(np.minimum(u, LARGEST))
    half = (np.log(LARGEST) - low) / 2
    y = np.exp(low[..., None] + half[..., None] * (1 + nodes))
    return half * (np.exp(-y - ratio[..., None] ** 2 / (4 * y)) @ weights)
