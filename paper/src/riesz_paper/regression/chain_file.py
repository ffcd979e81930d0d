"""Chains of regressions on disk: what they were trained with and their scales, as JSON.

Everything else follows from these: predictions of a loaded chain are those of the saved one.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import riesz
from riesz.errors import FileFormatError, RieszError
from riesz.io.meshes.files import read_mesh, write_mesh
from riesz.io.store.files import read_bytes, write_bytes
from riesz.io.store.results import check_not_newer
from riesz_paper.regression.chain import Chain, with_only
from riesz_paper.regression.covariates import Covariates
from riesz_paper.regression.effects import Parameters
from riesz_paper.regression.model import PHYSICAL, Regression, Structure, reconditioned
from riesz_paper.regression.physical_field import Modes, modes_of

SCHEMA = 1
MANIFEST = "chain.json"
MESH = "mesh.npz"


def save_chain(folder: Path, chain: Chain) -> None:
    """Into a folder, which is made; the manifest comes last, and whole."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RieszError(f"the folder {folder} cannot be made: {error.strerror}.") from None
    last = chain.models[chain.target]
    if last.modes is not None:
        write_mesh(folder / MESH, last.modes.mesh)
    content = {
        "schema": SCHEMA,
        "riesz": riesz.__version__,
        "structure": asdict(last.structure),
        "transport": last.modes is not None and last.modes.carried is not None,
        "training": as_json(last.encoding.training),
        "models": {name: scales_of(model) for name, model in chain.models.items()},
    }
    write_bytes(folder / MANIFEST, (json.dumps(content, allow_nan=False) + "\n").encode())


def load_chain(folder: Path) -> Chain:
    """A saved chain; its models see their training data again."""
    path = folder / MANIFEST
    try:
        content = json.loads(read_bytes(path))
        check_not_newer(path, content, SCHEMA)
        structure = Structure(**content["structure"])
        training, saved = from_json(content["training"]), dict(content["models"])
        if len(saved) != len(training.numbers) + 1:
            raise ValueError(f"{len(saved)} models for {len(training.numbers)} covariates")
        modes = None
        if structure.field == PHYSICAL:
            modes = modes_of(read_mesh(folder / MESH), transport=bool(content["transport"]))
        names = tuple(training.numbers)
        models = {
            name: loaded(structure, modes, with_only(training, names[:place]), saved[name])
            for place, name in enumerate(saved)
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{path} is not a saved chain: {error}.") from None
    return Chain(models)


def loaded(
    structure: Structure, modes: Modes | None, training: Covariates, saved: Any
) -> Regression:
    scales: dict[str, Parameters] = {
        effect: {name: finite(value) for name, value in own.items()}
        for effect, own in saved["scales"].items()
    }
    return reconditioned(
        structure,
        modes,
        training,
        np.asarray(saved["target"], float),
        scales=scales,
        log_noise=finite(saved["log_noise"]),
        precisions=finite(saved["precisions"]),
    )


def finite(content: Any) -> Float[Array, "..."]:
    values = np.asarray(content, float)
    if not np.isfinite(values).all():
        raise ValueError(f"a scale is {values}, which is no number")
    return jnp.asarray(values)


def scales_of(model: Regression) -> dict[str, Any]:
    found = model.conditioned
    return {
        "target": model.target.tolist(),
        "scales": {
            effect: {name: np.asarray(value).tolist() for name, value in own.items()}
            for effect, own in found.model.scales.items()
        },
        "log_noise": float(found.model.log_noise),
        "precisions": np.asarray(found.precisions).tolist(),
    }


def as_json(training: Covariates) -> dict[str, Any]:
    return {
        "points": training.points.tolist(),
        "numbers": {name: values.tolist() for name, values in training.numbers.items()},
        "categories": {name: list(labels) for name, labels in training.categories.items()},
    }


def from_json(content: Any) -> Covariates:
    return Covariates(
        np.asarray(content["points"], float),
        {name: np.asarray(values, float) for name, values in content["numbers"].items()},
        {name: tuple(labels) for name, labels in content["categories"].items()},
    )
