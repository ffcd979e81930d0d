"""What a weak form sees at one point: the state, the test function and linear forms in it.

The test function is symbolic. An integrand built from it is a `LinearForm`, the pair (density,
flux) that multiplies (v, grad v); using `v` twice, or not at all, is an error by construction.
Small vectors are contracted component by component: XLA then fuses all of the physics into one
loop over cells, where a batched matrix product would break the loop in three.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from riesz.errors import FormError

Number = Any
"""A Python number or a traced scalar."""


class State(eqx.Module):
    """Value and gradient of the unknown at one point.

    `slopes` are the components of the gradient one by one: stacking them into `grad` costs a copy
    that the built-in terms avoid.
    """

    value: Number
    slopes: tuple[Number, ...]

    @property
    def grad(self) -> Float[Array, " dim"]:
        return jnp.stack(self.slopes)


def nowhere(dim: int) -> State:
    """A state for coefficients that do not look at it."""
    return State(jnp.zeros(()), (jnp.zeros(()),) * dim)


class Point(eqx.Module):
    """One point of a cell or facet, where coefficients are evaluated."""

    x: Float[Array, " dim"]
    barycentric: tuple[Number, ...]
    u: State
    z: PyTree


def dot(a: Any, b: Any) -> Number:
    """Inner product of two short vectors: arrays, tuples, or a gradient of the test function."""
    total = a[0] * b[0]
    for i in range(1, len(b)):
        total = total + a[i] * b[i]
    return total


def scale_part(factor: Number, value: Number | None) -> Number | None:
    return None if value is None else factor * value


def add_parts(a: Number | None, b: Number | None) -> Number | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def is_nothing(value: Any) -> bool:
    return isinstance(value, int) and value == 0


class LinearForm(eqx.Module):
    r"""The linear form $v \mapsto G\,v + F\cdot\nabla v$ at one point; None stands for zero."""

    density: Number | None = None
    flux: tuple[Number, ...] | None = None

    # NumPy would otherwise loop over this object instead of calling __rmul__.
    __array_ufunc__ = None

    def __add__(self, other: LinearForm) -> LinearForm:
        if not isinstance(other, LinearForm):
            raise FormError(
                f"a term without the test function ({type(other).__name__}) was added to one with "
                "it: multiply every part of an integrand by v.value or v.grad exactly once."
            )
        if self.flux is None or other.flux is None:
            flux = other.flux if self.flux is None else self.flux
        else:
            flux = tuple(add_parts(a, b) for a, b in zip(self.flux, other.flux, strict=True))
        return LinearForm(add_parts(self.density, other.density), flux)

    def __mul__(self, factor: Number) -> LinearForm:
        if isinstance(factor, LinearForm):
            raise FormError("an integrand must be linear in the test function v, not v times v.")
        flux = None if self.flux is None else tuple(scale_part(factor, f) for f in self.flux)
        return LinearForm(scale_part(factor, self.density), flux)

    __rmul__ = __mul__

    def __radd__(self, other: Any) -> LinearForm:
        return self if is_nothing(other) else self + other  # sum() starts from zero

    def __pow__(self, exponent: Any) -> LinearForm:
        raise FormError("an integrand must be linear in the test function v, not a power of it.")

    def __neg__(self) -> LinearForm:
        return self * -1.0

    def __sub__(self, other: LinearForm) -> LinearForm:
        return self + (-other)

    def __truediv__(self, divisor: Number) -> LinearForm:
        return self * (1.0 / divisor)


class TestGradient(eqx.Module):
    """The gradient of the test function: contract it with a vector to get a linear form."""

    __test__ = False  # not a test case, whatever its name begins with
    __array_ufunc__ = None

    dim: int = eqx.field(static=True)

    def __rmatmul__(self, vector: Any) -> LinearForm:
        if len(vector) != self.dim:
            raise FormError(
                f"a vector with {len(vector)} components was contracted with the gradient of the "
                f"test function, which has {self.dim}."
            )
        return LinearForm(flux=tuple(vector[d] for d in range(self.dim)))

    __matmul__ = __rmatmul__

    def __len__(self) -> int:
        return self.dim

    def __mul__(self, factor: Any) -> LinearForm:
        raise FormError(
            "the gradient of the test function was multiplied: contract it with a vector, as in "
            "(a * u.grad) @ v.grad, or take a component, v.grad[0]."
        )

    __rmul__ = __mul__

    def __getitem__(self, component: int) -> LinearForm:
        axes = range(self.dim)
        return LinearForm(flux=tuple(1.0 if d == axes[component] else None for d in axes))


class TestFunction(eqx.Module):
    """The test function v at one point: `v.value` and `v.grad` enter an integrand linearly."""

    __test__ = False

    dim: int = eqx.field(static=True)

    @property
    def value(self) -> LinearForm:
        return LinearForm(density=1.0)

    @property
    def grad(self) -> TestGradient:
        return TestGradient(self.dim)
