"""Whether the parts of an inverse problem fit together, with advice where they do not."""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from riesz.arrays import on_device
from riesz.errors import FormError, RieszError
from riesz.fem.assembly import residual
from riesz.fem.elements.space import Space
from riesz.fem.problem import BoundaryValueProblem, check_coefficients
from riesz.fem.terms.coefficient import AbstractCoefficient, Function, Latent, parts_of
from riesz.fem.terms.series import TIME
from riesz.fem.terms.weakform import WeakForm
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy
from riesz.notes import Note, NoteWarning
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observations import Observations
from riesz.observe.sensors import AbstractSensors
from riesz.priors.fields import AbstractFieldLatent, FieldCoefficient
from riesz.priors.latent import LatentSpace, Z, value_of
from riesz.problem.dependence import dependence
from riesz.problem.observation_in_time import ObservationInTime, Steady
from riesz.problem.priors import (
    Coordinates,
    check_noise_priors,
    check_noise_sign,
    check_other_priors,
    check_term_priors,
)

DOMAINS = "rz.rectangle(...), rz.hierarchy(mesh, levels) or rz.P2(mesh)"

ROUNDING = 1e3  # units of rounding error


def each_of(given: Any, kind: type) -> tuple[Any, ...]:
    """One part, or all of a list of such parts."""
    several = isinstance(given, list | tuple) and all(isinstance(one, kind) for one in given)
    return tuple(given) if several else (given,)


def check_kinds_of_parts(domain: Any, latents: Any, observations: Any, likelihood: Any) -> None:
    """Raise where a part of a problem is something else altogether."""
    wanted = (
        ("domain", domain, Mesh | Hierarchy | Space, DOMAINS),
        ("latents", latents, Mapping, "a prior for each name, {'a': prior}"),
        *(
            ("observations", one, Observations, "rz.observations(points, values)")
            for one in each_of(observations, Observations)
        ),
        *(
            ("likelihood", one, AbstractLikelihood, "rz.Gaussian(sd) or rz.StudentT(sd)")
            for one in each_of(likelihood, AbstractLikelihood)
        ),
    )
    for name, value, kind, advice in wanted:
        if not isinstance(value, kind):
            result = (
                f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
            )
            raise RieszError(f"{name}: found {result}, give {advice}.")


def names_in(
    equation: WeakForm, dirichlet: Mapping[str, Any], likelihood: AbstractLikelihood
) -> Iterator[tuple[str, str]]:
    """Every unknown that is named somewhere, and where."""
    for term in equation.terms:
        for key, coefficient in term.coefficients.items():
            for part in parts_of(coefficient):
                for name in unknowns_of(part):
                    yield name, f"the {key} of {term.name}"
    for source in equation.point_sources:
        for name in unknowns_of(source.rates):
            yield name, "the rates of a point source"
        for name in unknowns_of(source.points):
            yield name, "the place of a point source"
    for tag, value in dirichlet.items():
        for name in (value,) if isinstance(value, str) else unknowns_of(value):
            yield name, f"the Dirichlet value on {tag!r}"
    for part, _ in likelihood.parts(0):
        for key, scale in part.scales().items():
            if isinstance(scale, str):
                yield scale, f"the noise {key}"


def unknowns_of(part: Any) -> tuple[str, ...]:
    """The names of unknowns in a part of an equation; the time is none."""
    named = part.names if isinstance(part, AbstractCoefficient) else ()
    return tuple(name for name in named if name != TIME)


def check_initial_unknowns(coefficient: AbstractCoefficient, known: tuple[str, ...]) -> None:
    """Raise where the initial state is an unknown without a prior."""
    for name in unknowns_of(coefficient):
        if name not in known:
            raise RieszError(f"the initial state is the unknown {name!r}, {no_prior(name, known)}")


def check_names(
    equation: WeakForm,
    dirichlet: Mapping[str, Any],
    likelihood: AbstractLikelihood,
    known: tuple[str, ...],
) -> None:
    for name, place in names_in(equation, dirichlet, likelihood):
        if name not in known:
            raise RieszError(f"{place} is the unknown {name!r}, {no_prior(name, known)}")


def no_prior(name: str, known: tuple[str, ...]) -> str:
    return (
        f"but priors are given for {', '.join(map(repr, known)) or 'nothing'}: add "
        f"latents={{{name!r}: prior}}, or correct the spelling."
    )


def check_noise_count(likelihood: AbstractLikelihood, num_sensors: int) -> None:
    for part, count in likelihood.parts(num_sensors):
        for name, scale in part.scales().items():
            if not (isinstance(scale, str) or callable(scale)):
                check_noise_shape(np.shape(scale), count, name)


def check_noise_shape(shape: tuple[int, ...], num_sensors: int, name: str = "sd") -> None:
    if shape not in ((), (num_sensors,)):
        raise RieszError(
            f"the noise {name} has shape {shape}, but there are {num_sensors} observations: give "
            "one number, or one for each observation."
        )


class Described(NamedTuple):
    """All of a problem but its unknowns: equations, what is read off their states, and noise."""

    forwards: tuple[BoundaryValueProblem, ...]
    sensors: tuple[AbstractSensors, ...]  # of each
    likelihood: AbstractLikelihood
    num_sensors: int
    record: Steady | ObservationInTime


