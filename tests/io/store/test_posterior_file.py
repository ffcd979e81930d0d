"""Posteriors survive the disk, and are refused where they do not belong."""

import dataclasses
import json
import shutil

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.linear_gaussian import exact_posterior, linear_problem

from riesz.density.relaxed.discrepancy import gram_factor
from riesz.density.relaxed.states import RelaxedStates
from riesz.density.surrogate.start import initial_surrogate
from riesz.errors import FileFormatError, RieszError
from riesz.fem.linear.linear_solve import Dense
from riesz.fem.terms.weakform import diffusion, reaction, source
from riesz.io.store.modules import from_plain, to_plain
from riesz.io.store.posterior import MANIFEST, load_posterior, save_posterior
from riesz.io.store.probe import agree, differing_parts, digest, probe, probe_tolerance
from riesz.mesh.shapes import rectangle
from riesz.notes import text_note
from riesz.observe.likelihood import Gaussian, StudentT
from riesz.observe.observations import observations
from riesz.penalty.gram import dual_norm
from riesz.posterior.checks import ImportanceCheck, SurrogateError
from riesz.posterior.family import EmpiricalDraws, MeanField, PriorUpdate
from riesz.posterior.posterior import ExactStates, Posterior, SurrogateStates
from riesz.prediction.predict import predict
from riesz.problem.posing import inverse_problem

NOISE = Gaussian(0.05)
STANDARD = MeanField(jnp.zeros(1), jnp.zeros(1))


def small_problem(
    *,
    num_cells=2,
    name="f",
    sd=1.0,
    values=(0.1, 0.2),
    diffusivity=1.0,
    rate=0.0,
    boundary="boundary",
    level=0.0,
    likelihood=NOISE,
):
    return inverse_problem(
        rectangle((num_cells, num_cells)),
        diffusion(diffusivity) + reaction(rate) - source(name),
        latents={name: dist.Normal(0.0, sd)},
        observations=observations([[0.3, 0.4], [0.7, 0.6]][: len(values)], list(values)),
        likelihood=likelihood,
        dirichlet={boundary: level},
    )


@pytest.fixture(scope="module")
def saved_once(tmp_path_factory):
    folder, problem = tmp_path_factory.mktemp("saved") / "run", small_problem()
    history = {"kl": jnp.arange(3.0)}
    notes = (text_note("so"),)
    posterior = Posterior(
        problem, STANDARD, ExactStates(Dense()), history, "gaussian-vi(surrogate)", 3, notes
    )
    save_posterior(folder, posterior)
    return folder, problem, posterior


@pytest.fixture
def saved(saved_once, tmp_path):
    """A folder that may be damaged, the problem and the posterior that was saved there."""
    folder, problem, posterior = saved_once
    shutil.copytree(folder, tmp_path / "run")
    return tmp_path / "run", problem, posterior


@pytest.fixture(scope="module")
def linear():
    return exact_posterior(ExactStates())


DISTRIBUTIONS = {
    "FullRank": lambda exact: exact,
    "PriorUpdate": lambda _: PriorUpdate(jnp.arange(3.0), jnp.eye(3)[:, :2], jnp.array([4.0, 0.5])),
    "EmpiricalDraws": lambda _: EmpiricalDraws(jr.normal(jr.key(0), (2, 5, 3))),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_reads_back_bit_by_bit(tmp_path, linear, name):
    distribution = DISTRIBUTIONS[name](linear.distribution)
    assert type(distribution).__name__ == name
    posterior = dataclasses.replace(linear, distribution=distribution)
    save_posterior(tmp_path, posterior)
    again = load_posterior(tmp_path, linear_problem())
    assert eqx.tree_equal(again, posterior)
    np.testing.assert_array_equal(again.sample(jr.key(1), 4), posterior.sample(jr.key(1), 4))
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".npz"]


@pytest.mark.slow
def test_states_under_a_relaxed_equation_read_back_and_predict_the_same(tmp_path):
    problem = small_problem(num_cells=3)
    states = RelaxedStates(
        jnp.array([0.2]), jnp.zeros(1), gram_factor(dual_norm(problem.forward).gram)
    )
    posterior = Posterior(problem, STANDARD, states, {}, "gaussian-vi(relaxed)", 0)
    save_posterior(tmp_path, posterior)
    again = load_posterior(tmp_path, small_problem(num_cells=3))
    assert eqx.tree_equal(again.states, states)
    found, wanted = (
        predict(p, "u", [[0.4, 0.6]], num_draws=4, exceed=(0.1,)) for p in (again, posterior)
    )
    assert wanted.sd.min() > 0
    np.testing.assert_array_equal(found.mean, wanted.mean)
    np.testing.assert_array_equal(found.exceedance[0.1], wanted.exceedance[0.1])


