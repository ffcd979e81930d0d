"""The four tests: how each well was built and pumped, and what others found there.

Numbers are in metres and days. Published values are those that the documentation of timflow
compares with its own; Kruseman and de Ridder's specific storage of Oude Korendijk, 1.7e-4, is left
out: it reads like the storativity of the whole thickness.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from riesz_pumping.tables import FOOT
from riesz_pumping.well import Pumped


@dataclass(frozen=True)
class Slug:
    """A well into which water is poured at once, and which is open over its screen only."""

    thickness: float
    screen: tuple[float, float]  # depths below the top
    well_radius: float
    casing_radius: float
    displacement: float  # of the level, at first

    @property
    def parameters(self) -> tuple[str, ...]:
        return ("k", "Ss")

    @property
    def screen_length(self) -> float:
        return self.screen[1] - self.screen[0]


@dataclass(frozen=True)
class FieldTest:
    """A test, its table and what was published."""

    name: str
    level: str  # the column of readings
    well: Pumped | Slug
    published: Mapping[str, Mapping[str, float]]  # values by source and parameter
    causes: Mapping[str, str]  # why values of a source may differ


FIELD_TESTS = {
    one.name: one
    for one in (
        FieldTest(
            "oude_korendijk",
            "drawdown_m",
            Pumped(rates=((0.0, 788.0),), thickness=7.0, well_radius=0.2),
            {
                "timflow": {"k": 66.09, "Ss": 2.54e-5},
                "MLU": {"k": 63.514, "Ss": 3.58e-5},
                "Kruseman and de Ridder": {"k": 55.714},
            },
            {
                "MLU": "fitted with a third well, at 215 m, whose readings are not here",
                "Kruseman and de Ridder": "late drawdowns flatten, which neither model knows of",
            },
        ),
        FieldTest(
            "sioux",
            "drawdown_m",
            Pumped(rates=((0.0, 6605.754),), thickness=50 * FOOT, well_radius=0.5 * FOOT),
            {
                "timflow": {"k": 282.79, "Ss": 4.21e-3},
                "AQTESOLV": {"k": 282.659, "Ss": 4.0355e-3},
            },
            {"AQTESOLV": "leaves more of these readings over than the best fit does"},
        ),
        FieldTest(
            "dalem",
            "drawdown_m",
            Pumped(rates=((0.0, 761.0),), thickness=37.0, well_radius=0.1, leaky=True),
            {
                "timflow": {"k": 45.33, "Ss": 4.76e-5, "c": 331.0},
                "timflow, weighted": {"k": 48.04, "Ss": 4.36e-5, "c": 540.0},
                "AQTESOLV, one well": {"k": 41.5575, "Ss": 4.4625e-5, "c": 327.92},
                "MLU": {"k": 45.297, "Ss": 4.865e-5, "c": 328.0},
            },
            {
                "timflow, weighted": "wells weighted by their largest drawdowns",
                "AQTESOLV, one well": "of the well at 90 m alone",
            },
        ),
        FieldTest(
            "pratt_county_slug",
            "displacement_m",
            Slug(
                thickness=47.87,
                screen=(16.77, 18.29),
                well_radius=0.125,
                casing_radius=0.064,
                displacement=0.671,
            ),
            {
                "timflow, three layers": {"k": 6.05, "Ss": 2.15e-4},
                "AQTESOLV, KGS model": {"k": 4.034, "Ss": 3.834e-4},
            },
            {
                "timflow, three layers": "too few layers throttle the flow about the screen's ends",
                "AQTESOLV, KGS model": "its flow is even over the screen, where ours has one head",
            },
        ),
    )
}
