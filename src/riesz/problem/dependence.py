"""Which inputs of a function meet each other? Read off its trace: nothing is computed or compiled.

A function is affine in some inputs together if no second derivative by two of them can differ from
zero. Second derivatives come into being where a product or another nonlinear operation brings
inputs together; all others only pass them on (propagation of sparsity patterns, Griewank & Walther
2008, chapter 7).
"""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

Pair = frozenset[str]
"""Of two inputs; one name alone is an input that meets itself."""


class Dependence(NamedTuple):
    """Inputs that a value reads, and the pairs of them it may not be affine in together.

    A vector that was put together remembers its pieces, each with its length, until it is cut
    again: scales and weights of a field travel in one.
    """

    reads: frozenset[str] = frozenset()
    meets: frozenset[Pair] = frozenset()
    pieces: "tuple[tuple[int, Dependence], ...]" = ()

    def is_affine_in(self, names: Sequence[str]) -> bool:
        """Together, whatever the values of all others."""
        return not any(pair <= set(names) for pair in self.meets)


NOTHING = Dependence()


def join_dependences(parts: Sequence[Dependence]) -> Dependence:
    return reduce(
        lambda one, other: Dependence(one.reads | other.reads, one.meets | other.meets),
        parts,
        NOTHING,
    )


def product(one: Dependence, other: Dependence) -> Dependence:
    crossed = {frozenset((a, b)) for a in one.reads for b in other.reads}
    both = join_dependences([one, other])
    return Dependence(both.reads, both.meets | crossed)


def nonlinear(parts: Sequence[Dependence]) -> Dependence:
    reads = join_dependences(parts).reads
    pairs = combinations_with_replacement(sorted(reads), 2)
    return Dependence(reads, frozenset(map(frozenset, pairs)))


def dependence(function: Callable[..., Any], inputs: dict[str, Any]) -> Dependence:
    """Of all that `function(inputs)` returns, by the names of the inputs, trees of arrays."""
    names = [name for name, tree in inputs.items() for _ in jax.tree.leaves(tree)]
    # In the order of the dictionary as it was given, which that of its leaves need not be.
    flat = [jax.tree.leaves(tree) for tree in inputs.values()]
    shapes = [jax.tree.structure(tree) for tree in inputs.values()]

    def of_leaves(*leaves: Any) -> Any:
        rest, rebuilt = list(leaves), {}
        for name, shape in zip(inputs, shapes, strict=True):
            own, rest = rest[: shape.num_leaves], rest[shape.num_leaves :]
            rebuilt[name] = jax.tree.unflatten(shape, own)
        return function(rebuilt)

    traced = jax.make_jaxpr(of_leaves)(*(leaf for leaves in flat for leaf in leaves))
    marks = [Dependence(frozenset((name,))) for name in names]
    return join_dependences(through(traced.jaxpr, marks))


