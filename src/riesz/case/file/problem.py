"""Problem files: an inverse problem written down in TOML, read, checked and built.

Everything in the file is validated before any work begins. Paths in it are relative to its folder.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool

from riesz.case.data import rows
from riesz.case.data.covariates import LOCAL
from riesz.case.data.read import prepare_data
from riesz.case.file import boundary
from riesz.case.file.changes import Scenario
from riesz.case.file.domain import check_num_cells, coarse_mesh, num_levels_of, outline_of
from riesz.case.file.measurements import (
    Posed,
    data_of,
    measurements_content,
    pose_experiments,
    read_measurements,
)
from riesz.case.file.noise import likelihood_values, with_effects
from riesz.case.file.schema import ProblemTables
from riesz.case.file.stresses import Histories, read_series, series_content, series_on
from riesz.case.file.time_axis import check_times, time_notes
from riesz.case.file.wells import WellPoints, read_wells, well_sources, wells_content
from riesz.case.options import CalibrationOptions, FitOptions, takes
from riesz.case.table import Decisions, parse_table, toml_in
from riesz.density.base import AbstractDensityKind
from riesz.density.engine import AbstractEngine
from riesz.errors import RieszError, error_context
from riesz.geometry.crs import could_be_degrees, is_crs_text, is_geographic
from riesz.inference.fit import ASKED_FOR, Choice, choose_engine
from riesz.inference.table import AUTO, engine_of, with_settings
from riesz.io.maps.outlines import OutlineFile
from riesz.io.maps.raster import check_crs, crs_notes
from riesz.io.store.files import read_bytes
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.method.base import AbstractMethod
from riesz.notes import Note, note_of_warning
from riesz.observe.observations import observations
from riesz.problem.posing import Experiment, inverse_problem
from riesz.problem.problem import InverseProblem

if TYPE_CHECKING:
    import riesz as rz
    from riesz.diagnose.calibration import Calibration

CHECKS, FITTING = "riesz.case.check", "riesz.case.run.fit"
"""The modules above this one that do what methods of a case are for: each method imports its own
when it is called."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem file that was understood: what it says, and the problem that it describes."""

    path: Path
    content: bytes  # the file as it was read
    tables: ProblemTables  # what it says, with what was decided
    coarse: Mesh  # the mesh that is refined to the one that the problem lives on
    prepared: rows.DataRows  # the observations, after joins, filters and aggregation
    inputs: "MapInputs"
    domain: Mesh | Hierarchy
    rivers: tuple[boundary.River, ...]
    problem: InverseProblem
    notes: tuple[Note, ...]  # what was warned of
    decided: Decisions  # what the file leaves open, so that a run folder knows it
    remarks: tuple[str, ...] = ()  # what was decided from the data, and why

    @property
    def unit(self) -> str | None:
        """Of the observed values, as the file writes it."""
        return self.tables.observations.unit

    @property
    def transform(self) -> str | None:
        """ "log" where the state is the natural logarithm of what was measured."""
        return self.tables.observations.transform

    @property
    def censored(self) -> Bool[np.ndarray, " sensor"]:
        """Which observations are only known to lie below their value."""
        return self.prepared.censored

    def check(self) -> "rz.case.CaseDescription":
        """What was understood: in plain words as its text, and as its `numbers`."""
        return import_module(f"{CHECKS}.description").CaseDescription(self)

    def prior_predictive(self, seed: int = 0) -> "rz.case.PriorPredictive":
        """Draw the unknowns from their priors and solve for the state, some times."""
        return import_module(f"{CHECKS}.predictive").prior_predictive(self, seed=seed)

    @takes(CalibrationOptions)
    def calibrate(self, options: CalibrationOptions) -> "Calibration":
        """Fit data sets made up from the priors: are posteriors right?

        With `out`, a folder, what was found is kept there as results.json and ranks.png.
        """
        return import_module(f"{CHECKS}.calibration").calibrate_case(self, options)

    @takes(FitOptions)
    def fit(self, options: FitOptions) -> "rz.case.Run":
        """Fit, and keep the posterior in the run folder `out`.

        `engine` overrules the file: a name has the file's settings, a value its own. `check`,
        `progress`, `time_limit` and `devices` are those of `rz.fit`. With `refine` the mesh is then
        refined where the data need it, and fitted on again. The state of the fit is kept every
        `checkpoint_seconds`: with `resume`, one that was stopped goes on from there to the
        same numbers, and one that is finished is read. `told` is called with what a user may want
        to know before the work begins.
        """
        return import_module(FITTING).fit_case(self, options)

    def with_local(self, *, local: bool, remarks: tuple[str, ...]) -> "Case":
        """The same data with it decided whether neighbours share more than the equation tells."""
        names = self.tables.observations.model_copy(update={LOCAL: local})
        tables = self.tables.model_copy(update={"observations": names})
        problem = self.problem
        if not local:
            own = (self.prepared, self.inputs, self.domain, self.rivers)
            problem = build_problem(self.path, tables, *own)
        decided = {**self.decided, "observations": {LOCAL: local}}
        return replace(self, tables=tables, problem=problem, decided=decided, remarks=remarks)

    def choice(
        self,
        engine: AbstractMethod | AbstractEngine | str | None = None,
        density: AbstractDensityKind | str | None = None,
    ) -> Choice:
        """The engine that will be taken, and why; `engine` and `density` overrule the file."""
        table = self.tables.engine
        name = table.name if engine is None else engine
        density = table.density if engine is None and density is None else density
        if isinstance(name, str) and name == AUTO:
            if density is not None:
                raise RieszError("auto chooses the density, too: name a method beside it.")
            taken = choose_engine(self.problem)
            every = (with_settings(one, table.settings) for one in (taken.engine, *taken.then))
            first, *then = every
            return Choice(first, taken.why, tuple(then))
        own = engine_of(name, density, table.settings)
        own.check(self.problem)
        return Choice(own, Note("named_by_file") if engine is None else ASKED_FOR)


