"""From a layer of points to a map and a report, in one step."""

import json
from pathlib import Path

from qgis.core import (
    NULL,
    QgsGeometry,
    QgsProcessingException,
    QgsProcessingParameterBoolean,
    QgsProcessingParameterFeatureSource,
    QgsProcessingParameterField,
    QgsProcessingParameterFolderDestination,
)

from riesz_processing import commands
from riesz_processing.algorithms.base import POINTS, POLYGONS, RieszAlgorithm


class MapFromMeasurements(RieszAlgorithm):
    """`riesz init`, `fit`, `predict` and `report`."""

    INPUT, FIELD, POLYGON, LOG = "INPUT", "FIELD", "POLYGON", "LOG"

    def name(self):
        return "mapfrommeasurements"

    def displayName(self):
        return "Map from measurements"

    def shortHelpString(self):
        return (
            "A map with its uncertainty from values at points: a first problem file is written "
            "(a smooth source and what is not known on the rim bend the state), fitted and mapped, "
            "and a report says how far to trust it. The folder keeps the problem file, every line "
            "of it explained, to change and to fit again. Layers in degrees are projected into "
            "metres."
        )

    def initAlgorithm(self, config=None):
        self.addParameter(
            QgsProcessingParameterFeatureSource(
                self.INPUT, "Measurements, a layer of points", POINTS
            )
        )
        self.addParameter(
            QgsProcessingParameterField(
                self.FIELD, "Field of the values", parentLayerParameterName=self.INPUT
            )
        )
        self.addParameter(
            QgsProcessingParameterFeatureSource(
                self.POLYGON,
                "Outline, a layer of polygons (none: the surroundings of the points)",
                POLYGONS,
                optional=True,
            )
        )
        self.addParameter(
            QgsProcessingParameterBoolean(
                self.LOG, "Model the logarithm, for skewed positive values", False
            )
        )
        self.add_map_parameters()
        self.addParameter(
            QgsProcessingParameterFolderDestination(self.RUN, "Folder of problem file and run")
        )

    def processAlgorithm(self, parameters, context, feedback):
        folder = Path(self.parameterAsString(parameters, self.RUN, context))
        folder.mkdir(parents=True, exist_ok=True)
        problem, run = folder / "problem.toml", folder / "run"
        if problem.exists():
            raise QgsProcessingException(f"{problem} is there already: choose another folder.")
        source = self.parameterAsSource(parameters, self.INPUT, context)
        if source is None:
            raise QgsProcessingException(self.invalidSourceError(parameters, self.INPUT))
        field = self.parameterAsString(parameters, self.FIELD, context)
        table = folder / "measurements.csv"
        try:
            count = commands.write_points(table, rows_of(source, field))
            outline = self.parameterAsSource(parameters, self.POLYGON, context)
            polygon = None if outline is None else folder / "outline.geojson"
            if polygon is not None:
                commands.write_polygon(polygon, union_of(outline))
        except commands.RieszFailed as error:
            raise QgsProcessingException(str(error)) from error
        feedback.pushInfo(f"{count} points with a value")
        words = commands.init_words(
            table,
            problem,
            crs=crs_text(source.sourceCrs()),
            polygon=polygon,
            polygon_crs=None if outline is None else crs_text(outline.sourceCrs()),
            log=self.parameterAsBool(parameters, self.LOG, context),
        )
        for guess in self.run_riesz(words, feedback)["guesses"]:
            feedback.pushInfo(guess)
        feedback.setProgress(10)
        self.run_riesz(commands.fit_words(problem, run), feedback)
        feedback.setProgress(70)
        made = self.map_and_report(run, parameters, context, feedback)
        return {self.RUN: str(folder), **made}


def rows_of(source, field):
    """Places and values; of points in groups the first of each."""
    for feature in source.getFeatures():
        value = feature[field]
        if feature.hasGeometry() and value != NULL:
            point = next(feature.geometry().vertices())
            yield point.x(), point.y(), value


def union_of(source):
    """All polygons of a layer as one geometry, in GeoJSON."""
    shapes = [feature.geometry() for feature in source.getFeatures() if feature.hasGeometry()]
    joined = shapes[0] if len(shapes) == 1 else QgsGeometry.unaryUnion(shapes)
    return json.loads(joined.asJson(17) or "null") or {}


def crs_text(crs):
    """A code where there is one that others know, and else WKT."""
    if not crs.isValid():
        return None
    code = crs.authid()
    return code if code.startswith("EPSG:") else crs.toWkt()
