"""The provider: three algorithms, and the path of the command as a setting."""

from processing.core.ProcessingConfig import ProcessingConfig, Setting
from qgis.core import QgsProcessingProvider

from riesz_processing.algorithms.fit_problem import FitProblem
from riesz_processing.algorithms.map_from_measurements import MapFromMeasurements
from riesz_processing.algorithms.map_from_run import MapFromRun

COMMAND_SETTING = "RIESZ_COMMAND"


class RieszProvider(QgsProcessingProvider):
    """Riesz in the Processing toolbox."""

    def id(self):
        return "riesz"

    def name(self):
        return "Riesz"

    def load(self):
        setting = Setting(
            self.name(), COMMAND_SETTING, "Path of the riesz command", "", valuetype=Setting.FILE
        )
        ProcessingConfig.addSetting(setting)
        ProcessingConfig.readSettings()
        self.refreshAlgorithms()
        return True

    def unload(self):
        ProcessingConfig.removeSetting(COMMAND_SETTING)

    def loadAlgorithms(self):
        for algorithm in (MapFromMeasurements(), FitProblem(), MapFromRun()):
            self.addAlgorithm(algorithm)