def read_problem(path: Path | str) -> Case:
    """Read a problem file and all that it names, and build the problem.

    Solves want `jax.config.update("jax_enable_x64", True)` before.
    """
    return read_case(Path(path))


def read_case(
    path: Path,
    *,
    coarse: Mesh | None = None,
    kept: Path | None = None,
    decided: Decisions = MappingProxyType({}),
    scenario: Scenario | None = None,
) -> Case:
    """A case from a problem file or from a run folder, which passes its own mesh.

    What a folder has `kept` of tables and maps stands in place of the files that are named,
    `decided` in place of what the problem file says. A `scenario` changes it.
    """
    content = read_bytes(path)
    tables = tables_in(path, content, decided) if scenario is None else scenario.tables
    names = tables.observations
    file = outline_of(path, tables.domain) if coarse is None else None
    if kept is None:
        # The least noise of a site, where it comes from the scatter of its readings.
        floor = tables.noise.sd if names.sd_from_scatter else None
        crs = tables.crs or (None if file is None else file.crs)
        timed = tables.noise.drift_sd is not None or tables.time is not None
        prepared = prepare_data(path.parent, names, floor, crs, timed=timed)
        tables, decided = with_crs(path, tables, decided, prepared, file)
        prepared = prepared.within(tables.crs)
    else:  # a run's own, in the problem's coordinates
        prepared = rows.read_data_rows(kept / rows.TABLE, names)
    file = None if file is None else outline_of(path, tables.domain, tables.crs)
    inputs = read_map_inputs(path, tables, kept)
    if coarse is None:
        coarse = coarse_mesh(path, tables.domain, file, prepared.points)
        coarse = boundary.with_stretches(path, coarse, tables.boundary, tables.crs)
    if scenario is not None:
        tables, inputs = apply_scenario(scenario, inputs)
    prepared = rows.drop_outside(prepared, coarse, names)
    for one in inputs.wells:
        rows.check_inside_mesh(one.rows, coarse)
    domain = refine_domain(path, tables, coarse, inputs.regions)
    mesh = finest(domain)
    rivers = tuple(
        boundary.river_on(mesh, own, table.conductance, table.rise)
        for own, table in zip(inputs.rivers, tables.rivers, strict=True)
    )
    with warnings.catch_warnings(record=True) as caught, error_context(path):
        warnings.simplefilter("always")
        problem = build_problem(path, tables, prepared, inputs, domain, rivers)
    notes = (
        *crs_missing(path, tables, file),
        *tables.engine.notes,
        *time_notes(problem.time),
        *boundary.idle_notes(mesh, tables.boundary),
        *([] if tables.crs is None else crs_notes(tables.crs)),
        *prepared.notes,
        *(note_of_warning(warning.message) for warning in caught),
    )
    own = (prepared, inputs, domain, rivers, problem, tuple(dict.fromkeys(notes)))
    return Case(path, content, tables, coarse, *own, decided)


