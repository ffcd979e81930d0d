"""What goes wrong when problems are written is told in words."""

import inspect
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz as rz
from riesz.inference.fit import fit

MESH = rz.rectangle((2, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rz.SPDEField(rz.Matern32(0.3)), "the sd of a field is a Matern32.*for GP, LogGP"),
        (lambda: rz.SPDEField(1.0, mean=np.ones(9)), "mean of a field is a ndarray.*a function of"),
        (lambda: rz.GP(rz.Matern32(0.3), mean="a"), "mean of a field is a str"),
        (lambda: rz.SPDEField(1.0, mean=np.nan), "mean of a field is nan"),
    ],
)
def test_fields_made_of_the_wrong_things_are_refused(make, message):
    with pytest.raises(rz.RieszError, match=message):
        make()


def test_single_numbers_of_numpy_are_numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        field = rz.SPDEField(np.float64(1.0), np.array(0.3), mean=jnp.asarray(2.0))
        assert (field.sd, field.length_scale, field.mean) == (1.0, 0.3, 2.0)
        assert rz.KarhunenLoeve(rz.priors.Matern52(), 3, mean=np.float64(0.5)).mean == 0.5


def test_a_misspelt_name_is_told_the_nearest():
    with pytest.raises(AttributeError, match="no attribute 'difusion': did you mean 'diffusion'"):
        rz.difusion  # noqa: B018
    assert not hasattr(rz, "qqqq")


def test_a_problem_put_together_inside_jit_is_refused_with_advice():
    def solved(a):
        form = rz.diffusion(a) - rz.source(1.0)
        problem = rz.boundary_value_problem(rz.P1(MESH), form, {"boundary": 0.0})
        return rz.solve(problem).sum()

    with pytest.raises(rz.errors.FormError, match=r"inside jit: build it outside.*pass it as z"):
        jax.jit(solved)(1.0)


def test_help_shows_kinds_of_settings_and_editors_the_names_of_methods():
    shown = str(inspect.signature(rz.MCMC))
    assert "num_chains: int = 4" in shown
    assert "Validator" not in shown
    assert "'gaussian-vi'" in str(inspect.signature(fit).parameters["method"])
    assert "'marginal'" in str(inspect.signature(fit).parameters["density"])