@pytest.mark.slow  # quickly: other families
def test_a_surrogate_reads_back_bit_by_bit(tmp_path):
    problem = small_problem()
    states = SurrogateStates(initial_surrogate(problem, jr.key(0), width=4, features=3))
    save_posterior(tmp_path, Posterior(problem, STANDARD, states))
    assert eqx.tree_equal(load_posterior(tmp_path, small_problem()).states, states)


def test_checks_read_back_bit_by_bit(tmp_path):
    """Where a single draw has all the weight, the shape of the tail is infinite."""
    third = np.array([1 / 3])
    nothing = [np.array([np.nan])] * 5
    check = ImportanceCheck(("f",), 1000, np.inf, 1.0, third, *nothing, is_applied=True)
    error = SurrogateError(third, 2 * third, 3 * third)
    posterior = Posterior(small_problem(), STANDARD, ExactStates(), check=check)
    for one in (posterior, dataclasses.replace(posterior, check=None, surrogate_error=error)):
        save_posterior(tmp_path, one, overwrite=True)
        found = load_posterior(tmp_path, one.problem)
        assert type(found.check) is type(one.check)
        assert str(found.check) == str(one.check)
        both = ((p.check, p.surrogate_error) for p in (found, one))
        jax.tree.map(np.testing.assert_array_equal, *both)


def test_saving_again_replaces_what_was_there_only_where_that_is_meant(saved):
    folder, problem, posterior = saved
    changed = dataclasses.replace(posterior, history={"kl": jnp.arange(5.0)})
    with pytest.raises(RieszError, match=r"holds a posterior already.*overwrite=True"):
        save_posterior(folder, changed)
    assert eqx.tree_equal(load_posterior(folder, problem), posterior)
    save_posterior(folder, changed, overwrite=True)
    assert len(list(folder.iterdir())) == 2
    assert eqx.tree_equal(load_posterior(folder, problem), changed)


@pytest.mark.parametrize(
    ("difference", "message"),
    [
        ({"num_cells": 3}, "differs in mesh "),
        ({"name": "g"}, r"unknowns \(saved: \['f'\]; given: \['g'\]\)"),
        ({"sd": 2.0}, r"differs in the prior of 'f' \(saved: Normal.*; given: Normal.*\): load"),
        ({"sd": 1.00001}, r"differs in the prior of 'f': load"),
        ({"values": (0.1,)}, r"number of observations \(saved: 2; given: 1\)"),
        ({"values": (0.1, 0.3)}, "differs in observations "),
        ({"diffusivity": 1.001}, "differs in the equation: load it with the problem that was"),
        ({"rate": 1e-3}, "differs in the equation: load"),
        ({"level": 1e-3}, "differs in the boundary values: load"),
        ({"boundary": "left"}, "differs in the boundary values: load"),
        ({"likelihood": Gaussian(0.0501)}, "differs in the noise: load"),
        ({"diffusivity": 2.0, "level": 1.0}, "differs in the equation, the boundary values: load"),
    ],
)
def test_another_problem_is_refused_by_what_differs(saved, difference, message):
    with pytest.raises(RieszError, match=message):
        load_posterior(saved[0], small_problem(**difference))


def test_the_shape_of_the_noise_tells_problems_apart(tmp_path):
    heavy, heavier = (small_problem(likelihood=StudentT(0.05, number)) for number in (4.0, 3.0))
    states = ExactStates(Dense())
    save_posterior(tmp_path, Posterior(heavy, STANDARD, states))
    assert load_posterior(tmp_path, heavy).problem is heavy
    with pytest.raises(RieszError, match="differs in the noise"):
        load_posterior(tmp_path, heavier)


def test_numbers_agree_up_to_the_rounding_of_their_precision():
    numbers = probe(small_problem())
    assert set(numbers) == {"the prior of 'f'", "the equation", "the boundary values", "the noise"}

    def changed(factor):
        return {
            part: [[number * factor for number in row] for row in rows]
            for part, rows in numbers.items()
        }

    double, single = probe_tolerance("float64", "float64"), probe_tolerance("float64", "float32")
    assert differing_parts(changed(1 + 1e-9), numbers, double) == []
    assert differing_parts(changed(1 + 1e-5), numbers, single) == []
    assert differing_parts(changed(1 + 1e-5), numbers, double) == ["the prior of 'f'"]
    assert differing_parts({**numbers, "the noise": "?"}, numbers, double) == ["the noise"]
    assert differing_parts(None, numbers, double) == ["the prior of 'f'"]


