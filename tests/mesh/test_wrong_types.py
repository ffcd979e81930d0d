"""Arguments of the wrong type are refused in words, also where no type checker runs."""

import subprocess
import sys

import pytest

CALLS = {
    "rectangle(4)": "shape is 4: give a number of cells for each dimension",
    "rectangle((4., 4.))": "shape is (4.0, 4.0): give whole numbers",
    "rectangle((4,))": "shape is (4,): give 2 numbers",
    "box((2, 2))": "shape is (2, 2): give 3 numbers",
    "disc(2.0)": "num_rings is (2.0,): give whole numbers",
    "rectangle((2, 2), (0, 'a'))": "give finite coordinates",
    "mesh_from_polygon(SQUARE, max_edge='1')": "max_edge is '1': give a positive length",
    "mesh_from_polygon(SQUARE, max_edge=1, grading='1')": "grading is '1'",
    "locate(rectangle((2, 2)), [[.1, .1]], outside='rais')": "outside is 'rais'",
    "locate(rectangle((2, 2)), [[.1, .1]], tolerance='1')": "the tolerance is '1'",
}

SCRIPT = """
import sys
from riesz.errors import MeshError
from riesz.mesh.location import locate
from riesz.mesh.shapes import box, disc, rectangle
from riesz.mesher.polygon import mesh_from_polygon

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1]]
for call in sys.argv[1:]:
    try:
        print(eval(call))
    except MeshError as error:
        print(str(error))
"""


@pytest.fixture(scope="module")
def told():
    """What each call says in a fresh interpreter, without the tests' run-time type checks."""
    command = [sys.executable, "-c", SCRIPT, *CALLS]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(zip(CALLS, output.splitlines(), strict=True))


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_type_is_told(call, told):
    assert CALLS[call] in told[call]
