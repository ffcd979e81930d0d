"""Unknown fields in place of their names, in equations and in prescribed values."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

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
from riesz.latent.field import AbstractFieldLatent
from riesz.latent.latent import LatentSpace
from riesz.problem.dependence import dependence


def prescribed(
    values: Mapping[str, Any], latents: LatentSpace, dim: int
) -> dict[str, AbstractCoefficient]:
    """Dirichlet values with the names of unknown fields replaced by the fields."""
    return {
        tag: with_field(as_coefficient(value, f"Dirichlet value on {tag!r}"), latents, dim)
        for tag, value in values.items()
    }


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
        found = dependence(of_unknowns, inputs).reads
    except KeyError:  # an unknown without a prior, which is told later
        return []
    return [name for name in fields if name in found]
