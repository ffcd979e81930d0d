"""Posteriors on disk: a JSON manifest and one archive of arrays.

The archive is named after its content and the manifest, which names it, comes last and whole: a
run that is stopped while saving leaves the posterior that was there before.
"""

import io
import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import jax
import numpy as np

import riesz
from riesz.density.relaxed.discrepancy import GramFactor
from riesz.density.relaxed.states import RelaxedStates, StepGrams
from riesz.errors import FileFormatError, RieszError
from riesz.fem.linear.linear_solve import Automatic, ConjugateGradients, Dense, SparseLU
from riesz.io.store.files import make_folder, read_arrays, read_bytes, write_bytes
from riesz.io.store.modules import from_plain, to_plain
from riesz.io.store.probe import differing_parts, prior_of, probe, probe_tolerance
from riesz.io.store.results import check_not_newer
from riesz.mesh.mesh import mesh_digest
from riesz.notes import read_notes, to_json
from riesz.posterior import family
from riesz.posterior.checks import ImportanceCheck, SurrogateError
from riesz.posterior.mesh_shift import Correction, MeshShift, with_mesh_error
from riesz.posterior.posterior import AbstractStateMap, ExactStates, Posterior, SurrogateStates
from riesz.problem.problem import InverseProblem
from riesz.surrogate.networks import Layers, LocalFunctions, TrunkBranch
from riesz.surrogate.surrogate import BoundaryValues, Frame, NodalFunctions, SteadySurrogate
from riesz.surrogate.trajectory import Trajectory

SCHEMA = 3
MANIFEST = "posterior.json"
PARTS = ("distribution", "states", "history", "check", "surrogate_error", "mesh_shift")
"""Of a posterior, beside what the manifest tells in plain words."""

SAVED = {
    kind.__name__: kind
    for kind in (
        *(family.MeanField, family.FullRank, family.PriorUpdate, family.EmpiricalDraws),
        *(ImportanceCheck, SurrogateError, MeshShift, Correction),
        *(ExactStates, SurrogateStates, RelaxedStates, GramFactor, StepGrams),
        *(Automatic, SparseLU, Dense, ConjugateGradients),
        *(Trajectory, Frame, BoundaryValues, NodalFunctions),
        *(TrunkBranch, Layers, LocalFunctions),
    )
} | {"Surrogate": SteadySurrogate}
"""All that a saved posterior may hold beside numbers: new families, state maps, networks and their
activation functions are added here, each under a name that never changes."""


def save_posterior(folder: Path | str, posterior: Posterior, *, overwrite: bool = False) -> None:
    """Write a posterior, but not its problem, into a folder.

    One that is there already is kept, and an error raised, unless `overwrite` says otherwise.
    """
    folder = Path(folder)
    if not overwrite and (folder / MANIFEST).exists():
        raise RieszError(
            f"{folder} holds a posterior already: give another folder, or overwrite=True."
        )
    arrays: dict[str, np.ndarray] = {}
    parts = {name: to_plain(getattr(posterior, name), name, arrays, SAVED) for name in PARTS}
    archive = npz_bytes(arrays)
    manifest = {
        "schema": SCHEMA,
        "riesz": riesz.__version__,
        "engine": posterior.engine,
        "seed": posterior.seed,
        "notes": to_json(posterior.notes),
        "problem": identity(posterior.problem),
        "arrays": f"posterior-{blake2b(archive, digest_size=8).hexdigest()}.npz",
        "shapes": {name: list(array.shape) for name, array in arrays.items()},
    } | parts
    make_folder(folder)
    write_bytes(folder / manifest["arrays"], archive)
    write_bytes(folder / MANIFEST, f"{json.dumps(manifest, indent=1, allow_nan=False)}\n".encode())
    for old in folder.glob("posterior-*.npz"):
        if old.name != manifest["arrays"]:
            old.unlink()