def test_a_part_that_is_not_finite_agrees_with_itself_only():
    assert digest(np.array([1.0, np.nan])) == [None, None, None]
    assert agree([[None, None, None]], [[None, None, None]], 1e-6)
    assert not agree([[1.0, 0.0, 0.0]], [[None, None, None]], 1e-6)


def test_notes_of_earlier_versions_are_read_as_text(saved):
    folder, problem, posterior = saved
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"notes": ["so"]}))
    assert load_posterior(folder, problem).notes == posterior.notes == (text_note("so"),)


def test_damage_is_told(saved):
    folder, problem, _ = saved
    manifest = json.loads((folder / MANIFEST).read_text())
    (archive,) = folder.glob("*.npz")

    def refused(content, message):
        (folder / MANIFEST).write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(FileFormatError, match=message):
            load_posterior(folder, problem)

    refused("{", "not a saved posterior")
    refused({"schema": 99}, "newer version of riesz .schema 99; this one reads 3")
    refused({"schema": 2}, "schema 3: fit again")
    refused({**manifest, "notes": None}, "notes missing or wrong")
    refused({**manifest, "notes": [3]}, "notes missing or wrong")
    refused({**manifest, "seed": "x"}, "seed missing or wrong")
    refused({**manifest, "arrays": "../other.npz"}, "outside of its folder")
    solver = manifest["states"]["fields"]["linear_solver"]
    refused({**manifest, "states": solver}, "parts are of wrong kinds")
    refused({**manifest, "check": solver}, "parts are of wrong kinds")
    refused({**manifest, "check": "good"}, "check missing or wrong")
    stranger = {"class": "Popen", "fields": {}}
    refused({**manifest, "states": stranger}, "nothing that was saved by this version")
    fewer = {"class": "MeanField", "fields": {"mean": 1.0}}
    refused({**manifest, "distribution": fewer}, "differ in log_sd: fit again")

    def edited(part, **fields):
        content = manifest[part]
        return {**manifest, part: {**content, "fields": {**content["fields"], **fields}}}

    other = manifest["history"]["dict"]["kl"]
    refused(edited("distribution", mean=other), "'history/kl'.* at distribution/mean is nothing")
    refused(edited("distribution", mean=1.0), "MeanField at distribution is damaged: mean of a wr")
    refused(edited("states", linear_solver="x"), "at states is damaged: linear_solver of a wrong")
    refused({**manifest, "history": {"dict": {"kl": 1.0}}}, "parts are of wrong kinds")
    archive.write_bytes(archive.read_bytes()[:-1])
    refused(manifest, "is damaged: its content is not what its name says")
    archive.unlink()
    refused(manifest, "cannot be read")


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(FileFormatError, match=r"^\S*posterior\.json cannot be read: No such"):
        load_posterior(tmp_path, small_problem())


def test_a_folder_may_be_a_text_but_not_a_file(saved, tmp_path):
    folder, problem, posterior = saved
    assert eqx.tree_equal(load_posterior(str(folder), problem), posterior)
    save_posterior(str(tmp_path / "again"), posterior)
    assert (tmp_path / "again" / MANIFEST).is_file()
    (tmp_path / "file").touch()
    with pytest.raises(RieszError, match=r"the folder .*file cannot be made: File exists"):
        save_posterior(tmp_path / "file", posterior)
    with pytest.raises(RieszError, match=r"posterior\.json cannot be read: Not a directory"):
        load_posterior(tmp_path / "file", problem)


def test_shapes_of_saved_fields_go_together():
    arrays = {"q/mean": np.zeros(2), "q/log_sd": np.zeros(3)}
    fields = {name: {"array": f"q/{name}", "device": True} for name in ("mean", "log_sd")}
    plain = {"class": "MeanField", "fields": fields}
    with pytest.raises(FileFormatError, match="log_sd of a wrong type or shape"):
        from_plain(plain, "q", arrays, {"MeanField": MeanField})


def test_what_is_not_in_the_table_cannot_be_saved(tmp_path):
    with pytest.raises(RieszError, match="a AffineStates at states cannot be saved: only Mean"):
        save_posterior(tmp_path / "other", exact_posterior())
    assert not (tmp_path / "other").exists()


def test_networks_are_saved_with_their_functions_by_name():
    network = eqx.nn.MLP(2, 1, 4, 1, jnp.tanh, key=jr.key(0))
    names = {
        "MLP": eqx.nn.MLP,
        "Linear": eqx.nn.Linear,
        "tanh": jnp.tanh,
        "identity": network.final_activation,
    }
    arrays = {}
    plain = json.loads(json.dumps(to_plain(network, "network", arrays, names)))
    again = from_plain(plain, "network", arrays, names)
    assert eqx.tree_equal(again, network)
    np.testing.assert_array_equal(again(jnp.ones(2)), network(jnp.ones(2)))