def through(jaxpr: Jaxpr, inputs: Sequence[Dependence]) -> list[Dependence]:
    """What the outputs of a trace depend on."""
    known: dict[Any, Dependence] = dict(zip(jaxpr.invars, inputs, strict=True))

    def of(atom: Any) -> Dependence:
        return NOTHING if isinstance(atom, Literal) else known.get(atom, NOTHING)

    for equation in jaxpr.eqns:
        operands = [of(atom) for atom in equation.invars]
        if any(one.reads for one in operands):
            outputs = through_one(equation, operands)
            known.update(zip(equation.outvars, outputs, strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def through_one(equation: Any, operands: Sequence[Dependence]) -> list[Dependence]:
    """What the results of one operation depend on."""
    rule = RULES.get(equation.primitive.name)
    if rule is not None:
        return [rule(equation, operands)] * len(equation.outvars)
    if equation.primitive.name == "scan":
        return through_scan(equation, operands)
    inner = inner_trace(equation.params)
    if inner is not None and len(inner.invars) == len(operands):
        return through(inner, operands)
    return [nonlinear(operands)] * len(equation.outvars)


def linear(equation: Any, operands: Sequence[Dependence]) -> Dependence:
    return join_dependences(operands)


def of_quotient(equation: Any, operands: Sequence[Dependence]) -> Dependence:
    top, below = operands
    return join_dependences([product(top, below), nonlinear([below])])


def of_power(equation: Any, operands: Sequence[Dependence]) -> Dependence:
    return operands[0] if equation.params["y"] == 1 else nonlinear(operands)


def of_selection(equation: Any, operands: Sequence[Dependence]) -> Dependence:
    return nonlinear(operands) if operands[0].reads else join_dependences(operands[1:])


def of_linear_solve(equation: Any, operands: Sequence[Dependence]) -> Dependence:
    """Linear in the right-hand side, which comes last, and not in the matrix."""
    number = sum(equation.params.get("const_lengths", (-1,)))
    matrix, rhs = join_dependences(operands[:number]), join_dependences(operands[number:])
    return join_dependences([product(matrix, rhs), nonlinear([matrix])])


def of_concatenation(equation: Any, operands: Sequence[Dependence]) -> Dependence:
    """Vectors one after the other."""
    whole, pieces = join_dependences(operands), []
    if len(equation.outvars[0].aval.shape) > 1:
        return whole
    for atom, one in zip(equation.invars, operands, strict=True):
        pieces += one.pieces or ((atom.aval.shape[0], one),)
    return whole._replace(pieces=tuple(pieces))


def cut(equation: Any, operands: Sequence[Dependence]) -> Dependence:
    """A part of a vector: all pieces of which it has something."""
    (operand,), parameters = operands, equation.params
    if not operand.pieces or parameters["strides"] not in (None, (1,)):
        return join_dependences(operands)
    (first,), (last,) = parameters["start_indices"], parameters["limit_indices"]
    kept, start = [], 0
    for size, piece in operand.pieces:
        inside = min(last, start + size) - max(first, start)
        kept += [(inside, piece)] if inside > 0 else []
        start += size
    return join_dependences([piece for _, piece in kept])._replace(pieces=tuple(kept))


def of_indexing(equation: Any, operands: Sequence[Dependence]) -> Dependence:
    """Values are passed on; whole numbers, which say where they are, must be known."""
    is_place = [not jnp.issubdtype(atom.aval.dtype, jnp.floating) for atom in equation.invars]
    moves = any(one.reads for one, place in zip(operands, is_place, strict=True) if place)
    return nonlinear(operands) if moves else join_dependences(operands)


RULES: dict[str, Callable[[Any, Sequence[Dependence]], Dependence]] = {
    **dict.fromkeys(("add", "add_any", "sub", "neg", "reduce_sum", "cumsum", "copy"), linear),
    **dict.fromkeys(("reshape", "broadcast_in_dim", "squeeze", "transpose", "rev"), linear),
    **dict.fromkeys(("pad", "split", "stack", "unstack", "tile", "copy_p"), linear),
    **dict.fromkeys(("stop_gradient", "optimization_barrier"), linear),
    **dict.fromkeys(("mul", "dot_general"), lambda _, operands: product(*operands)),
    **dict.fromkeys(("triangular_solve", "host_lu", "custom_linear_solve"), of_linear_solve),
    **dict.fromkeys(("gather", "dynamic_slice", "dynamic_update_slice"), of_indexing),
    **dict.fromkeys(("scatter", "scatter-add"), of_indexing),
    "convert_element_type": lambda _, operands: operands[0],
    "div": of_quotient,
    "integer_pow": of_power,
    "select_n": of_selection,
    "concatenate": of_concatenation,
    "slice": cut,
}
"""By operation; all others are taken to bring together whatever they read."""


def inner_trace(parameters: dict[str, Any]) -> Jaxpr | None:
    """Of a function that is called as it is: compiled, or with derivatives of its own."""
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        result = parameters.get(key)
        if isinstance(result, ClosedJaxpr):
            return result.jaxpr
        if isinstance(result, Jaxpr):
            return result
    return None


def through_scan(equation: Any, operands: Sequence[Dependence]) -> list[Dependence]:
    """What is carried grows until it stays as it is: there are only so many pairs.

    JAX has changed how a scan tells what it carries. Shapes tell it in all versions: those of rows,
    which come last on both sides, have an axis more outside of the loop than within.
    """
    body = inner_trace(equation.params)
    assert body is not None
    num_rows = num_longer(equation.invars, body.invars)
    num_carried = len(body.outvars) - num_longer(equation.outvars, body.outvars)
    num_fixed = len(operands) - num_carried - num_rows
    fixed, rest = list(operands[:num_fixed]), list(operands[num_fixed:])
    carried, rows = rest[:num_carried], rest[num_carried:]
    while True:
        result = through(body, [*fixed, *carried, *rows])
        grown = [join_dependences(pair) for pair in zip(carried, result, strict=False)]
        if grown == carried:
            return result
        carried = grown


def num_longer(outside: Sequence[Any], within: Sequence[Any]) -> int:
    """How many arrays have more axes outside of a loop than within."""
    pairs = zip(outside, within, strict=True)
    return sum(len(one.aval.shape) > len(other.aval.shape) for one, other in pairs)
