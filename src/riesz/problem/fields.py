"""Unknown fields in place of their names, in equations and in prescribed values."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from riesz.fem.terms.coefficient import AbstractCoefficient, Latent, as_coefficient, with_parts
from riesz.fem.terms.weakform import WeakForm


def prescribed(
    values: Mapping[str, Any], coefficients: Mapping[str, AbstractCoefficient]
) -> dict[str, AbstractCoefficient]:
    """Dirichlet values with the names of unknown fields replaced by the fields."""
    return {
        tag: with_field(as_coefficient(value, f"Dirichlet value on {tag!r}"), coefficients)
        for tag, value in values.items()
    }


def with_fields(form: WeakForm, coefficients: Mapping[str, AbstractCoefficient]) -> WeakForm:
    """The equation with the names of unknown fields replaced by the fields."""
    terms = tuple(
        dataclasses.replace(
            term,
            coefficients={key: with_field(c, coefficients) for key, c in term.coefficients.items()},
        )
        for term in form.terms
    )
    return WeakForm(terms, form.point_sources)


def with_field(
    coefficient: AbstractCoefficient, coefficients: Mapping[str, AbstractCoefficient]
) -> AbstractCoefficient:
    def field(part: AbstractCoefficient) -> AbstractCoefficient:
        return coefficients[part.name] if isinstance(part, Latent) else part

    return with_parts(coefficient, field)