def load_posterior(folder: Path | str, problem: InverseProblem) -> Posterior:
    """Read a posterior of a problem, which must be the one it was saved for."""
    folder = Path(folder)
    manifest = read_manifest(folder / MANIFEST)
    archive = folder / manifest["arrays"]
    if f"posterior-{blake2b(read_bytes(archive), digest_size=8).hexdigest()}.npz" != archive.name:
        raise FileFormatError(f"{archive} is damaged: its content is not what its name says.")
    arrays = read_arrays(archive)
    distribution, states, history, check, surrogate_error, mesh_shift = (
        from_plain(manifest.get(name), name, arrays, SAVED) for name in PARTS
    )
    if not (
        isinstance(distribution, family.AbstractGaussian | family.EmpiricalDraws)
        and isinstance(states, AbstractStateMap)
        and isinstance(history, dict)
        and all(isinstance(curve, jax.Array) for curve in history.values())
        and isinstance(check, ImportanceCheck | None)
        and isinstance(surrogate_error, SurrogateError | None)
        and isinstance(mesh_shift, MeshShift | None)
    ):
        raise FileFormatError(f"{folder / MANIFEST} is damaged: its parts are of wrong kinds.")
    if mesh_shift is not None and mesh_shift.is_corrected:
        problem = with_mesh_error(problem, mesh_shift)
    differing = differing_in(manifest["problem"], identity(problem))
    if differing:
        raise RieszError(
            f"the posterior was saved for another problem, which differs in {', '.join(differing)}"
            ": load it with the problem that was fitted, or fit again."
        )
    return Posterior(
        problem=problem,
        distribution=distribution,
        states=states,
        history=history,
        engine=manifest["engine"],
        seed=manifest["seed"],
        notes=manifest["notes"],
        check=check,
        surrogate_error=surrogate_error,
        mesh_shift=mesh_shift,
    )


def npz_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    return content.getvalue()


def identity(problem: InverseProblem) -> dict[str, Any]:
    """What must agree for the coordinates of a saved posterior to mean the same again.

    Texts of priors are for the reader of an error: they are rounded, and `computed` is what tells.
    """
    data = np.column_stack([problem.observations.points, problem.observations.values])
    return {
        "mesh": mesh_digest(problem.forward.space.mesh),
        "unknowns": list(problem.latents.names),
        "priors": {name: latent.describe() for name, latent in problem.latents.latents.items()},
        "number of coordinates": problem.num_coordinates,
        "number of observations": problem.observations.num_sensors,
        "observations": blake2b(data.astype("<f8").tobytes(), digest_size=8).hexdigest(),
        "likelihood": type(problem.likelihood).__name__,
        "precision": str(problem.forward.dtype),
        "computed": probe(problem),
    }


EXACT = (
    "mesh",
    "unknowns",
    "number of coordinates",
    "number of observations",
    "observations",
    "likelihood",
)
"""What is the same on every machine, or another problem."""


def differing_in(saved: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """What tells two problems apart, in words."""
    differing = [
        f"{name} (saved: {saved.get(name)}; given: {given[name]})"
        for name in EXACT
        if saved.get(name) != given[name]
    ]
    if not differing:  # else numbers could not be compared
        tolerance = probe_tolerance(saved.get("precision"), given["precision"])
        parts = differing_parts(saved.get("computed"), given["computed"], tolerance)
        differing = [f"{part}{prior_texts(part, saved, given)}" for part in parts]
    return differing


def prior_texts(part: str, saved: dict[str, Any], given: dict[str, Any]) -> str:
    """Both priors in words, where that is what differs and the words tell them apart."""
    texts = saved.get("priors")
    for name, text in given["priors"].items():
        old = texts.get(name) if isinstance(texts, dict) else None
        if part == prior_of(name) and old != text:
            return f" (saved: {old}; given: {text})"
    return ""


def read_manifest(path: Path) -> dict[str, Any]:
    data = read_bytes(path)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a saved posterior: {error}.") from None
    kinds = {
        "problem": dict,
        "arrays": str,
        "engine": str,
        "notes": list,
        "distribution": dict,
        "states": dict,
        "history": dict,
        "check": dict | None,
        "surrogate_error": dict | None,
    }
    check_not_newer(path, content, SCHEMA)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise FileFormatError(f"{path} is not a saved posterior with schema {SCHEMA}: fit again.")
    wrong = [name for name, kind in kinds.items() if not isinstance(content.get(name), kind)]
    if wrong or not isinstance(content.get("seed"), int | None):
        raise FileFormatError(f"{path} is damaged: {', '.join(wrong) or 'seed'} missing or wrong.")
    if Path(content["arrays"]).name != content["arrays"]:
        raise FileFormatError(f"{path} is damaged: it names a file outside of its folder.")
    return content | {"notes": read_notes(content["notes"], path)}
