"""What the algorithms share: parameters of maps, and commands with their feedback."""

from processing.core.ProcessingConfig import ProcessingConfig
from qgis.core import (
    QgsProcessing,
    QgsProcessingAlgorithm,
    QgsProcessingException,
    QgsProcessingParameterFileDestination,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRasterDestination,
    QgsProcessingParameterString,
)

from riesz_processing import commands


class RieszAlgorithm(QgsProcessingAlgorithm):
    """An algorithm that runs commands."""

    QUANTITY, STAT, CELL = "QUANTITY", "STAT", "CELL"
    RUN, MAP, REPORT = "RUN", "MAP", "REPORT"

    def createInstance(self):
        return type(self)()

    def run_riesz(self, words, feedback):
        """One command; its words go to the log, and the cancel button stops it."""
        try:
            path = commands.command_path(ProcessingConfig.getSetting("RIESZ_COMMAND"))
            feedback.pushCommandInfo(" ".join([path, *words]))
            return commands.run_command(
                path, words, tell=feedback.pushConsoleInfo, is_cancelled=feedback.isCanceled
            )
        except (commands.RieszFailed, commands.Cancelled) as error:
            raise QgsProcessingException(str(error)) from error

    def add_map_parameters(self):
        """What is mapped, and where map and report go."""
        self.addParameter(
            QgsProcessingParameterString(
                self.QUANTITY,
                "What to map: measurement (what a new one would read, noise included), value "
                "(without noise), u (the state of the equation), or an unknown's name",
                "measurement",
            )
        )
        self.addParameter(
            QgsProcessingParameterString(
                self.STAT, "Statistics, one band each: mean, sd, q05, exceed:VALUE", "mean,sd"
            )
        )
        self.addParameter(
            QgsProcessingParameterNumber(
                self.CELL,
                "Size of a cell, in metres for layers in degrees (0: 100 x 100 cells)",
                QgsProcessingParameterNumber.Double,
                0.0,
                minValue=0.0,
            )
        )
        self.addParameter(QgsProcessingParameterRasterDestination(self.MAP, "Map"))
        self.addParameter(
            QgsProcessingParameterFileDestination(
                self.REPORT, "Report", "Web page (*.html)", optional=True, createByDefault=True
            )
        )

    def map_and_report(self, run, parameters, context, feedback):
        """The map, its style beside it, and the page where it is wanted."""
        target = self.parameterAsOutputLayer(parameters, self.MAP, context)
        words = commands.predict_words(
            run,
            target,
            quantity=self.parameterAsString(parameters, self.QUANTITY, context),
            stat=self.parameterAsString(parameters, self.STAT, context),
            cell=self.parameterAsDouble(parameters, self.CELL, context) or None,
        )
        made = self.run_riesz(words, feedback)
        for note in made.get("notes", []):
            feedback.pushInfo(note)
        for name, (low, high) in made.get("ranges", {}).items():
            feedback.pushInfo(f"{name}: {low:.6g} .. {high:.6g}")
        results = {self.MAP: target}
        page = self.parameterAsFileOutput(parameters, self.REPORT, context)
        if page:
            feedback.setProgress(85)
            told = self.run_riesz(commands.report_words(run, page), feedback)
            feedback.pushInfo(f"How far to trust it: {told['trust']}")
            results[self.REPORT] = page
        return results

    def group(self):
        return ""

    def groupId(self):
        return ""


POINTS = [QgsProcessing.TypeVectorPoint]
POLYGONS = [QgsProcessing.TypeVectorPolygon]
