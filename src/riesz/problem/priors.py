"""Whether priors have the shapes and signs that their places ask for."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from riesz.errors import RieszError
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.terms.coefficient import Latent, parts_of
from riesz.fem.terms.weakform import SCALAR, Shape, Term
from riesz.mesh.location import locate
from riesz.notes import Note, NoteWarning
from riesz.observe.likelihood import AbstractLikelihood, scale_at
from riesz.priors.fields import AbstractFieldLatent, FieldCoefficient
from riesz.priors.latent import AbstractLatent, LatentSpace, value_of

Coordinates = Float[Array, " coordinate"]


PRIOR_DRAWS = 32


"""Draws of fields and vectors that are looked at for the same reason."""


FAR_OUT = 3.0


"""Priors of what must be positive are looked at so many standard deviations out."""


def check_term_priors(term: Term, latents: LatentSpace, dim: int) -> None:
    for key, allowed in term.shapes:
        coefficient = term.coefficients[key]
        for part in parts_of(coefficient):
            if not isinstance(part, Latent | FieldCoefficient):
                continue
            latent, name = latents.latents[part.name], part.name
            shapes = allowed if part is coefficient else SCALAR
            check_prior_shape(latent, name, shapes, dim, f"the {key} of {term.name}")
            if key in term.positive:
                check_prior_sign(latent, name, f"the {key} of {term.name}")


def check_prior_shape(
    latent: AbstractLatent, name: str, allowed: tuple[Shape, ...], dim: int, place: str
) -> None:
    wanted = [(dim,) * len(axes) for axes in allowed]
    shape = () if isinstance(latent, AbstractFieldLatent) else shape_of(latent)
    if wanted and shape not in wanted:
        raise RieszError(wrong_shape(name, shape, wanted, place))


def wrong_shape(
    name: str, shape: tuple[int, ...], wanted: list[tuple[int, ...]], place: str
) -> str:
    size = list(wanted[0])
    advice = "give it one number"
    if size:
        zeros = ", ".join(["0.0"] * size[0])
        advice = (
            f"give it {size[0]} components, as in numpyro.distributions.Normal(0.0, 1.0)"
            f".expand({size}), or mean = [{zeros}] in a problem file"
        )
    return (
        f"the prior of {name!r} has shape {shape}, but {place} needs "
        f"{' or '.join(map(str, wanted))}: {advice}."
    )


def shape_of(latent: AbstractLatent) -> tuple[int, ...]:
    return jax.eval_shape(latent.value, jnp.zeros(latent.num_coordinates)).shape


def check_prior_sign(latent: AbstractLatent, name: str, place: str) -> None:
    """What must be positive is so at the median, and as far out as the prior is likely to go."""
    if not (values_at(latent, 0.0) > 0).all():
        raise RieszError(
            f"the median of the prior of {name!r} is not positive, but {place} must be: use a "
            "LogNormal prior for a number, and LogGP or transform=jnp.exp for a field."
        )
    if isinstance(latent, AbstractFieldLatent) and latent.field.is_log:
        return  # positive by construction, however far out
    if isinstance(latent, AbstractFieldLatent) or shape_of(latent) != ():
        normals = np.random.default_rng(0).normal(size=(PRIOR_DRAWS, latent.num_coordinates))
        low = min(nodal_values(latent, jnp.asarray(one)).min() for one in normals)
        code = "field_not_positive"
    else:
        low = min(values_at(latent, -FAR_OUT), values_at(latent, FAR_OUT))
        code = "number_not_positive"
    if not low > 0:
        note = Note(code, unknown=name, low=low, place=place, draws=PRIOR_DRAWS)
        warnings.warn(NoteWarning(note), stacklevel=6)


def values_at(latent: AbstractLatent, coordinate: float) -> Float[np.ndarray, "..."]:
    """The numbers, or a field's nodal values, where all coordinates are the same."""
    return nodal_values(latent, jnp.asarray(np.full(latent.num_coordinates, coordinate)))


def nodal_values(latent: AbstractLatent, coordinates: Coordinates) -> Float[np.ndarray, "..."]:
    """The numbers, or a field's values at the nodes."""
    value = np.asarray(value_of(latent, coordinates))
    is_field = isinstance(latent, AbstractFieldLatent)
    return latent.field.nodal_draws(value[None])[0] if is_field else value


def check_other_priors(forward: BoundaryValueProblem, latents: LatentSpace) -> None:
    """Shapes of priors for prescribed values and rates of wells."""
    for piece in forward.dirichlet:
        if isinstance(piece.value, Latent):
            place, name = f"the Dirichlet value on {piece.tag!r}", piece.value.name
            check_prior_shape(latents.latents[name], name, ((),), forward.space.mesh.dim, place)
    for source, _ in forward.point_sources:
        dim, place = forward.space.mesh.dim, "the place of a point source"
        count = 1
        if isinstance(source.points, Latent):
            latent = latents.latents[source.points.name]
            count = latent.num_coordinates // dim
            require_numbers(latents, source.points.name, [(dim,), (count, dim)], place)
            middle = values_at(latent, 0.0).reshape(-1, dim)
            locate(forward.space.mesh, middle, outside="raise")
        else:
            count = len(source.points)
        if isinstance(source.rates, Latent):
            wanted = [(), (1,)] if count == 1 else [(count,)]
            place = "the point source, with a rate a point,"
            require_numbers(latents, source.rates.name, wanted, place)


def check_noise_priors(noise: AbstractLikelihood, num_sensors: int, latents: LatentSpace) -> None:
    for likelihood, count in noise.parts(num_sensors):
        for key, scale in likelihood.scales().items():
            if isinstance(scale, str):
                require_numbers(latents, scale, [(), (count,)], f"the noise {key}")


def require_numbers(
    latents: LatentSpace, name: str, wanted: list[tuple[int, ...]], place: str
) -> None:
    latent = latents.latents[name]
    if isinstance(latent, AbstractFieldLatent):
        raise RieszError(
            f"the prior of {name!r} is over fields, but {place} needs numbers: use a NumPyro "
            "distribution."
        )
    if shape_of(latent) not in wanted:
        raise RieszError(wrong_shape(name, shape_of(latent), wanted, place))


def check_noise_sign(latents: LatentSpace, likelihood: AbstractLikelihood, z: PyTree) -> None:
    for part, _ in likelihood.parts(0):
        for name, scale in part.scales().items():
            if isinstance(scale, str):
                latent = latents.latents[scale]
                lowest = min(values_at(latent, c).min() for c in (-FAR_OUT, 0.0, FAR_OUT))
            else:
                lowest = np.asarray(scale_at(scale, z)).min()
            if not lowest > 0:
                raise RieszError(
                    f"the noise {name} may be {lowest:.3g} under the priors, but it must be "
                    "positive: use a prior such as numpyro.distributions.LogNormal or HalfNormal."
                )
