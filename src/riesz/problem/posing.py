"""Problems put together from their parts, and checked before any work is done.

Unknown fields take the place of their names, in equations and in prescribed values.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike

from riesz.errors import RieszError
from riesz.fem.elements.space import P1, Space
from riesz.fem.problem import (
    BoundaryValueProblem,
    Newton,
    boundary_value_problem,
    check_kinds,
    check_not_compiled,
    working_dtype,
)
from riesz.fem.terms.coefficient import (
    AbstractCoefficient,
    Function,
    Latent,
    as_coefficient,
    with_parts,
)
from riesz.fem.terms.pointwise import Point, nowhere
from riesz.fem.terms.series import TIME
from riesz.fem.terms.weakform import WeakForm
from riesz.fem.time.problem import INITIAL, SteadyState, TransientProblem, has_storage, in_time
from riesz.fem.time.scheme import SDIRK2
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy
from riesz.observe.joint import Joint
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observations import Observations, join_observations, with_centres
from riesz.observe.sensors import stack_operators
from riesz.priors.fields import AbstractFieldLatent
from riesz.priors.latent import LatentSpace, latent_space
from riesz.problem import checks
from riesz.problem.dependence import dependence
from riesz.problem.identifiability import tell_unidentified_scale
from riesz.problem.observation_in_time import (
    InTime,
    ObservationInTime,
    Steady,
    distinct_places,
    readings,
)
from riesz.problem.problem import InverseProblem, in_precision
from riesz.problem.unknowns import name_unknowns


class Experiment(eqx.Module):
    """One of several experiments with the same unknowns: its equation, and what was observed.

    Sources, boundary values and wells that are known may differ from those of others.
    """

    equation: WeakForm
    observations: Any  # one data set, or several
    likelihood: Any  # of each
    dirichlet: Mapping[str, Any] | None = None
    newton: Newton | None = None
    initial: Any = None  # where Newton's iteration starts


def inverse_problem(
    domain: Mesh | Hierarchy | Space,
    equation: WeakForm | None = None,
    *,
    latents: Mapping[str, Any],
    observations: Observations | Sequence[Observations] | None = None,
    likelihood: AbstractLikelihood | Sequence[AbstractLikelihood] | None = None,
    experiments: Sequence[Experiment] | None = None,
    dirichlet: Mapping[str, Any] | None = None,
    times: Any = None,
    initial: Any = None,
    scheme: str = SDIRK2,
    newton: Newton | None = None,
    tolerance: float | None = None,
    dtype: DTypeLike | None = None,
) -> InverseProblem:
    """Put a problem together and check it.

    `domain` is a mesh, a space on one, `P2(mesh)`, or, for densities that train on mini-patches, a
    hierarchy of meshes; fields stay linear in each cell, whatever the state is. `latents` gives
    the prior of each unknown that the equation, the Dirichlet values or the noise name;
    observations may lie outside the domain by `tolerance`, a length. Where values on the boundary
    are not known, `dirichlet` may hold an unknown's name, or `Unknown(prior)`. Several kinds of
    data are lists of `observations` and of a `likelihood` for each. Instead of an equation and what
    was observed, `experiments` may list several that share their unknowns: states stand one after
    the other, `problem.states(state)`.

    With `times`, a `time_axis(...)`, the equation has a `storage` term, observations have times,
    and `initial` is the state to begin with, as in `transient_problem`. Without, `initial` is where
    Newton's iteration starts if the equation is not linear, as in `boundary_value_problem`; its
    settings are `newton`.
    """
    timed = None if times is None else InTime(times, initial, scheme)
    start = initial if timed is None else None
    parts: tuple[Any, ...] = (equation, observations, likelihood, dirichlet, newton, start)
    if experiments is None:
        check_complete(equation, observations, likelihood)
        experiments = (Experiment(*parts),)
    else:
        check_experiments(experiments, parts, in_time=timed is not None)
    return pose(domain, tuple(experiments), latents, tolerance, dtype, timed)


def check_complete(equation: Any, observations: Any, likelihood: Any) -> None:
    """Raise where a problem without experiments lacks a part."""
    named = {"equation": equation, "observations": observations, "likelihood": likelihood}
    missing = [name for name, part in named.items() if part is None]
    if missing:
        raise RieszError(
            f"the problem lacks {' and '.join(missing)}: give them, or experiments=[...]."
        )


def check_experiments(
    experiments: Sequence[Experiment], beside: tuple[Any, ...], *, in_time: bool
) -> None:
    """Raise where there are none, or parts of a problem `beside` them."""
    for one in experiments:
        if not isinstance(one, Experiment):
            raise RieszError(
                f"an experiment is a {type(one).__name__}: give rz.Experiment(equation, "
                "observations, likelihood, dirichlet)."
            )
    if not experiments:
        raise RieszError("there are no experiments: give at least one.")
    if in_time and len(experiments) > 1:
        raise RieszError(
            f"there are {len(experiments)} experiments and a time axis: in time give one, or leave "
            "times=... out."
        )
    names = [part.name for part in dataclasses.fields(Experiment)]
    given = [name for name, part in zip(names, beside, strict=True) if part is not None]
    if given:
        raise RieszError(
            f"beside experiments there are {', '.join(given)}, of which each has its own: give "
            "them to rz.Experiment(...)."
        )


def pose(
    domain: Mesh | Hierarchy | Space,
    experiments: tuple[Experiment, ...],
    latents: Mapping[str, Any],
    tolerance: float | None,
    dtype: DTypeLike | None,
    timed: InTime | None = None,
) -> InverseProblem:
    check_not_compiled()
    for one in experiments:
        checks.check_kinds_of_parts(domain, latents, one.observations, one.likelihood)
    data = [checks.each_of(one.observations, Observations) for one in experiments]
    noise = [checks.each_of(one.likelihood, AbstractLikelihood) for one in experiments]
    hierarchy = domain if isinstance(domain, Hierarchy) else None
    finite_elements, precision = space_on(domain), working_dtype(dtype)
    observed = join_observations([join_observations(own) for own in data])
    likelihood = joint(sum(data, ()), sum(noise, ()))
    checks.check_noise_count(likelihood, observed.num_sensors)
    likelihood.check_values(observed.values)
    boundaries, every = [], dict(latents)
    for one in experiments:
        dirichlet = {} if one.dirichlet is None else one.dirichlet
        check_kinds(finite_elements, one.equation, dirichlet)
        if timed is None and has_storage(one.equation):
            raise RieszError(
                "the equation has a storage term, but there is no time axis: give "
                "times=rz.fem.time_axis(...), or leave it out for a steady state."
            )
        values, priors = name_unknowns(dirichlet, latents)
        for name in values.values():
            if isinstance(name, str) and name in every and every[name] is not priors.get(name):
                raise RieszError(
                    f"two experiments have different priors for {name!r}: unknowns of one name are "
                    "shared; name them apart in latents."
                )
        boundaries.append(values)
        every |= priors
    for one, values in zip(experiments, boundaries, strict=True):
        checks.check_names(one.equation, values, likelihood, tuple(every))
    space = in_precision(latent_space(every, finite_elements.mesh), precision)
    dim = finite_elements.mesh.dim
    forwards = tuple(
        boundary_value_problem(
            finite_elements,
            with_fields(one.equation, space, dim),
            {
                tag: with_field(as_coefficient(own, f"Dirichlet value on {tag!r}"), space, dim)
                for tag, own in values.items()
            },
            dtype=precision,
            newton=one.newton,
            initial=one.initial,
        )
        for one, values in zip(experiments, boundaries, strict=True)
    )
    transient = None
    if timed is not None:
        begin = initial_state(timed.initial, space, dim)
        transient = in_time(forwards[0], timed.times, begin, timed.scheme)
        forwards = (transient.step,)
    each = [join_observations(own) for own in data]
    result = problem_of(forwards, space, each, likelihood, tolerance, hierarchy, transient)
    if transient is None and result.linear is not None:
        # Measured fluxes and coefficients tell the scale.
        tell_unidentified_scale(forwards, space)
    return result


def problem_of(
    forwards: tuple[BoundaryValueProblem, ...],
    latents: LatentSpace,
    each: Sequence[Observations],
    likelihood: AbstractLikelihood,
    tolerance: float | None,
    hierarchy: Hierarchy | None,
    transient: TransientProblem | None = None,
) -> InverseProblem:
    """With what was observed of the states of each equation, or along the axis of one in time."""
    observed, dtype = join_observations(each), forwards[0].dtype
    what, place, time = [own.what for own in each], np.arange(observed.num_sensors), None
    if transient is not None:
        what[0], place = distinct_places(observed)
    placed = [
        own.discretise(forward, latents, tolerance)
        for own, forward in zip(what, forwards, strict=True)
    ]
    sensors = tuple(one.sensors for one in placed)
    if transient is None:
        linear = stack_operators([one.operator for one in sensors], apart=True)
    else:
        start, scheme, num_places = transient.initial, transient.scheme, what[0].num_sensors
        time = ObservationInTime(transient.axis, start, sensors[0], num_places, scheme)
        linear = readings(time, observed, place, dtype)
    record = time or Steady(forwards)
    parts = checks.Described(forwards, sensors, likelihood, observed.num_sensors, record)
    checks.check_parts(parts, latents)
    return InverseProblem(
        forward=forwards[0],
        latents=latents,
        linear=linear,
        sensors=sensors if linear is None else (),
        observed=jnp.asarray(observed.values, dtype),
        likelihood=likelihood,
        observations=with_centres(observed, np.concatenate([one.centres for one in placed])[place]),
        hierarchy=hierarchy,
        others=forwards[1:],
        time=time,
    )


def initial_state(given: Any, latents: LatentSpace, dim: int) -> Any:
    """With the name of an unknown field replaced by the field."""
    if given is None or isinstance(given, SteadyState):
        return given
    named = as_coefficient(given, INITIAL)
    checks.check_initial_unknowns(named, latents.names)
    return with_field(named, latents, dim)


def space_on(domain: Mesh | Hierarchy | Space) -> Space:
    """Where states are: linear in each cell unless a space was given."""
    if isinstance(domain, Space):
        return domain
    return P1(domain.meshes[-1] if isinstance(domain, Hierarchy) else domain)


def joint(
    data: tuple[Observations, ...], noise: tuple[AbstractLikelihood, ...]
) -> AbstractLikelihood:
    """The likelihood of all data sets."""
    if len(data) != len(noise):
        raise RieszError(
            f"there are {len(data)} data sets, but {len(noise)} likelihoods: give one for each."
        )
    return noise[0] if len(noise) == 1 else Joint(noise, tuple(one.num_sensors for one in data))


def with_observations(
    problem: InverseProblem, observations: Observations, likelihood: AbstractLikelihood
) -> InverseProblem:
    """The same problem of one experiment for other measurements.

    What was compiled for one data set serves another with as many observations, where the noise
    is the same or its sd an array, one for each observation.
    """
    checks.check_noise_count(likelihood, observations.num_sensors)
    likelihood.check_values(observations.values)
    transient = problem.record.transient(problem.forward)
    known = (likelihood, None, problem.hierarchy, transient)
    return problem_of((problem.forward,), problem.latents, [observations], *known)


def with_fields(form: WeakForm, latents: LatentSpace, dim: int) -> WeakForm:
    """The equation with the names of unknown fields replaced by the fields."""
    terms = tuple(
        dataclasses.replace(
            term,
            coefficients={key: with_field(c, latents, dim) for key, c in term.coefficients.items()},
        )
        for term in form.terms
    )
    return WeakForm(terms, form.point_sources)


def with_field(
    coefficient: AbstractCoefficient, latents: LatentSpace, dim: int
) -> AbstractCoefficient:
    def field(part: AbstractCoefficient) -> AbstractCoefficient:
        if isinstance(part, Latent):
            return latents.latents[part.name].coefficient(part.name)
        if isinstance(part, Function) and part.num_arguments > 1:
            names = fields_read(part, latents, dim)
            own = {name: latents.latents[name].coefficient(name) for name in names}
            return dataclasses.replace(part, fields=own)
        return part

    return with_parts(coefficient, field)


def fields_read(function: Function, latents: LatentSpace, dim: int) -> list[str]:
    """Of a function of (x, z), where each is a number at x."""
    fields = [n for n, one in latents.latents.items() if isinstance(one, AbstractFieldLatent)]
    if not fields:
        return []
    scalar = jax.ShapeDtypeStruct((), jnp.result_type(float))
    inputs: dict[str, Any] = {**dict.fromkeys(fields, scalar), TIME: scalar}
    for name in set(latents.names) - set(fields):
        latent = latents.latents[name]
        origin = jnp.zeros(latent.num_coordinates)
        inputs[name] = jax.eval_shape(latent.value, origin)

    def of_unknowns(z: dict[str, Any]) -> Any:
        return function.at((), Point(jnp.zeros(dim), (), nowhere(dim), z))

    try:
        result = dependence(of_unknowns, inputs).reads
    except KeyError:  # an unknown without a prior, which is told later
        return []
    return [name for name in fields if name in result]
