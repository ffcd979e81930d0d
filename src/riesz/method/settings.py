"""Settings by name, checked where a value is made, whether in Python or by a problem file.

What a method or a density does not have, or would not read, is refused. Each kind of setting says
in words what it may be.
"""

import inspect
from collections.abc import Mapping
from functools import reduce
from operator import or_
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from riesz.errors import RieszError, any_of, nearest
from riesz.fem.linear import linear_solve
from riesz.penalty.gram import Gram
from riesz.posterior.posterior import Posterior

SOLVERS = {
    "auto": linear_solve.Automatic,
    "sparse-lu": linear_solve.SparseLU,
    "dense": linear_solve.Dense,
    "conjugate-gradients": linear_solve.ConjugateGradients,
}

Own = TypeVar("Own", bound="Settings")


def as_number(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def as_solver(value: Any) -> linear_solve.AbstractLinearSolver:
    if isinstance(value, linear_solve.AbstractLinearSolver):
        return value
    if isinstance(value, str) and value in SOLVERS:
        return SOLVERS[value]()
    raise ValueError(value)


def as_gram(value: Any) -> Gram | None:
    if value is None or isinstance(value, Gram):
        return value
    if isinstance(value, Mapping) and set(value) <= {"diffusivity", "reaction"}:
        numbers = {name: float(number) for name, number in value.items()}
        if all(0 <= number < np.inf for number in numbers.values()):
            return Gram(**numbers)
    raise ValueError(value)


def as_start(value: Any) -> Any:
    """Coordinates, a posterior, or the method whose posterior is taken."""
    if value is None or isinstance(value, Posterior | Settings):
        return value
    try:
        numbers = np.asarray(value, dtype=float)
    except TypeError as error:
        raise ValueError(value) from error
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError(value)
    return numbers


Count = Annotated[
    int,
    BeforeValidator(as_number),
    Field(strict=True, ge=1, description="a whole number of at least 1"),
]
CountOrZero = Annotated[
    int,
    BeforeValidator(as_number),
    Field(strict=True, ge=0, description="a whole number of at least 0"),
]
Share = Annotated[
    float,
    BeforeValidator(as_number),
    Field(strict=True, gt=0, lt=1, description="a number between 0 and 1"),
]
CountOrNone = Annotated[Count | None, Field(description="a whole number of at least 1, or nothing")]
ShareOrZero = Annotated[
    float,
    BeforeValidator(as_number),
    Field(strict=True, ge=0, lt=1, description="0, or a number below 1"),
]
Flag = Annotated[bool, BeforeValidator(as_number), Field(strict=True, description="true or false")]
Solver = Annotated[
    linear_solve.AbstractLinearSolver
    | Literal["auto", "sparse-lu", "dense", "conjugate-gradients"],
    PlainValidator(as_solver),
    Field(description=f"{any_of(SOLVERS)}, or in Python a linear solver"),
]
InnerProduct = Annotated[
    Gram | Mapping[str, float] | None,
    PlainValidator(as_gram),
    Field(
        description="diffusivity and reaction, numbers that are not negative, as in rz.penalty.Gram"
    ),
]
Start = Annotated[
    Any,
    PlainValidator(as_start),
    Field(
        description="a list of standard normal coordinates, or the method whose posterior is "
        "taken: its name in a problem file, a value of it or a posterior in Python"
    ),
]


def without_checks(kind: Any) -> Any:
    """A type as people read it, also where one of several has checks of its own."""
    if get_origin(kind) is Annotated:
        return without_checks(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return reduce(or_, map(without_checks, get_args(kind)))
    return kind


class Settings(BaseModel):
    """Settings by name, checked where they are given."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: ClassVar[str]

    if not TYPE_CHECKING:  # editors are to see the settings themselves

        def __init__(self, **settings: Any):
            known = type(self).model_fields
            for name in settings:
                if name not in known:
                    raise RieszError(
                        f"{self.name} has no setting {name!r}: {nearest(name, known)}It has "
                        f"{any_of(known)}."
                    )
            try:
                super().__init__(**settings)
            except ValidationError as error:
                setting = str(error.errors()[0]["loc"][0])
                raise RieszError(
                    f"the setting {setting} of {self.name} is {settings[setting]!r}: give "
                    f"{known[setting].description}."
                ) from None
            for name, why in self.inert().items():
                if name in self.model_fields_set:
                    raise RieszError(
                        f"the setting {name} of {self.name} would do nothing: {why}. Leave it out."
                    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """What `help` shows are the kinds of settings, without how they are checked."""
        super().__pydantic_init_subclass__(**kwargs)
        shown = inspect.signature(cls)
        bare = [
            one.replace(annotation=without_checks(one.annotation))
            for one in shown.parameters.values()
        ]
        setattr(cls, "__signature__", shown.replace(parameters=bare))  # noqa: B010

    def with_settings(self: Own, **settings: Any) -> Own:
        """The same with other settings."""
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set}
                          | settings)  # fmt: skip

    def inert(self) -> dict[str, str]:
        """Settings that the others leave without effect, and why."""
        return {}
