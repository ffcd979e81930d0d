"""`--smoke`: every experiment at the smallest sizes that pass through all of its code, in seconds.

What its modules hold as constants (meshes, lengths of training and of chains) is replaced before an
experiment is built; how many methods and replicates there are, its own tables say under `smoke`.
Figures of such a run mean nothing. A process runs one experiment, so nothing is put back.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np


def shrink(name: str) -> None:
    """Make an experiment small, by the name it has on the command line, in this process."""
    SMALLER.get(name, lambda: None)()


def replace(module: ModuleType, **constants: Any) -> None:
    """Give constants of a module other values; one that is not there raises."""
    for name, value in constants.items():
        getattr(module, name)
        setattr(module, name, value)


def small_emulate(**settings: Any) -> Any:
    """The engine, trained too little to be right."""
    from riesz.density.engine import Engine
    from riesz.density.surrogate.surrogate import Surrogate
    from riesz.method.gaussian_vi import GaussianVI

    small = Surrogate(
        width=8, features=8, num_bends=4, patch_nodes=16, coarse_patch_nodes=9, num_samples=4,
        readout_batches=4, rounds=1, tries_states=False,
    )  # fmt: skip
    return Engine(GaussianVI(), small.with_settings(**settings))


def shrink_taper() -> None:
    from riesz_paper.experiments.taper import experiment

    replace(experiment, LEVELS=2, PATCH_NODES=16, EPSILONS=(0.1,))
    replace(experiment, RADII=(0.3, 1.5), SHOWN_RADII=(0.3,))


def shrink_norms() -> None:
    from riesz_paper.experiments.norms import experiment

    levels = {"square": (2,), "L-shape": (2,), "graded polygon": (2,)}
    replace(experiment, LEVELS=levels, TAPER_NODES=(8,), PATCH_NODES=16)


def shrink_transport() -> None:
    from riesz_paper.baselines.by_gradients import GradientSettings
    from riesz_paper.experiments.transport import data, experiment, methods

    replace(data, DATA_LEVELS={"square": 3, "disc": 2}, FINEST_LEVELS=2)
    replace(experiment, DENSE_LEVELS=2, TIMED_DENSE_LEVELS=2)
    settings = GradientSettings(
        width=8, features=8, num_bends=4, num_patches=2, num_samples=4, refining_draws=16,
        prior_steps=2, steps=2, block_steps=2,
    )  # fmt: skip
    paper = methods.PAPER.with_settings(width=8, features=8, steps=4, block_steps=2)
    replace(methods, ENGINE=small_emulate(), SETTINGS=settings, PAPER=paper)
    replace(methods, PINN_INSIDE=16, PINN_BOUNDARY=8, NUTS_LENGTH=(20, 20))


def shrink_amortised() -> None:
    from riesz.amortise.engine import Amortise
    from riesz_paper.experiments.amortised import experiment

    shrink_transport()
    engine = Amortise(
        width=8, features=8, patch_nodes=9, coarse_patch_nodes=9, readout_batches=4,
        encoder_width=8, encoder_layers=1, steps=5, block_steps=5, num_examples=50,
    )  # fmt: skip
    replace(experiment, LEVELS=2, ENGINE=engine)


def shrink_checkerboard() -> None:
    from riesz_paper.experiments.checkerboard import experiment, methods

    replace(experiment, LEVELS=3, FINER=1, REPLICATES=1, TUNING_SECONDS=0.01)
    replace(experiment, RATES=methods.RATES[:1])
    replace(methods, STEP_POINTS=16, DRAW_POINTS=32)


def shrink_field() -> None:
    from riesz_paper.experiments.field import experiment

    replace(experiment, ENGINE=small_emulate(), FINER=1)


def shrink_crossover() -> None:
    from riesz.density.reduced_basis import ReducedBasis
    from riesz_paper.experiments.crossover import experiment, problem

    densities = dict(experiment.DENSITIES, surrogate=small_emulate().density)
    densities["reduced-basis"] = ReducedBasis(num_snapshots=40)
    replace(experiment, DENSITIES=densities, REFERENCE_DRAWS=64, FEWEST_DRAWS=64)
    replace(problem, NUM_SENSORS=8)


def shrink_blocks() -> None:
    from riesz_paper.experiments.blocks import experiment

    small = small_emulate(num_samples=64, patch_nodes=64, coarse_patch_nodes=25)
    experiment.ENGINES["emulate"] = small


def shrink_hanford() -> None:
    from riesz_paper.experiments.hanford import fit

    replace(fit, MOST_ROUNDS=1)


def shrink_misspecified() -> None:
    from riesz_paper.experiments.misspecified import data, methods

    replace(data, LEVELS=2, DATA_LEVELS=3)
    sizes = {"width": 8, "features": 8, "prior_steps": 2, "steps": 2, "block_steps": 1}
    replace(methods, NETWORK=methods.NETWORK.with_settings(**sizes))
    replace(methods, ENGINE=small_emulate(num_samples=20), NUTS_LENGTH=(20, 20), NUM_WEIGHED=50)


def shrink_jura() -> None:
    from riesz_paper.baselines import random_forest
    from riesz_paper.baselines.kriging import multi_output
    from riesz_paper.baselines.vae.model import vae
    from riesz_paper.baselines.vae.physics import vae_dt, vae_nld
    from riesz_paper.baselines.vae.settings import MODERN, PAPER
    from riesz_paper.experiments.jura import cases, methods, select
    from riesz_paper.regression import gaussian, physical_field

    replace(cases, MAX_EDGE=1.0)
    replace(physical_field, NUM_MODES=20)
    replace(gaussian, NUM_TURNS=1)
    replace(multi_output, MAX_STEPS=2)
    replace(random_forest, NUM_TREES=10)
    replace(select, NUM_FOLDS=2, CANDIDATES=select.CANDIDATES[:1])
    for name, settings in (("", MODERN), ("-paper", PAPER)):
        short = dataclasses.replace(settings, num_steps=2, encoder=(8,), decoder=(8,))
        for kind, method in (("vae", vae), ("vae-dt", vae_dt), ("vae-nld", vae_nld)):
            rebuild(methods.BY_NAME, kind + name, methods.always(method(short)))


def rebuild(entries: dict[str, Any], name: str, build: Any) -> None:
    """A method of a table, made in another way."""
    entries[name] = dataclasses.replace(entries[name], build=build)


def shrink_aquifer() -> None:
    from riesz_paper.baselines.deep_gp import DEFAULT, deep_gp
    from riesz_paper.baselines.gp_physics.model import gp_d, gp_dt
    from riesz_paper.baselines.gp_physics.settings import PAPER
    from riesz_paper.baselines.gp_physics.spatial_network import spatial_network
    from riesz_paper.experiments.aquifer import data, experiment, methods, model, tables

    replace(data, NEAR_EDGE=40.0, MAX_EDGE=40.0, LEVELS=2)
    replace(model, PARTS=2, BOUNDARY_POINTS=6)
    replace(experiment, QUICK_SPLIT="A")
    replace(tables, NUM_RESAMPLES=100)
    short = dataclasses.replace(PAPER, num_epochs=2, cycle=2, num_inducing=4, patch_nodes=8)
    deep = deep_gp(dataclasses.replace(DEFAULT, num_inducing=4, num_steps=2))
    rebuild(methods.BY_NAME, "gp-d-paper", lambda plain: gp_d(data.meshes_of(plain), short))
    rebuild(methods.BY_NAME, "gp-dt-paper", lambda plain: gp_dt(data.meshes_of(plain), short))
    rebuild(methods.BY_NAME, methods.NETWORK, methods.always(spatial_network(short)))
    rebuild(methods.BY_NAME, "deep-gp", methods.always(deep))
    for name, structure in methods.STRUCTURES.items():
        points = min(structure.diffusivity_points, 2)
        methods.STRUCTURES[name] = dataclasses.replace(structure, diffusivity_points=points)
        rebuild(methods.BY_NAME, name, partial(methods.integrated, methods.STRUCTURES[name]))


def shrink_aquifer_time() -> None:
    """Every sixteenth well, with all of its readings: what rehearses and asks for wells is kept."""
    from riesz_paper.data import esrp
    from riesz_paper.experiments.aquifer_time import changes, experiment, methods, model, readings

    def few_wells(aquifer: esrp.Aquifer, name: str) -> tuple[esrp.Split, ...]:
        return tuple(few_of(part) for part in esrp.splits_of(aquifer, name))

    def few_of(part: esrp.Split) -> esrp.Split:
        training, test = (
            one.subset(np.arange(len(one)) % 16 == 0) for one in (part.training, part.test)
        )
        distances = part.hull_distance_km[::16]
        return dataclasses.replace(part, training=training, test=test, hull_distance_km=distances)

    shrink_aquifer()
    for module in (readings, methods, experiment):
        replace(module, splits_of=few_wells)
    few = changes.DIFFUSIVITIES[:2]
    replace(model, DIFFUSIVITIES=few)
    responses = partial(changes.responses_of, num_terms=3, diffusivities=few)
    replace(methods, responses_of=responses)


def shrink_agreement() -> None:
    from riesz_paper.experiments.agreement import experiment

    few: dict[str, Any] = {"num_warmup": 5, "num_samples": 5, "num_chains": 2, "num_draws": 10}
    replace(experiment, LEVELS=2, NUM_WELLS=20, REFERENCE_VALUES=5, DRAWS=5)
    replace(experiment, INDUCING={"source": 4, "boundary": 4, "diffusivity": 2})
    replace(experiment, EMULATE=small_emulate(num_samples=20))
    replace(experiment, CONDITIONAL=experiment.CONDITIONAL.with_settings(**few))


def shrink_blind() -> None:
    from riesz_paper.experiments.blind import experiment, judge, problem, share

    row_of = partial(judge.row_of, reference_seconds=2.0)
    replace(experiment, done_row=partial(share.done_row, judge=row_of))
    replace(judge, fitted=partial(judge.fitted, seconds=20.0), COVERAGE_DRAWS=32)
    replace(problem, NUM_PROBES=8)


def shrink_mesh_error() -> None:
    import riesz as rz
    from riesz_paper.experiments.mesh_error import experiment, problem

    fit = partial(rz.fit, method="laplace", check=False, progress=False)
    replace(experiment, fit=fit, NUM_DRAWS=32)
    replace(problem, LEVELS=1, EVERY_IN_TIME=2, PERIODS=3, TIMES=(2,), MOST_SENSORS=5)


SMALLER: Mapping[str, Callable[[], None]] = {
    "taper": shrink_taper,
    "norms": shrink_norms,
    "transport": shrink_transport,
    "amortised": shrink_amortised,
    "checkerboard": shrink_checkerboard,
    "field": shrink_field,
    "blocks": shrink_blocks,
    "crossover": shrink_crossover,
    "hanford": shrink_hanford,
    "misspecified": shrink_misspecified,
    "jura": shrink_jura,
    "aquifer": shrink_aquifer,
    "aquifer-time": shrink_aquifer_time,
    "agreement": shrink_agreement,
    "blind": shrink_blind,
    "mesh-error": shrink_mesh_error,
}
