"""Checkpoints on disk: the same again, or a clear word about what is wrong."""

import dataclasses
from hashlib import blake2b

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.io.store import checkpoint as checkpoint_file
from riesz.io.store.checkpoint import Checkpoint, read_checkpoint
from riesz.mesh.shapes import rectangle
from riesz.method.checkpoint import leaves_of, with_leaves
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.posterior.family import full_rank
from riesz.problem.posing import inverse_problem, with_observations

resource = pytest.importorskip("resource")  # not on Windows

SETTINGS = {"num_samples": 5, "dense_mass": True, "epsilon_rel": 0.1}
STATE = {
    "numbers": (jnp.arange(3.0), np.array([1, 2]), jnp.zeros((0, 2), bool)),
    "curves": [{"cost": 1 / 3, "steps": 7}],
    "best": np.asarray(np.inf),
    "family": full_rank(2, jnp.float64),
    "sums": None,
}


@pytest.fixture(scope="module")
def problem():
    return inverse_problem(
        rectangle((2, 2)),
        diffusion(1.0) - source("f"),
        latents={"f": dist.Normal(0.0, 1.0)},
        observations=observations([[0.3, 0.4], [0.7, 0.6]], [0.1, 0.2]),
        likelihood=Gaussian(0.05),
        dirichlet={"boundary": 0.0},
    )


def opened(path, problem, *, engine="mcmc", seed=3, told=None, **settings):
    checkpoint = Checkpoint(path, seconds=0, **({} if told is None else {"told": told}))
    checkpoint.begin(problem, engine, seed, SETTINGS | settings)
    return checkpoint


@pytest.fixture(scope="module")
def content(problem, tmp_path_factory):
    """A good checkpoint."""
    path = tmp_path_factory.mktemp("good") / "checkpoint"
    opened(path, problem).keep("chain 0", STATE)
    return path.read_bytes()


@pytest.fixture
def path(content, tmp_path):
    (tmp_path / "checkpoint").write_bytes(content)
    return tmp_path / "checkpoint"


def same(a, b):
    return jax.tree.structure(a) == jax.tree.structure(b) and all(
        type(x) is type(y) and np.array_equal(x, y)
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def test_a_state_comes_back_as_it_was(problem, path):
    again = opened(path, problem)
    assert same(again.restore("chain 0"), STATE)
    assert again.restore("chain 1") is None
    again.keep("chain 1", {"done": 2})
    third = opened(path, problem)
    assert same(third.restore("chain 0"), STATE)  # also where it was not kept anew
    assert third.restore("chain 1") == {"done": 2}
    assert third.spent > again.spent > 0
    assert [p.name for p in path.parent.iterdir()] == ["checkpoint"]


def test_states_are_written_when_it_is_time_and_at_the_end(problem, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoint_file.time, "monotonic", lambda: now[0])
    checkpoint = Checkpoint(tmp_path / "new" / "checkpoint", seconds=10)
    checkpoint.begin(problem, "mcmc", 0, {})
    for now[0], stored in ((9.0, None), (10.0, 10.0), (19.0, 10.0), (20.0, 20.0), (21.0, 20.0)):
        checkpoint.keep("mode", {"at": now[0]})
        assert at(checkpoint.path) == stored
    checkpoint.flush()
    assert at(checkpoint.path) == 21.0


def at(path):
    return read_checkpoint(path)[0]["stages"]["mode"]["dict"]["at"] if path.exists() else None


def test_keys_of_random_numbers_are_arrays_like_others():
    state = (jr.key(4), jnp.ones(2), "still")
    again = with_leaves((jr.key(0), jnp.zeros(2), "still"), leaves_of(state))
    assert jr.normal(again[0]) == jr.normal(jr.key(4))
    np.testing.assert_array_equal(again[1], state[1])
    assert again[2] == "still"
    with pytest.raises(RieszError, match="arrays have other sizes than this version's"):
        with_leaves((jr.key(0), jnp.zeros(3), "still"), leaves_of(state))


def test_a_checkpoint_cut_short_anywhere_is_refused(problem, content, tmp_path):
    for length in (0, 1, 30, 60, len(content) // 2, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(RieszError, match=r"damaged.*remove it to start from the beginning"):
            opened(tmp_path / "cut", problem)


def test_a_single_changed_byte_is_found(problem, content, tmp_path):
    for place in [*range(60), *range(60, len(content), 97)]:
        edited = bytearray(content)
        edited[place] ^= 1
        (tmp_path / "edited").write_bytes(edited)
        with pytest.raises(RieszError, match=r"damaged|newer version"):
            read_checkpoint(tmp_path / "edited")


def test_a_file_with_other_content_under_a_right_digest_is_refused(problem, path):
    rest = b"{}\n"
    digest = blake2b(rest, digest_size=16).hexdigest()
    path.write_bytes(f"riesz checkpoint 1 {digest}\n".encode() + rest)
    with pytest.raises(RieszError, match="is not a checkpoint of this version"):
        opened(path, problem)


def test_what_a_killed_process_was_writing_is_never_read_and_removed(problem, path, content):
    (path.parent / f".{path.name}.1234.partial").write_bytes(content[:300])
    assert same(opened(path, problem).restore("chain 0"), STATE)
    assert [p.name for p in path.parent.iterdir()] == ["checkpoint"]


def test_a_newer_format_is_named(problem, content, path):
    path.write_bytes(content.replace(b"checkpoint 1 ", b"checkpoint 12 ", 1))
    with pytest.raises(RieszError, match=r"newer version of riesz \(format 12; this one reads up"):
        opened(path, problem)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, r"differs in seed \(saved: 3; given: 4\): go on with what it was begun"),
        ({"engine": "laplace"}, r"differs in engine \(saved: mcmc; given: laplace\):"),
        ({"num_samples": 6}, r"differs in setting num_samples \(saved: 5; given: 6\)"),
        ({"more": True}, r"setting more \(saved: None; given: True\)"),
    ],
)
def test_another_fit_of_the_same_problem_is_told(problem, path, change, message):
    with pytest.raises(RieszError, match=message):
        opened(path, problem, **change)


