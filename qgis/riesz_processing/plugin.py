"""The plugin: it adds the provider when QGIS starts it, and takes it away."""

from qgis.core import QgsApplication

from riesz_processing.provider import RieszProvider


class RieszPlugin:
    """What QGIS holds of the plugin."""

    def __init__(self, iface):
        self.iface = iface
        self.provider = None

    def initProcessing(self):
        self.provider = RieszProvider()
        QgsApplication.processingRegistry().addProvider(self.provider)

    def initGui(self):
        self.initProcessing()

    def unload(self):
        if self.provider is not None:
            QgsApplication.processingRegistry().removeProvider(self.provider)
            self.provider = None
