"""The questions of the experiment `jura`: which metal, from what, and split how."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from jaxtyping import Bool, Float

from riesz.datasets.jura import CATEGORIES, SECONDARIES, JuraSamples, jura_grid
from riesz.errors import RieszError, any_of, nearest
from riesz.mesh.mesh import Mesh
from riesz.mesher.polygon import mesh_from_points
from riesz_paper.regression.covariates import Covariates, check_varies
from riesz_paper.regression.physical_field import Modes, modes_of

VALIDATION = "validation"
RESPLIT = "resplit-"
FEWEST = 10  # samples to train on, and to score
EXTENT = 6.0  # of the built-in samples' region, in km
MAX_EDGE, MARGIN, GAP = 0.25, 0.1, 0.5  # of the mesh around them, in km
MANY_SECONDARIES = ("Pb", "Ni", "Zn")
"""Those of cadmium; for copper in the literature before the paper."""


@dataclass(frozen=True)
class Case:
    """A metal, and what it is predicted from besides its place."""

    metal: str
    secondaries: tuple[str, ...]
    categories: bool = False

    @property
    def inputs(self) -> str:
        return ", ".join((*self.secondaries, *(CATEGORIES if self.categories else ())))

    def covariates(self, samples: JuraSamples) -> Covariates:
        values = samples.of(self.secondaries)
        return Covariates(
            samples.points,
            dict(zip(self.secondaries, values.T, strict=True)),
            {name: samples.categories[name] for name in CATEGORIES} if self.categories else {},
        )

    def target(self, samples: JuraSamples) -> Float[np.ndarray, " sample"]:
        return samples.of((self.metal,))[:, 0]


CASES = tuple(
    Case(metal, secondaries, categories)
    for metal, secondaries in (*SECONDARIES.items(), ("Cu", MANY_SECONDARIES))
    for categories in (False, True)
)


def cases_of(metal: str | None) -> tuple[Case, ...]:
    """All cases, or those of one metal."""
    if metal is None:
        return CASES
    if metal not in SECONDARIES:
        raise RieszError(
            f"there is no metal {metal!r} in this experiment: {nearest(metal, tuple(SECONDARIES))}"
            f"It has {any_of(tuple(SECONDARIES))}."
        )
    return tuple(case for case in CASES if case.metal == metal)


def check_samples(samples: JuraSamples, cases: Sequence[Case]) -> None:
    """All that is needed was measured, and there is something to train on and to score."""
    for case in cases:
        case.covariates(samples)
        case.target(samples)
    counts = {"training": samples.is_training.sum(), VALIDATION: (~samples.is_training).sum()}
    for name, count in counts.items():
        if count < FEWEST:
            found = "is 1 sample only" if count == 1 else f"are {count} samples only"
            raise RieszError(
                f"there {found} for {name}: at least {FEWEST} are needed; the column set says "
                "which is which."
            )
    training = samples.subset(samples.is_training)
    for case in cases:
        for name, values in case.covariates(training).numbers.items():
            check_varies(values, name)
        check_varies(case.target(training), case.metal)
    mesh_around(samples)  # says so where there is none, as around samples on a line


def digest_of(samples: JuraSamples) -> str:
    """What tells these samples from others."""
    found = blake2b(digest_size=8)
    for values in (samples.points, *samples.metals.values(), samples.is_training):
        found.update(np.ascontiguousarray(values).tobytes())
    found.update(repr(dict(samples.categories)).encode())
    return found.hexdigest()


def trained_on(samples: JuraSamples, split: str) -> Bool[np.ndarray, " sample"]:
    """Which samples are for training: the benchmark's own, or as many others at random."""
    if split == VALIDATION:
        return samples.is_training
    rng = np.random.default_rng(int(split.removeprefix(RESPLIT)))
    return rng.permutation(samples.is_training)


@lru_cache(maxsize=2)
def modes_around(samples: JuraSamples, *, transport: bool = False) -> Modes:
    return modes_of(mesh_around(samples), transport=transport)


@lru_cache(maxsize=2)
def mesh_around(samples: JuraSamples) -> Mesh:
    """A mesh of the sampled region: that of the map too, where the samples are the built-in."""
    points = samples.points
    if samples.is_built_in:
        points = np.concatenate([points, jura_grid().points])
    # Samples of one's own may be in metres, or from a whole country.
    unit = 1.0 if samples.is_built_in else float(np.ptp(points, axis=0).max()) / EXTENT
    return mesh_from_points(
        points, max_edge=MAX_EDGE * unit, margin=MARGIN * unit, concave=GAP * unit
    )