def test_another_problem_is_told(problem, path):
    other = with_observations(
        problem, observations(problem.observations.points, [0.1, 0.3]), problem.likelihood
    )
    with pytest.raises(RieszError, match=r"is of another fit, which differs in observations \("):
        opened(path, other)
    noisier = dataclasses.replace(problem, likelihood=Gaussian(0.06))
    with pytest.raises(RieszError, match="differs in the noise: go on"):
        opened(path, noisier)


def test_another_version_is_refused_and_other_libraries_are_noted(problem, path, monkeypatch):
    found = checkpoint_file.versions()
    monkeypatch.setattr(checkpoint_file, "versions", lambda: found | {"jax": "9.9"})
    with pytest.warns(UserWarning, match=r"goes on with 9\.9: numbers may differ"):
        opened(path, problem)
    monkeypatch.setattr(checkpoint_file, "versions", lambda: found | {"riesz": "9.9"})
    with pytest.raises(RieszError, match=r"version of riesz \(saved: .*; given: 9\.9\)"):
        opened(path, problem)


def test_a_full_disk_is_told_once_and_the_last_good_checkpoint_stays(problem, path, content):
    told = []
    checkpoint = opened(path, problem, told=told.append)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        checkpoint.keep("chain 1", {"done": 1})
        checkpoint.keep("chain 1", {"done": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (message,) = told
    assert message.startswith(f"no checkpoint: {path} cannot be written: File too large; the fit")
    assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["checkpoint"]
    checkpoint.flush()
    assert opened(path, problem).restore("chain 1") == {"done": 2}


def test_a_folder_that_cannot_be_made_is_told(problem, tmp_path):
    (tmp_path / "file").touch()
    checkpoint = Checkpoint(tmp_path / "file" / "checkpoint", seconds=0)
    checkpoint.begin(problem, "mcmc", 0, {})
    with pytest.warns(UserWarning, match=r"no checkpoint: .*(File exists|Not a directory)"):
        checkpoint.keep("mode", {"done": 1})


def test_a_checkpoint_must_know_its_fit(problem, tmp_path):
    with pytest.raises(RieszError, match=r"give it to rz\.fit\(problem, engine, checkpoint=\.\.\."):
        Checkpoint(tmp_path / "checkpoint").restore("mode")


def test_an_object_that_served_another_fit_has_forgotten_it(problem, tmp_path):
    """Else a fit with another seed would go on from states that are not its own."""
    checkpoint = opened(tmp_path / "checkpoint", problem)
    checkpoint.keep("chain 0", STATE)
    checkpoint.path.unlink()
    checkpoint.begin(problem, "mcmc", 4, SETTINGS)
    assert checkpoint.restore("chain 0") is None
