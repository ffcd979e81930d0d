"""A run folder is mapped."""

from qgis.core import QgsProcessingParameterFile

from riesz_processing.algorithms.base import RieszAlgorithm


class MapFromRun(RieszAlgorithm):
    """`riesz predict` and `riesz report`."""

    def name(self):
        return "mapfromrun"

    def displayName(self):
        return "Map from a run"

    def shortHelpString(self):
        return (
            "Maps a quantity under the posterior of a run: its mean, its standard deviation, a "
            "quantile, or the probability that it exceeds a value. The style lies beside the map."
        )

    def initAlgorithm(self, config=None):
        self.addParameter(
            QgsProcessingParameterFile(
                self.RUN, "Run folder", behavior=QgsProcessingParameterFile.Folder
            )
        )
        self.add_map_parameters()

    def processAlgorithm(self, parameters, context, feedback):
        run = self.parameterAsFile(parameters, self.RUN, context)
        return self.map_and_report(run, parameters, context, feedback)
