"""Run by the Python of QGIS, which is not that of the tests: the plugin in a QGIS without a screen.

`in_qgis.py PLUGINS list` prints the algorithms and parameters, `in_qgis.py PLUGINS map FOLDER`
maps made-up points, and with `cancel` for `map` the button is pressed. Each prints JSON last.
"""

import json
import math
import sys

from qgis.core import (
    QgsApplication,
    QgsFeature,
    QgsGeometry,
    QgsPointXY,
    QgsProcessingException,
    QgsProcessingFeedback,
    QgsRasterLayer,
    QgsVectorLayer,
)


def started(plugins):
    """QGIS with Processing and the plugin."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], False)
    application.initQgis()
    sys.path[:0] = [plugins, *QGIS_PLUGINS]
    from processing.core.Processing import Processing
    from riesz_processing import classFactory

    Processing.initialize()
    plugin = classFactory(None)
    plugin.initProcessing()
    return application, plugin


QGIS_PLUGINS = ["/usr/share/qgis/python/plugins", "/usr/share/qgis/python"]


def listed():
    found = QgsApplication.processingRegistry().providerById("riesz").algorithms()
    return {
        one.id(): {
            "name": one.displayName(),
            "parameters": [each.name() for each in one.parameterDefinitions()],
        }
        for one in found
    }


def points():
    """A layer in degrees about a town, and one of its outline in metres."""
    layer = QgsVectorLayer("Point?crs=EPSG:4326&field=zn:double", "points", "memory")
    features = []
    for i in range(25):
        feature = QgsFeature(layer.fields())
        x, y = 9.1 + 0.02 * (i % 5) + 0.003 * math.sin(7 * i), 48.7 + 0.015 * (i // 5)
        feature.setGeometry(QgsGeometry.fromPointXY(QgsPointXY(x, y)))
        feature.setAttribute("zn", None if i == 7 else 20 + 60 * (x - 9.1) + 90 * (y - 48.7) ** 2)
        features.append(feature)
    layer.dataProvider().addFeatures(features)
    area = QgsVectorLayer("Polygon?crs=EPSG:25832", "area", "memory")
    feature = QgsFeature()
    ring = "505000 5392000, 517000 5392000, 517000 5404000, 505000 5404000, 505000 5392000"
    feature.setGeometry(QgsGeometry.fromWkt(f"POLYGON(({ring}))"))
    area.dataProvider().addFeatures([feature])
    return layer, area


class Feedback(QgsProcessingFeedback):
    """Keeps what is told; may be cancelled when it hears a command."""

    def __init__(self, cancel):
        super().__init__(False)
        self.told, self.cancel = [], cancel

    def pushInfo(self, info):
        self.told.append(info)

    def pushConsoleInfo(self, info):
        self.told.append(info)

    def pushCommandInfo(self, info):
        if self.cancel and " fit " in info:
            super().cancel()


def mapped(folder, *, cancel):
    import processing

    layer, area = points()
    feedback = Feedback(cancel)
    wanted = {
        "INPUT": layer,
        "FIELD": "zn",
        "POLYGON": area,
        "CELL": 400,
        "RUN": f"{folder}/work",
        "MAP": f"{folder}/map.tif",
        "REPORT": f"{folder}/report.html",
    }
    try:
        made = processing.run("riesz:mapfrommeasurements", wanted, feedback=feedback)
    except QgsProcessingException as error:
        return {"error": str(error)}
    raster = QgsRasterLayer(made["MAP"], "map")
    _, has_style = raster.loadDefaultStyle()
    return {
        "told": feedback.told,
        "bands": raster.bandCount(),
        "crs": raster.crs().authid(),
        "style": has_style,
        "renderer": raster.renderer().type(),
    }


if __name__ == "__main__":
    application, plugin = started(sys.argv[1])
    action, *folder = sys.argv[2:]
    found = mapped(*folder, cancel=action == "cancel") if folder else listed()
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    plugin.unload()
    application.exitQgis()