def check_parts(parts: Described, latents: LatentSpace) -> None:
    """Raise where priors have wrong shapes or signs for their places; warn of what is unused."""
    for forward in parts.forwards:
        for term in forward.form.terms:
            check_term_priors(term, latents, forward.space.mesh.dim)
        check_other_priors(forward, latents)
    check_noise_priors(parts.likelihood, parts.num_sensors, latents)
    z = unknowns_in_the_middle(latents, parts)
    then = parts.record.ends(z)
    try:
        for forward in parts.forwards:
            for own in then:
                check_coefficients(forward, own)
        trace(parts, then[0])
    except KeyError as error:
        name = str(error.args[0])
        raise RieszError(
            f"a function in the problem reads the unknown {name!r}, {no_prior(name, latents.names)}"
        ) from None
    check_noise_sign(latents, parts.likelihood, z)
    for forward in parts.forwards if parts.record.begins_steady else ():
        check_level(forward, then[0])
    tell_unused(parts, then[0])


def unknowns_in_the_middle(latents: LatentSpace, parts: Described) -> Z:
    """Unknowns at the centre of their priors.

    Fields have zeros for weights where nothing but their own place in the equation reads them, and
    no value is looked at there: to evaluate them takes longer than all the rest of a check.
    """
    origin = on_device(np.zeros(latents.num_coordinates), parts.forwards[0].dtype)
    if any(reads_all_unknowns(forward, parts.likelihood) for forward in parts.forwards):
        return all_unknowns(latents, origin)
    # Not the bound method: JAX would compare all unknowns, array by array.
    shapes = jax.eval_shape(lambda own: latents.z(own), origin)  # noqa: PLW0108
    return {
        name: jax.tree.map(lambda own: on_device(np.zeros(own.shape), origin.dtype), shapes[name])
        if isinstance(latents.latents[name], AbstractFieldLatent)
        else value_of(latents.latents[name], on_device(np.zeros(part.stop - part.start)))
        for name, part in latents.slices().items()
    }


@eqx.filter_jit
def all_unknowns(latents: LatentSpace, coordinates: Coordinates) -> Z:
    """In one go: operation by operation, each would be compiled by itself."""
    return latents.z(coordinates)


def reads_all_unknowns(forward: BoundaryValueProblem, likelihood: AbstractLikelihood) -> bool:
    """Whether values of any unknown may be needed: by functions of `z`, or to find a level."""
    given = [c for term in forward.form.terms for c in term.coefficients.values()]
    given += [piece.value for piece in forward.dirichlet]
    functions = [part for c in given for part in parts_of(c) if isinstance(part, Function)]
    scales = [scale for part, _ in likelihood.parts(0) for scale in part.scales().values()]
    return (
        not len(forward.fixed)
        or any(one.num_arguments > 1 for one in functions)
        or any(callable(scale) for scale in scales)
    )


def check_level(forward: BoundaryValueProblem, z: PyTree) -> None:
    """Raise where nothing depends on u, or where any constant may be added to it."""
    state = on_device(np.random.default_rng(0).normal(size=forward.space.num_dofs), forward.dtype)
    reads = dependence(lambda given: residual(forward, given["u"], z), {"u": state}).reads
    if not reads:
        raise RieszError(
            "no term of the equation depends on u, so that it has no solution to compare with the "
            "observations: add a diffusion, advection or reaction."
        )
    if len(forward.fixed):
        return
    here = np.asarray(residual(forward, state, z))
    change = np.asarray(residual(forward, state + 1.0, z)) - here
    if np.abs(change).max() <= ROUNDING * np.finfo(forward.dtype).eps * np.abs(here).max():
        raise RieszError(
            "no value of u is prescribed anywhere and no term holds its level, so that the "
            "equation fixes u only up to a constant: prescribe u on a part of the boundary, by "
            "rz.Unknown(prior) or the name of an unknown where it is not known, or add a reaction "
            "or a Robin condition."
        )


def trace(parts: Described, z: PyTree) -> None:
    """Follow everything that reads the unknowns, without computing."""

    def everything(z):
        # The noise first: where it lacks an unknown, the equation need not be followed.
        for likelihood, count in parts.likelihood.parts(parts.num_sensors):
            for name, value in likelihood.parameters(z).items():
                check_noise_shape(jnp.shape(value), count, name)
        zeros = jnp.zeros(parts.num_sensors, parts.forwards[0].dtype)
        result = [parts.likelihood.log_prob(zeros, zeros, z)]
        for forward, sensors in zip(parts.forwards, parts.sensors, strict=True):
            state = jnp.zeros(forward.space.num_dofs, forward.dtype)
            result += [residual(forward, state, z), parts.record.boundary_values(forward, z)]
            result += [sensors.predict(forward, state, z)]
        return result

    jax.eval_shape(everything, z)


def tell_unused(parts: Described, z: Z) -> None:
    """Warn of unknowns without which everything can be evaluated."""
    named = set()
    for forward in parts.forwards:
        named |= {name for name, _ in names_in(forward.form, {}, parts.likelihood)}
        coefficients = [c for term in forward.form.terms for c in term.coefficients.values()]
        coefficients += [piece.value for piece in forward.dirichlet]
        inside = [part for c in coefficients for part in parts_of(c)]
        named |= {part.name for part in inside if isinstance(part, Latent | FieldCoefficient)}
    unused = []
    for name in z:
        if name in (*named, TIME):
            continue
        others = {key: value for key, value in z.items() if key != name}
        try:
            trace(parts, others)
        except (KeyError, FormError):
            continue
        unused.append(name)
    if unused:
        warnings.warn(NoteWarning(Note("unused_unknowns", unknowns=unused)), stacklevel=5)
