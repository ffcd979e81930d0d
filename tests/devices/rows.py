"""Small rows of work, as a process of its own: JAX counts its devices when it starts.

Prints what five rows, which no number of devices divides, come to with so many of them. With an
address and a number it is one of two processes, of which the second is killed in the midst.
"""

import json
import os
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from riesz.devices import devices_of, join_processes, over_rows, sum_over_rows
from riesz.errors import LostProcessError


def doubled(factor, rows):
    return factor * rows


def total(rows, counted):
    return jnp.sum(rows if counted is None else jnp.where(counted, rows, 0.0))[None]


def by_devices(count: int) -> list[float]:
    devices, rows = devices_of(count), jnp.arange(5.0)
    each = over_rows(doubled, (jnp.asarray(2.0),), rows, devices)
    return np.concatenate([each, sum_over_rows(total, (), rows, devices)]).tolist()


def until_one_dies() -> None:
    try:
        for step in range(100):
            if step == 3 and jax.process_index() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            by_devices(1)
            time.sleep(0.1)
    except LostProcessError as error:
        sys.stdout.write(f"{error}\n")
        sys.stdout.flush()
        os._exit(1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        join_processes(sys.argv[1], 2, int(sys.argv[2]))
        until_one_dies()
    sys.stdout.write(json.dumps([by_devices(count) for count in (1, 2, 8)]))
