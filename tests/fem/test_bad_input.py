"""Every wrong input is refused with a message that says what is wrong."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import FormError, MeshError, SolveError
from riesz.fem.assembly import jacobian, residual
from riesz.fem.elements.space import P1, P2, point_operator
from riesz.fem.fluxes import budget, flux_through
from riesz.fem.linear.linear_solve import ConjugateGradients, Dense
from riesz.fem.problem import Newton, boundary_value_problem, check_kinds
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import nodal, per_cell
from riesz.fem.terms.weakform import (
    advection,
    diffusion,
    integral,
    line_source,
    neumann,
    point_source,
    reaction,
    robin,
    source,
)
from riesz.mesh.mesh import Mesh
from riesz.mesh.shapes import box, rectangle

MESH = rectangle((2, 2))  # 9 nodes, 8 cells
SPACE = P1(MESH)
FREE = {"left": 0.0}  # leaves six unknowns free
NAN = float("nan")


def build(form, dirichlet=FREE, space=SPACE, **settings):
    return boundary_value_problem(space, form, dirichlet, **settings)


def one_bad(count, bad):
    return np.where(np.arange(count) == 3, bad, 1.0)


@pytest.mark.parametrize(
    "form",
    [
        lambda: diffusion(NAN),
        lambda: source(np.inf),
        lambda: diffusion(nodal(one_bad(9, NAN))),
        lambda: source(per_cell(one_bad(8, NAN))),
        lambda: diffusion(lambda x: jnp.sqrt(x[0] - 0.5)),
        lambda: neumann(lambda x: jnp.sqrt(x[1] - 0.5), on="right"),
        lambda: robin(1.0, NAN, on="right"),
        lambda: point_source([[0.5, 0.5]], [NAN]),
        lambda: point_source([[0.5, NAN]], [1.0]),
    ],
    ids=[
        "constant",
        "infinite",
        "nodal",
        "per cell",
        "function",
        "facet",
        "level",
        "rate",
        "point",
    ],
)
def test_values_that_are_not_finite(form):
    with pytest.raises(FormError, match=r"\d NaN or infinite of \d+ values, first at index"):
        build(diffusion(1.0) + form())


@pytest.mark.parametrize(
    "diffusivity",
    [
        0.0,
        -2,
        nodal(one_bad(9, -1.0)),
        per_cell(one_bad(8, 0.0)),
        np.diag([1.0, -1.0]),
        [[1.0, 2.0], [2.0, 1.0]],
        lambda x: x[0] - 0.5,
    ],
    ids=["zero", "negative", "nodal", "per cell", "tensor", "indefinite", "function"],
)
def test_a_diffusivity_that_is_not_positive(diffusivity):
    with pytest.raises(FormError, match=r"diffusivity of diffusion .*must be positive"):
        build(diffusion(diffusivity))


@pytest.mark.parametrize("value", [-1.0, nodal(one_bad(9, -1.0))], ids=["constant", "nodal"])
def test_a_latent_diffusivity_that_is_not_positive(value):
    with pytest.raises(FormError, match=r"must be positive; for an unknown, use its logarithm"):
        solve(build(diffusion("a")), {"a": value})


def test_functions_are_looked_at_everywhere_some_cells_at_a_time(monkeypatch):
    monkeypatch.setattr("riesz.fem.checks.CELLS_AT_ONCE", 3)
    with pytest.raises(FormError, match=r"-0\.15 at 2 of 24 places"):
        build(diffusion(lambda x: 1.6 - x[0] - x[1]))


def test_a_function_of_latents_that_is_not_positive():
    with pytest.raises(FormError, match=r"must be positive"):
        solve(build(diffusion(lambda x, z: z["a"] - x[0])), {"a": jnp.asarray(0.5)})


@pytest.mark.parametrize(
    "form",
    [
        lambda: diffusion(1.0) + neumann(1.0, on="botom"),
        lambda: diffusion(1.0) - line_source(1.0, on="botom"),
        lambda: diffusion(1.0) + robin(1.0, 1.0, on="botom"),
    ],
)
def test_an_unknown_tag_in_a_term(form):
    with pytest.raises(MeshError, match=r"no facet tag 'botom': did you mean 'bottom'\?"):
        build(form())


def test_an_unknown_tag_of_a_dirichlet_condition():
    with pytest.raises(MeshError, match=r"no facet tag 'north': The mesh has 'bottom', 'boundary'"):
        build(diffusion(1.0), {"north": 0.0})


def test_arrays_of_wrong_length():
    with pytest.raises(FormError, match=r"has 8 values, but the mesh has 9 nodes"):
        build(diffusion(nodal(np.ones(8))))
    with pytest.raises(FormError, match=r"has 9 values, but the mesh has 8 cells"):
        build(diffusion(per_cell(np.ones(9))))
    with pytest.raises(FormError, match=r"has 8 values, but the mesh has 9 nodes"):
        solve(build(diffusion("a")), {"a": nodal(np.ones(8))})


def test_a_bare_array_does_not_say_where_its_values_are():
    with pytest.raises(FormError, match=r"wrap values at the nodes in nodal"):
        build(diffusion(np.ones(9)))
    with pytest.raises(FormError, match=r"diffusivity 'a' is an array of shape \(9,\)"):
        solve(build(diffusion("a")), {"a": np.ones(9)})


@pytest.mark.parametrize(
    "velocity",
    [1.0, np.ones(3), nodal(np.ones(9)), lambda x: x[0]],
    ids=["scalar", "three", "nodal scalar", "function"],
)
def test_a_velocity_of_wrong_shape(velocity):
    with pytest.raises(FormError, match=r"velocity of advection has shape .* must be \(2,\)"):
        build(diffusion(1.0) + advection(velocity))


def test_a_diffusivity_of_wrong_shape():
    with pytest.raises(FormError, match=r"must be \(\) or \(2, 2\)"):
        build(diffusion([1.0, 2.0]))


@pytest.mark.parametrize("function", [lambda x, z, u: 1.0, lambda: 1.0])
def test_a_function_with_a_wrong_number_of_arguments(function):
    with pytest.raises(FormError, match=r"function of \d arguments: it takes \(x\), \(x, z\) or"):
        diffusion(function)


def test_coefficients_that_are_no_numbers():
    with pytest.raises(FormError, match=r"give a number, an array or a function"):
        diffusion([1.0, "two"])
    with pytest.raises(FormError, match=r"latent 'a' is the text 'b', not a value"):
        solve(build(diffusion("a")), {"a": "b"})


@pytest.mark.parametrize("z", [None, {"b": 1.0}, [1.0]], ids=["none", "another", "no mapping"])
def test_a_missing_latent(z):
    with pytest.raises(FormError, match=r"diffusivity is the latent 'a', but z holds"):
        solve(build(diffusion("a")), z)


def test_a_missing_latent_in_compiled_code():
    problem = build(diffusion("a"))
    with pytest.raises(FormError, match=r"the latent 'a', but z holds \['b'\]"):
        jax.jit(lambda z: residual(problem, jnp.zeros(9), z))({"b": jnp.asarray(1.0)})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (nodal(np.ones(8)), r"Dirichlet value on 'left' has 8 values, but the mesh has 9 nodes"),
        (per_cell(np.ones(8)), r"Dirichlet value on 'left' is per cell"),
        (np.ones(2), r"Dirichlet value on 'left' has shape \(2,\)"),
        (NAN, r"Dirichlet value on 'left' has 1 NaN"),
        (lambda x: jnp.log(x[0]), r"Dirichlet value on 'left' has 3 NaN or infinite of 3"),
        (lambda x, z, u, grad_u: u, r"Dirichlet value on 'left' is a function of the state"),
    ],
    ids=["length", "per cell", "vector", "nan", "function", "state"],
)
def test_a_wrong_dirichlet_value(value, message):
    with pytest.raises(FormError, match=message):
        build(diffusion(1.0), {"left": value})


def test_a_wrong_latent_dirichlet_value():
    problem = build(diffusion(1.0), {"left": "head"})
    with pytest.raises(FormError, match=r"has 8 values, but the mesh has 9 nodes"):
        solve(problem, {"head": nodal(np.ones(8))})


@pytest.fixture(scope="module")
def without_dirichlet():
    return build(diffusion("a") - source("f"), {})


SINGULAR = r"without a Dirichlet condition u may be fixed only up to a constant"
Z = {"a": jnp.asarray(np.array(1.0)), "f": jnp.asarray(np.array(1.0))}


def test_a_singular_system(without_dirichlet):
    with pytest.raises(SolveError, match=SINGULAR):
        solve(without_dirichlet, Z)


def test_a_singular_system_in_compiled_code_is_nan_and_ends_nothing(without_dirichlet):
    assert np.isnan(eqx.filter_jit(solve)(without_dirichlet, Z)).all()
    every = jax.vmap(lambda a: solve(without_dirichlet, Z | {"a": a}))(jnp.array([1.0, 2.0]))
    assert np.isnan(every).all()


def test_an_eager_gradient_of_a_singular_system_says_so(without_dirichlet):
    with pytest.raises(SolveError, match=SINGULAR):
        jax.grad(lambda a: solve(without_dirichlet, Z | {"a": a}).sum())(1.0)


def test_an_iteration_that_does_not_converge():
    problem = build(diffusion(lambda x, z, u, grad_u: jnp.exp(-u * u)) - source(50.0))
    with pytest.raises(SolveError, match=r"in at most 5 steps.*Relative residual reached"):
        solve(problem, newton=Newton(max_steps=5))


def test_a_part_of_the_domain_that_nothing_holds():
    apart = Mesh(
        np.concatenate([MESH.nodes, MESH.nodes + 5.0]),
        np.concatenate([MESH.cells, MESH.cells + 9]),
        {"left": MESH.facets["left"]},
    )
    problem = build(diffusion(1.0) - source(1.0), FREE, P1(apart))
    with pytest.raises(SolveError, match=r"matrix is singular: every part of the domain"):
        solve(problem)


def test_equations_that_are_not_finite_at_the_start():
    problem = build(diffusion(1.0) + reaction(lambda x, z, u, grad_u: jnp.log(u)) - source(1.0))
    with pytest.raises(SolveError, match=r"NaN or infinite at the start"):
        solve(problem)


@pytest.mark.parametrize("solver", [Dense(), ConjugateGradients()])
def test_a_compatible_but_singular_system_is_refused_by_every_solver(solver):
    problem = build(diffusion(1.0) - source(lambda x: x[0] - 0.5), {})
    with pytest.raises(SolveError, match=SINGULAR):
        solve(problem, linear_solver=solver)


@pytest.mark.parametrize("length", [5, 50])
def test_a_state_of_the_wrong_length(length):
    problem, state = build(diffusion(1.0) - source(1.0)), jnp.ones(length)
    for use in (residual, jacobian, budget):
        with pytest.raises(FormError, match=rf"shape \({length},\), but the space has 9 unknowns"):
            use(problem, state)
    with pytest.raises(FormError, match=r"the space has 9 unknowns"):
        flux_through(problem, state, on="left")
    with pytest.raises(FormError, match=r"the space has 9 unknowns"):
        solve(problem, initial=state)
    with pytest.raises(FormError, match=r"the space has 9 unknowns"):
        _ = point_operator(SPACE, [[0.5, 0.5]]) @ state


def test_latents_of_the_wrong_length_or_shape_are_refused_in_compiled_code_too():
    problem = build(diffusion("a") - source("f"))
    with pytest.raises(FormError, match=r"5 values, but the mesh has 9 nodes"):
        residual(problem, jnp.ones(9), {"a": nodal(np.ones(5)), "f": 1.0})
    with pytest.raises(FormError, match=r"5 values, but the mesh has 8 cells"):
        residual(problem, jnp.ones(9), {"a": per_cell(np.ones(5)), "f": 1.0})
    with pytest.raises(FormError, match=r"strength of source has shape \(1,\)"):
        residual(problem, jnp.ones(9), {"a": 1.0, "f": jnp.ones(1)})
    with pytest.raises(FormError, match=r"5 values, but the mesh has 9 nodes"):
        jax.grad(lambda a: solve(problem, {"a": nodal(a), "f": 1.0}).sum())(jnp.ones(5))


def test_a_function_of_the_state_with_the_wrong_shape():
    problem = build(diffusion(1.0) - source(lambda x, z, u, grad_u: grad_u))
    with pytest.raises(FormError, match=r"strength of source has shape \(2,\)"):
        residual(problem, jnp.ones(9))


def test_a_hand_written_integrand_that_is_not_a_number():
    problem = build(integral(lambda u, v: u.grad * v.value))
    with pytest.raises(FormError, match=r"array of shape \(2,\) at each point"):
        residual(problem, jnp.ones(9))


def test_a_hand_written_integrand_without_its_coefficient_or_with_a_normal_on_cells():
    def leaking(u, v, *, rate):
        return rate * u.value * v.value

    with pytest.raises(FormError, match=r"needs 'rate', which was not given"):
        integral(leaking)
    with pytest.raises(FormError, match=r"cells have no normal"):
        integral(lambda u, v, normal: normal[0] * v.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((MESH, diffusion(1.0), {}), r"the space is a Mesh"),
        ((SPACE, diffusion, {}), r"the equation is a function"),
        ((SPACE, diffusion(1.0), 0.0), r"Dirichlet conditions are a float"),
    ],
)
def test_arguments_of_the_wrong_kind(arguments, message):
    with pytest.raises(FormError, match=message):
        check_kinds(*arguments)


def test_all_unknowns_fixed():
    with pytest.raises(FormError, match=r"all 4 unknowns are prescribed"):
        build(diffusion(1.0), {"boundary": 0.0}, P1(rectangle((1, 1))))


def test_a_form_without_terms_over_the_cells():
    with pytest.raises(FormError, match=r"has no term over the cells"):
        build(neumann(1.0, on="left"))


@pytest.mark.parametrize("jump", [True, 0.0, -1.0, float("nan"), "one"])
def test_a_jump_that_is_no_positive_number(jump):
    with pytest.raises(FormError, match=r"crosswind is .*: give the size of jumps"):
        advection(np.ones(2), supg=True, crosswind=jump)


def test_crosswind_diffusion_without_upwinding():
    with pytest.raises(FormError, match=r"give supg=True with it"):
        advection(np.ones(2), crosswind=1.0)


def test_upwinding_of_quadratic_elements():
    with pytest.raises(FormError, match=r"supg=True needs P1 elements"):
        build(diffusion(1.0) + advection(np.ones(2), supg=True), space=P2(MESH))


def test_quadratic_tetrahedra():
    with pytest.raises(FormError, match=r"tetrahedra have degree 1 only"):
        P2(box((1, 1, 1)))


def test_an_exact_solve_in_single_precision():
    problem = build(diffusion(1.0) - source(1.0), dtype=jnp.float32)
    assert residual(problem, jnp.zeros(9, jnp.float32)).dtype == jnp.float32
    with pytest.raises(SolveError, match=r"exact solves need float64"):
        solve(problem)


def test_single_precision_that_nobody_asked_for():
    with jax.enable_x64(False), pytest.warns(UserWarning, match=r"jax_enable_x64"):
        problem = build(diffusion(1.0))
    assert problem.dtype == jnp.float32


def test_a_point_source_outside_the_mesh():
    with pytest.raises(MeshError, match=r"1 of 2 points"):
        build(diffusion(1.0) - point_source([[0.5, 0.5], [2.0, 0.5]], [1.0, 1.0]))


def test_rates_of_wrong_length():
    with pytest.raises(FormError, match=r"2 points but rates of shape \(3,\)"):
        point_source([[0.5, 0.5], [0.2, 0.5]], np.ones(3))
    problem = build(diffusion(1.0) - point_source([[0.5, 0.5]], "rates"))
    with pytest.raises(FormError, match=r"'rates' have shape \(2,\), but there are 1 points"):
        residual(problem, jnp.zeros(9), {"rates": jnp.ones(2)})


def test_a_tolerance_that_is_none():
    with pytest.raises(SolveError, match=r"CG tolerance is 2.0: it must lie between 0 and 1"):
        ConjugateGradients(tolerance=2.0)


def test_forms_combine_with_forms_only():
    with pytest.raises(TypeError):
        diffusion(1.0) + 1.0
    assert repr(diffusion(1.0) - source(1.0) + reaction("k")) == (
        "WeakForm(+ diffusion - source + reaction = 0)"
    )


def test_a_well_just_outside_needs_a_tolerance_and_then_stands_on_the_boundary():
    beside = [[1.0000001, 0.5]]
    with pytest.raises(MeshError, match=r"outside"):
        build(diffusion(1.0) - point_source(beside, [1.0]))
    moved = build(diffusion(1.0) - point_source(beside, [1.0], tolerance=1e-3))
    there = build(diffusion(1.0) - point_source([[1.0, 0.5]], [1.0]))
    state = jnp.zeros(9)
    np.testing.assert_allclose(residual(moved, state), residual(there, state), atol=1e-12)
