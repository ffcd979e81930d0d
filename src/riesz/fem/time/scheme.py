r"""How a step in time is taken: implicit stages, each a boundary-value problem of its own.

The storage term of a stage has $\alpha u - w$ in place of the time derivative, where $w$ combines
the two states before it. Implicit Euler has one stage, $\alpha = 1/h$ and $w = u_{n-1}/h$. SDIRK2,
which is L-stable and of second order (Alexander 1977), has two with one and the same $\alpha$, the
first of them a step of Euler's to the time $t_{n-1} + \gamma h$:

$$\alpha = \frac{1}{\gamma h},\qquad w_1 = \frac{u_{n-1}}{\gamma h},\qquad
  w_2 = \frac{(1 - \gamma)\,u_1 - (1 - 2\gamma)\,u_{n-1}}{\gamma^2 h},\qquad
  \gamma = 1 - \frac{1}{\sqrt 2}.$$

What drives the equation may jump from one step to the next: no step reads what was before it but
the state that it begins with.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float

from riesz.arrays import on_device
from riesz.fem.time.axis import TimeAxis

EULER, SDIRK2 = "euler", "sdirk2"

GAMMA = 1 - 1 / np.sqrt(2)


class Scheme(NamedTuple):
    """The stages of a step of length one; the last ends with it."""

    ends: tuple[float, ...]
    rate: float  # of all stages, so that they have one matrix
    last: tuple[float, ...]
    before: tuple[float, ...]
    shares: tuple[float, ...]  # in what flows during the step


SCHEMES = {
    EULER: Scheme((1.0,), 1.0, (1.0,), (0.0,), (1.0,)),
    SDIRK2: Scheme(
        ends=(GAMMA, 1.0),
        rate=1 / GAMMA,
        last=(1 / GAMMA, (1 - GAMMA) / GAMMA**2),
        before=(0.0, (2 * GAMMA - 1) / GAMMA**2),
        shares=(1 - GAMMA, GAMMA),
    ),
}


class Weights(eqx.Module):
    """Of a difference formula, stage by stage: `now` u_n minus `last` u_{n-1}, `before` u_{n-2}"""

    now: Float[Array, " *stage"]
    last: Float[Array, " *stage"]
    before: Float[Array, " *stage"]


def num_stages(scheme: str) -> int:
    """Of each step."""
    return len(SCHEMES[scheme].ends)


def stage_times(times: Float[Array, " time"] | Float[np.ndarray, " time"], scheme: str) -> Any:
    """When stages end, from the ends of steps, the beginning of the first step first.

    Of NumPy's numbers or on a device, as they are given.
    """
    where: Any = np if isinstance(times, np.ndarray) else jnp
    lengths = times[1:] - times[:-1]
    inner = [times[:-1] + end * lengths for end in SCHEMES[scheme].ends[:-1]]
    return where.append(times[:1], where.stack([*inner, times[1:]], axis=1))


def weights_of(axis: TimeAxis, scheme: str, dtype: DTypeLike) -> Weights:
    """Of all stages; steps of one kind have the same to the last digit, and so have their matrices.

    A solver that remembers matrices then knows them again.
    """
    _, first = np.unique(axis.kinds, return_index=True)
    rates = 1 / jnp.diff(on_device(axis.times, dtype))[first[np.array(axis.kinds)]]
    own = SCHEMES[scheme]
    parts = (own.rate + np.zeros(len(own.ends)), own.last, own.before)
    return Weights(*(jnp.outer(rates, on_device(np.array(part), dtype)).ravel() for part in parts))
