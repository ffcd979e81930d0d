"""One mesh on several devices: parts of equal size, and the solution of one device."""

import numpy as np
import pytest
from tests.devices.test_devices import answer, started

import riesz as rz
import riesz_sharded
from riesz.errors import SolveError
from riesz_sharded.partition import bisect_points, plan_exchange, rounds, shares


@pytest.mark.slow
def test_four_devices_find_residual_and_solution():
    found = answer(started("mesh_parts.py", num_devices=4))
    assert found["residual"] < 1e-12
    assert found["linear system"] < 1e-9
    assert found["shared levels"] == 2


@pytest.mark.slow
def test_four_devices_are_as_good_as_one():
    found = answer(started("mesh_parts.py", "solve", num_devices=4))
    alone, together = found["iterations"]
    assert together <= alone
    for gap in ("beside one", "solution", "by solver"):
        assert found[gap] < 1e-9


@pytest.mark.parametrize("count", [1, 3, 8])
def test_parts_have_equal_sizes(count):
    owner = bisect_points(np.random.default_rng(0).uniform(size=(1000, 3)), count)
    sizes = np.bincount(owner, minlength=count)
    assert sizes.sum() == 1000
    assert np.ptp(sizes) <= np.ceil(np.log2(count)) + 1


def test_each_number_has_one_place_with_its_owner():
    held = shares(np.array([2, 0, 2, 1, 2]), 3)
    np.testing.assert_array_equal(held.order, [[1, 5, 5], [3, 5, 5], [0, 2, 4]])
    np.testing.assert_array_equal(held.order.ravel()[held.position], np.arange(5))


def test_no_device_sends_or_receives_twice_in_a_round():
    pairs = {(a, b): np.arange(1 + a + b) for a in range(5) for b in range(5) if a != b}
    made = rounds(pairs)
    assert sorted(pair for one in made for pair in one) == sorted(pairs)
    for one in made:
        senders, receivers = zip(*one, strict=True)
        assert len(set(senders)) == len(senders)
        assert len(set(receivers)) == len(receivers)


def test_a_device_receives_what_it_needs():
    held = shares(np.array([0, 0, 1, 1]), 2)
    plan, places = plan_exchange(held, [np.array([0, 3]), np.array([1, 2])])
    own = np.arange(4.0)[held.order]
    for device, numbers in ((0, [0, 1, 3]), (1, [1, 2, 3])):
        got = [own[a][table[a]] for table, ways in zip(plan.sent, plan.ways, strict=True)
               for a, b in ways if b == device]  # fmt: skip
        values = np.concatenate([own[device], *got])
        np.testing.assert_array_equal(values[places[device][numbers]], numbers)


def test_equations_with_transport_are_refused():
    form = rz.diffusion(1.0) + rz.advection([1.0, 0.0]) - rz.source(1.0)
    problem = rz.boundary_value_problem(rz.P1(rz.rectangle((2, 2))), form, {"boundary": 0.0})
    with pytest.raises(SolveError, match="transport"):
        riesz_sharded.sharded_multigrid(problem, 1)
