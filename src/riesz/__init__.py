"""Riesz: Bayesian PDE inverse problems from scattered measurements, with honest uncertainty.

Names are imported when first used, so that `import riesz` and the command line start at once.
"""

from importlib import import_module

__version__ = "0.1.0.dev0"

_PUBLIC = {
    "riesz.mesh.mesh": ("Mesh",),
    "riesz.mesh.shapes": ("box", "disc", "interval", "l_shape", "rectangle"),
    "riesz.mesh.refine": ("hierarchy", "refine"),
    "riesz.mesh.quality": ("quality_report",),
    "riesz.mesh.locate": ("locate",),
    "riesz.mesh.tags": (
        "tag_boundary",
        "tag_boundary_inside",
        "tag_boundary_near",
        "tag_line",
        "tag_region",
    ),
    "riesz.mesher.polygon": ("mesh_from_points", "mesh_from_polygon"),
    "riesz.fem.elements.space": ("P1", "P2", "Space"),
    "riesz.fem.terms.coefficient": ("nodal", "per_cell"),
    "riesz.fem.terms.weakform": (
        "WeakForm",
        "advection",
        "diffusion",
        "integral",
        "leakage",
        "line_source",
        "neumann",
        "point_source",
        "reaction",
        "robin",
        "source",
    ),
    "riesz.fem.terms.pointwise": ("dot",),
    "riesz.fem.problem": ("BoundaryValueProblem", "boundary_value_problem"),
    "riesz.fem.assembly": ("jacobian", "residual"),
    "riesz.fem.interpolate": ("point_operator",),
    "riesz.fem.linear.linear_solve": ("ConjugateGradients", "Dense", "SparseLU"),
    "riesz.fem.solve": ("Newton", "solve"),
    "riesz.fem.flux": ("budget", "flux_through"),
    "riesz.penalty.dual_norm": ("dual_norm",),
    "riesz.penalty.schwarz_patches": ("Gram",),
    "riesz.penalty.schwarz": ("schwarz_norm",),
    "riesz.penalty.penalty": ("exact_penalty", "weak_form_penalty"),
    "riesz.latent.kernels": ("RBF", "Matern12", "Matern32", "Matern52"),
    "riesz.latent.gaussian_process": ("GP", "LogGP"),
    "riesz.latent.boundary_process": ("BoundaryGP",),
    "riesz.latent.scales": ("LearnedScales",),
    "riesz.latent.karhunen_loeve": ("KarhunenLoeve",),
    "riesz.latent.network": ("NetworkField",),
    "riesz.latent.regions": ("Regions",),
    "riesz.latent.spde": ("SPDEField",),
    "riesz.observe.observations": ("observations",),
    "riesz.observe.likelihood": ("Gaussian", "StudentT"),
    "riesz.problem.unknown": ("Unknown",),
    "riesz.problem.problem": ("InverseProblem", "inverse_problem"),
    "riesz.posterior.posterior": ("Posterior",),
    "riesz.engines.conditional.engine": ("ConditionalSettings", "conditional"),
    "riesz.engines.conditional.moments": ("conditional_mixture", "conditional_moments"),
    "riesz.engines.laplace.engine": ("LaplaceSettings", "laplace"),
    "riesz.diagnose.importance": ("importance_check", "with_importance_check"),
    "riesz.engines.nuts.engine": ("nuts",),
    "riesz.engines.emulate.settings": ("EmulateSettings",),
    "riesz.engines.emulate.engine": ("emulate",),
    "riesz.inference.fit": ("fit",),
    "riesz.engines.relax.engine": ("RelaxSettings", "relax"),
    "riesz.engines.amortise.engine": ("AmortiseSettings", "amortise"),
    "riesz.engines.amortise.amortised": ("Amortised",),
    "riesz.engines.relax.schedule": ("Annealed", "Fixed", "Learned"),
    "riesz.prediction.grid": ("grid",),
    "riesz.prediction.predict": ("predict", "predict_data"),
    "riesz.prediction.quantity": ("BudgetTerm", "Outflow"),
    "riesz.diagnose.summary": ("summary",),
    "riesz.diagnose.arviz": ("to_arviz",),
    "riesz.io.store.checkpoint": ("Checkpoint",),
    "riesz.io.store.posterior": ("load_posterior", "save_posterior"),
    "riesz.errors": ("FileFormatError", "FormError", "MeshError", "RieszError", "SolveError"),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
_SUBPACKAGES = ("datasets", "diagnose", "io", "plot")

__all__ = [*_MODULE_OF, *_SUBPACKAGES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name in _SUBPACKAGES:
        return import_module(f"riesz.{name}")
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'riesz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
