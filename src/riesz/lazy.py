"""Names that are imported when they are first used, so that `import riesz` starts at once.

The stub beside an `__init__.py` says which there are and where each is defined, for editors and for
this: a line there makes a name public.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from riesz.errors import nearest

MOVED = {
    "solve_in_time": "riesz.solve(problem, z)",
    "recorded_in_time": "riesz.solve(problem, z, record=...)",
    "budget_in_time": "riesz.fem.budget(problem, states, z)",
    "shared_problem": "riesz.inverse_problem(domain, experiments=[...], latents=...)",
    "predict_data": "riesz.predict(posterior, 'measurement', at, quantiles=(0.025, 0.5, 0.975))",
    "predict_in_time": "riesz.predict(posterior, 'u', at, times=times)",
    "scaled": "riesz.fem.scale(value, by)",
    "graded": "riesz.mesh.geometric_ticks(start, stop, num_cells)",
    "assimilated": "riesz.inference.assimilate(problem)",
    "Conditional": "riesz.Laplace() with density=riesz.Marginal()",
    "Emulate": "riesz.GaussianVI() with density=riesz.Surrogate()",
    "Nuts": "riesz.MCMC(kernel='nuts')",
    "Reduced": "riesz.MCMC() with density=riesz.ReducedBasis()",
    "Relax": "riesz.GaussianVI() with density=riesz.Relaxed(...)",
    "Sample": "riesz.MCMC()",
    "Variational": "riesz.GaussianVI()",
    "fit_case": "riesz.read_problem(path).fit(out)",
    "describe_case": "riesz.read_problem(path).check()",
    "calibrate_case": "riesz.read_problem(path).calibrate(out)",
    "prior_predictive": "riesz.read_problem(path).prior_predictive()",
    "write_prediction": "riesz.read_run(folder).predict(...).save(path)",
    "write_next": "riesz.read_run(folder).next(quantity, files)",
    "write_report": "riesz.read_run(folder).report(out)",
    "scenario": "riesz.read_run(folder).scenario(path)",
    "fit_many": "riesz_many.fit_many(problems, out=folder)",
    "sharded_problem": "riesz_sharded.sharded_problem(problem, devices, hierarchy)",
    "sharded_multigrid": "riesz_sharded.sharded_multigrid(...)",
}
"""Public names of earlier versions, and the calls that took their place."""


def public_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from its stub."""
    places: dict[str, tuple[str, bool]] = {}
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                is_name = node.module is not None
                places[alias.name] = (module if is_name else f"{module}.{alias.name}", is_name)
    every = sorted(places)

    def load(name: str) -> Any:
        if name not in places:
            if name in MOVED:
                raise AttributeError(f"{package}.{name} is now {MOVED[name]}")
            hint = f": {nearest(name, every)}".rstrip(": ")
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        module, is_name = places[name]
        return getattr(import_module(module), name) if is_name else import_module(module)

    return load, lambda: every, every
