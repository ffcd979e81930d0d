r"""GP-D and GP-DT: the paper's own models of the aquifer (supplement E of Tait & Damoulas, 2020).

$-\nabla\cdot(a\nabla u) + \tau\cdot\nabla u = f$ with $\log a$ and $f$ Gaussian processes (Matern
5/2, 50 inducing points each) and $\tau \sim N(0, I)$; GP-D has no $\tau$. A network $\mu(x)$ stands
for $u$ and does not see the fields. Nothing is prescribed on the boundary: test functions vanish
there. We differ in the norm, additive Schwarz patches instead of a truncated inverse, and say what
the paper leaves open: units are those of the training wells, which fixes what the priors mean.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.mesh.mesh import BOUNDARY, Mesh
from riesz.mesh.refinement import Hierarchy
from riesz.method.training import History
from riesz.penalty.patch import WIDTH_STEP, Widths
from riesz.penalty.penalty import WeakFormPenalty, weak_form_penalty
from riesz.penalty.schwarz import schwarz_norm
from riesz.posterior.family import FullRank, full_rank
from riesz.priors.kernels import DOMAIN_SHARE, Matern52
from riesz.priors.representatives import spread_nodes
from riesz_paper.baselines.gp_physics.drawn_fields import gp_d_form, gp_dt_form
from riesz_paper.baselines.gp_physics.settings import PAPER, GpPhysicsSettings
from riesz_paper.baselines.gp_physics.sparse_process import Frame, sparse_process
from riesz_paper.baselines.gp_physics.spatial_network import surrogate_draws
from riesz_paper.baselines.gp_physics.spatial_surrogate import (
    Places,
    SpatialSurrogate,
    Units,
    spatial_surrogate,
    units_of,
)
from riesz_paper.baselines.gp_physics.training import (
    Fields,
    Physics,
    Task,
    Trained,
    fitted,
    key_for,
)
from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.method import Draws, Method, Values

QUADRATURE_DEGREE = 2

Points = Float[np.ndarray, "place 2"]
OfPoints = Float[np.ndarray, " place"]


@dataclass(frozen=True, eq=False)
class GpPhysicsPredictor:
    """A trained surrogate with its fields; `history` has the terms at each epoch.

    The diffusivity has no unit; source (feet per square metre) and transport (per metre) are those
    that go with it, as the equation does not know the scale of all three.
    """

    surrogate: SpatialSurrogate
    fields: Fields
    frame: Frame
    units: Units
    history: History

    def __call__(self, at: Covariates) -> Draws:
        return surrogate_draws(self.surrogate, self.units, at)

    def diffusivity(self, points: Points) -> OfPoints:
        r"""$E_q[e^{g(x)}]$."""
        mean, variance = self.moments(self.fields.log_diffusivity, points)
        return np.exp(mean + variance / 2)

    def source(self, points: Points) -> OfPoints:
        r"""$E_q[f(x)]$, in feet per square metre."""
        mean, _ = self.moments(self.fields.source, points)
        return self.units.values.spread / self.units.length**2 * mean

    def transport(self) -> Float[np.ndarray, " 2"]:
        r"""$E_q[\tau]$, per metre; zero in GP-D."""
        if self.fields.transport is None:
            return np.zeros(2)
        return np.asarray(self.fields.transport.mean) / self.units.length

    def moments(self, q: FullRank, points: Points) -> tuple[OfPoints, OfPoints]:
        """Mean and variance of a field in standard units."""
        mean, variance = moments_at(self.frame, q, jnp.asarray(self.units.places(points)))
        return np.asarray(mean), np.asarray(variance)


@eqx.filter_jit
def moments_at(
    frame: Frame, q: FullRank, places: Places
) -> tuple[Float[Array, " place"], Float[Array, " place"]]:
    return jax.vmap(frame.projection(q).at)(places)


def gp_d(meshes: Hierarchy, settings: GpPhysicsSettings = PAPER) -> Method:
    """Diffusion with an unknown diffusivity and an unknown source; meshes in metres."""
    return partial(trained_gp_physics, meshes=meshes, settings=settings, transport=False)


def gp_dt(meshes: Hierarchy, settings: GpPhysicsSettings = PAPER) -> Method:
    """The same with an unknown transport, one for the whole domain."""
    return partial(trained_gp_physics, meshes=meshes, settings=settings, transport=True)


def trained_gp_physics(
    training: Covariates,
    target: Values,
    *,
    seed: int,
    meshes: Hierarchy,
    settings: GpPhysicsSettings,
    transport: bool,
) -> GpPhysicsPredictor:
    """Train; an equation changes neither the first surrogate nor the order of its steps."""
    check_target(training, target)
    units = units_of(training, target)
    physics = physics_on(meshes, units, settings, transport=transport)
    fields = prior_fields(physics.frame, transport=transport)
    surrogate = spatial_surrogate(key_for(seed, "surrogate"))
    with_equation = math.isfinite(settings.last_epsilon)
    task = Task(
        places=jnp.asarray(units.places(training.points)),
        target=units.values.scaled(target),
        physics=physics if with_equation else None,
        settings=settings,
    )
    start = Trained(surrogate, fields if with_equation else None)
    trained, history = fitted(start, task, key_for(seed, "steps"))
    found = fields if trained.fields is None else trained.fields
    return GpPhysicsPredictor(trained.surrogate, found, physics.frame, units, history)


def physics_on(
    meshes: Hierarchy, units: Units, settings: GpPhysicsSettings, *, transport: bool
) -> Physics:
    """Penalty and priors in standard units, inducing points spread over the mesh."""
    penalty = penalty_on(
        meshes,
        units.centre,
        units.length,
        transport,
        settings.num_patches,
        settings.patch_nodes,
    )
    mesh = penalty.problem.space.mesh
    count = min(settings.num_inducing, mesh.num_nodes)
    inducing = mesh.nodes[spread_nodes(mesh, count, np.ones(2))]
    longest = float(np.ptp(mesh.nodes, axis=0).max())
    length = DOMAIN_SHARE * longest if settings.length is None else settings.length
    process = sparse_process(Matern52, inducing, length=length, sd=settings.sd, one_length=True)
    return Physics(penalty, process.frame())


def prior_fields(frame: Frame, *, transport: bool) -> Fields:
    """The priors, to start from."""
    q, dtype = full_rank(len(frame.inducing), frame.whitening.dtype), frame.whitening.dtype
    return Fields(q, q, full_rank(2, dtype) if transport else None)


@lru_cache(maxsize=8)
def penalty_on(
    meshes: Hierarchy,
    centre: tuple[float, float],
    length: float,
    transport: bool,
    num_patches: int,
    patch_nodes: int,
) -> WeakFormPenalty:
    """The plug-in; the same object for the same units, so that steps compile once."""
    nested = Hierarchy(
        tuple(moved(mesh, centre, length) for mesh in meshes.meshes), meshes.prolongations
    )
    problem = boundary_value_problem(
        P1(nested.meshes[-1]),
        gp_dt_form() if transport else gp_d_form(),
        {BOUNDARY: 0.0},
        quadrature_degree=QUADRATURE_DEGREE,
    )
    norm = schwarz_norm(problem, nested, patch_nodes=patch_nodes, room=ample_room(patch_nodes))
    return weak_form_penalty(
        problem, nested, norm=norm, num_patches=num_patches, free_boundary=True
    )


def moved(mesh: Mesh, centre: tuple[float, float], length: float) -> Mesh:
    """The mesh in other units of length."""
    return Mesh((mesh.nodes - np.array(centre)) / length, mesh.cells, mesh.facets, mesh.regions)


def ample_room(patch_nodes: int) -> Widths:
    r"""For patches of odd shapes on triangle meshes of any size, without facets.

    A square patch has $(\sqrt n + 2)^2$ nodes and $2 (\sqrt n + 1)^2$ cells around it; of ten
    thousand patches of an irregular mesh the largest had 1.7 and 1.4 times as many.
    """
    side = np.sqrt(patch_nodes)

    def rounded(count: float) -> int:
        return WIDTH_STEP * int(np.ceil(count / WIDTH_STEP))

    return Widths(rounded(1.75 * (side + 2) ** 2), rounded(3 * (side + 1) ** 2), ())
