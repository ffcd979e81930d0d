"""Every test runs in float64 with shapes checked at run time."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")

from jaxtyping import install_import_hook

install_import_hook("riesz", "beartype.beartype")

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
