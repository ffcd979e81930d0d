"""A problem file, written or changed by hand, is fitted."""

import json

from qgis.core import (
    QgsProcessingOutputString,
    QgsProcessingParameterFile,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterNumber,
    QgsProcessingParameterString,
)

from riesz_processing import commands
from riesz_processing.algorithms.base import RieszAlgorithm


class FitProblem(RieszAlgorithm):
    """`riesz fit`."""

    PROBLEM, ENGINE, SEED, SUMMARY = "PROBLEM", "ENGINE", "SEED", "SUMMARY"

    def name(self):
        return "fitproblem"

    def displayName(self):
        return "Fit a problem file"

    def shortHelpString(self):
        return (
            "Infers the unknowns of a problem file, and keeps the posterior in a run folder, which "
            "Map from a run draws."
        )

    def initAlgorithm(self, config=None):
        self.addParameter(
            QgsProcessingParameterFile(self.PROBLEM, "Problem file", extension="toml")
        )
        self.addParameter(
            QgsProcessingParameterString(
                self.ENGINE,
                "Method, such as mcmc or laplace(marginal) (none: as the file says)",
                optional=True,
            )
        )
        self.addParameter(
            QgsProcessingParameterNumber(self.SEED, "Seed", defaultValue=0, minValue=0)
        )
        self.addParameter(QgsProcessingParameterFolderDestination(self.RUN, "Run folder"))
        self.addOutput(QgsProcessingOutputString(self.SUMMARY, "What was found, as JSON"))

    def processAlgorithm(self, parameters, context, feedback):
        run = self.parameterAsString(parameters, self.RUN, context)
        words = commands.fit_words(
            self.parameterAsFile(parameters, self.PROBLEM, context),
            run,
            engine=self.parameterAsString(parameters, self.ENGINE, context) or None,
            seed=self.parameterAsInt(parameters, self.SEED, context),
        )
        found = self.run_riesz(words, feedback)
        return {self.RUN: run, self.SUMMARY: json.dumps(found)}