def refine_domain(
    path: Path, tables: ProblemTables, coarse: Mesh, regions: Sequence[boundary.Region]
) -> Mesh | Hierarchy:
    """The mesh as refined as the file says, with the regions on the finest."""
    levels = num_levels_of(tables.domain, coarse)
    check_num_cells(path, coarse.num_cells, levels)
    if levels == 1:
        return boundary.with_regions(path, coarse, regions)
    nested = hierarchy(coarse, levels)
    mesh = boundary.with_regions(path, nested.meshes[-1], regions)
    return replace(nested, meshes=(*nested.meshes[:-1], mesh))


def finest(domain: Mesh | Hierarchy) -> Mesh:
    return domain.meshes[-1] if isinstance(domain, Hierarchy) else domain


class MapInputs(NamedTuple):
    """What files beside the observations hold."""

    wells: tuple[WellPoints, ...]
    rivers: tuple[rows.DataRows, ...]
    regions: tuple[boundary.Region, ...]  # of map layers; a mesh may have some of its own
    measurements: tuple[rows.DataRows, ...]  # beside the observations, and of further experiments
    series: Histories  # what changes in time, by name


def apply_scenario(scenario: Scenario, inputs: MapInputs) -> tuple[ProblemTables, MapInputs]:
    """As it would be under a scenario."""
    wells, series = scenario.change_wells(inputs.wells), scenario.change_series(inputs.series)
    return scenario.change_tables(), inputs._replace(wells=wells, series=series)


def read_map_inputs(path: Path, tables: ProblemTables, kept: Path | None) -> MapInputs:
    """From the files that are named, or from a run's own."""
    folder, crs = path.parent, tables.crs
    return MapInputs(
        read_wells(path, tables.wells, crs, kept),
        boundary.read_rivers(folder, tables.rivers, crs, kept),
        boundary.read_regions(folder, tables.regions, crs, kept),
        read_measurements(path, tables.further_measurements(), crs, kept),
        read_series(folder, tables.series, kept),
    )


def inputs_content(case: Case) -> dict[str, bytes]:
    """The files of what was read, from which a run folder reads it again: others may change."""
    files = {
        rows.TABLE: rows.data_rows_content(case.prepared),
        rows.WELLS: wells_content(case.inputs.wells, case.tables.wells),
        rows.RIVERS: boundary.rivers_content(case.rivers),
        rows.REGIONS: boundary.regions_content(case.inputs.regions, case.coarse),
        rows.MEASUREMENTS: measurements_content(case.inputs.measurements),
        rows.SERIES: series_content(case.inputs.series),
    }
    return {name: content for name, content in files.items() if content}


