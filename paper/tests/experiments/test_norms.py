"""Eigenvalues against the dual norm, by iteration and densely."""

import numpy as np
import pytest
import scipy.linalg

from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.weakform import diffusion
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.penalty.gram import dual_norm
from riesz_paper.experiments.norms.experiment import cut, extremes, norms, row, tapered_matrix
from riesz_paper.tapers.taper import HardTaper
from riesz_paper.tapers.tapered import taper_radius, tapered_norm


@pytest.fixture(scope="module")
def meshes():
    return hierarchy(rectangle((4, 4)), 3)


def test_extreme_eigenvalues_are_those_of_dense_algebra(meshes):
    problem = boundary_value_problem(P1(meshes.meshes[-1]), diffusion(1.0), {"boundary": 0.0})
    norm = tapered_norm(problem, HardTaper(taper_radius(problem, 20)))
    gram, form = dual_norm(problem).gram.to_scipy(), tapered_matrix(norm, problem)
    dense = scipy.linalg.eigh(form.toarray(), np.linalg.inv(gram.toarray()), eigvals_only=True)
    np.testing.assert_allclose(extremes(gram, form.dot), dense[[0, -1]], rtol=1e-2)
    told = row(meshes, "hard-taper", 20)
    assert told["negative_share"] == pytest.approx(np.mean(dense < 0))
    assert told["condition"] is None


@pytest.mark.parametrize(
    ("levels", "patch_nodes"), [(2, 16), pytest.param(3, 64, marks=pytest.mark.slow)]
)
def test_the_default_is_a_norm_equivalent_to_the_dual_norm(meshes, levels, patch_nodes):
    told = row(cut(meshes, levels), "schwarz", patch_nodes)
    assert told["lowest"] < 1 < told["highest"]
    assert told["condition"] == told["highest"] / told["lowest"] < 10
    assert told["negative_share"] == 0


def test_the_quick_run_is_the_smallest_square_with_every_estimator(meshes):
    tasks = norms(0, "quick").tasks
    assert {(t.identity["domain"], t.identity["nodes"]) for t in tasks} == {("square", 33**2)}
    assert {t.identity["estimator"] for t in tasks} == {
        *("schwarz", "block", "hard-taper", "wendland-taper")
    }
    assert len(cut(meshes, 2).prolongations) == 1
