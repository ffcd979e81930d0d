"""Two engines on one made-up aquifer: what is compared, and that they agree."""

import pytest

from riesz_paper.data.synthetic import aquifer_wells
from riesz_paper.experiments.agreement.experiment import (
    KM,
    NUM_WELLS,
    agreement,
    data_problem,
    meshes,
    row,
)


def test_tasks_are_both_kinds_of_diffusivity_and_all_data_sets():
    tasks = [task.identity for task in agreement(0, "full").tasks]
    assert [task["diffusivity"] for task in tasks] == [*["constant"] * 3, "log-gp"]
    assert [task["replicate"] for task in tasks] == [0, 1, 2, 0]


@pytest.mark.parametrize("seed", range(4))
def test_the_plain_may_be_simplified_wherever_wells_are(seed):
    found = meshes(aquifer_wells(NUM_WELLS, seed) / KM)
    assert len(found.meshes) == 3
    assert found.meshes[-1].num_nodes > 1000


@pytest.mark.slow
def test_data_are_fixed_by_seed_and_replicate():
    one, same, other = (data_problem("constant", 3, k).observed for k in (1, 1, 2))
    assert len(one) == NUM_WELLS
    assert (one == same).all()
    assert (one != other).any()


@pytest.mark.slow
def test_emulate_agrees_with_what_is_exact():
    found = row("constant", 0, 0)
    assert found["field_mean_error_sd"] < 0.1
    assert 0.9 < found["field_sd_ratio"] < 1.1