def build_problem(
    path: Path,
    tables: ProblemTables,
    prepared: rows.DataRows,
    inputs: MapInputs,
    domain: Mesh | Hierarchy,
    rivers: Sequence[boundary.River],
) -> InverseProblem:
    """The inverse problem that the tables describe."""
    likelihood, own = with_effects(tables.observations, tables.noise, prepared)
    priors = tables.priors(nested=isinstance(domain, Hierarchy))
    time = tables.axis
    when = None
    if time is not None and prepared.times is not None:
        when = check_times(prepared.times, time, prepared.path, prepared.at)
    values = likelihood_values(tables.noise, prepared)
    observed = observations(prepared.points, values, times=when)
    count, further = len(tables.measurements), tables.further_measurements()
    data, noise = data_of(tables.measurements, inputs.measurements[:count])
    changing = {} if time is None else series_on(inputs.series, tables.series, time)
    exchange = boundary.river_exchange(rivers, changing)
    stretches = {tag: one.with_series(changing) for tag, one in tables.boundary.items()}
    equation = tables.equation.with_series(changing)
    first = Posed(equation, stretches, inputs.wells, [observed, *data], [likelihood, *noise])
    others = pose_experiments(
        path,
        tables.experiments,
        further[count:],
        inputs.measurements[count:],
        first,
        crs=tables.crs,
        logged=tables.observations.transform is not None,
    )
    mesh = finest(domain)
    experiments = [
        Experiment(
            one.equation.form(mesh)
            + boundary.boundary_exchange(one.boundary)
            + exchange
            - well_sources(one.wells, time),
            one.data,
            one.noise,
            boundary.prescribed_at(one.boundary),
        )
        for one in (first, *others)
    ]
    timed = {}
    if tables.time is not None:
        timed = {"initial": tables.time.initial_state(), "scheme": tables.time.scheme}
    return inverse_problem(
        domain, experiments=experiments, latents=priors | own, times=time, **timed
    )


def with_crs(
    path: Path,
    tables: ProblemTables,
    decided: Decisions,
    prepared: rows.DataRows,
    file: OutlineFile | None,
) -> tuple[ProblemTables, Decisions]:
    """The tables with the crs that files name first, where the problem file names none."""
    named = crs_of_files(path, tables, prepared, file) if tables.crs is None else ()
    known = next((own for own in named if own is not None and is_crs_text(own)), None)
    if known is None:
        return tables, decided
    return tables.model_copy(update={"crs": known}), {**decided, "crs": known}


def crs_of_files(
    path: Path, tables: ProblemTables, prepared: rows.DataRows, file: OutlineFile | None
) -> Iterator[str | None]:
    """Maps beside observations and outline are read, here, only where these name none."""
    yield from sorted([prepared.crs, None if file is None else file.crs], key=in_degrees)
    inputs = read_map_inputs(path, tables, None)
    yield from (one.rows.crs for one in inputs.wells)
    yield from (one.crs for one in (*inputs.rivers, *inputs.regions, *inputs.measurements))


def in_degrees(crs: str | None) -> bool:
    """Those are projected where others are in a length."""
    return crs is not None and is_geographic(crs)


def crs_missing(path: Path, tables: ProblemTables, file: OutlineFile | None) -> list[Note]:
    """What to say where an outline in a length lies nobody knows where."""
    if tables.crs is not None or file is None:
        return []
    if could_be_degrees(np.concatenate(file.outline.rings)):
        return []
    return [Note("not_placed", file=path.name, outline=file.path.name)]


def tables_in(
    path: Path, content: bytes, decided: Decisions = MappingProxyType({})
) -> ProblemTables:
    """What a problem file holds, validated."""
    tables = parse_table(ProblemTables, toml_in(path, content, decided), path)
    placed = (tables.domain, tables.observations, *tables.wells, *tables.measurements)
    for crs in (tables.crs, *(one.crs for one in placed)):
        if crs is not None:
            with error_context(path):
                check_crs(crs)
    return tables
