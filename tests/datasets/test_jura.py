"""The Jura samples are those of the benchmark, and tables of one's own are checked."""

import numpy as np
import pytest

from riesz.datasets.jura import METALS, SECONDARIES, jura, jura_grid, read_samples
from riesz.errors import FileFormatError, RieszError

HEADING = "set,x_km,y_km,landuse,rock,Cd,Co,Cr,Cu,Ni,Pb,Zn"
ROW = "train,1.0,2.0,Meadow,Argovian,1,2,3,4,5,6,7"


def test_there_are_259_training_and_100_validation_samples():
    samples = jura()
    assert len(samples) == 359
    assert samples.is_training.sum() == 259
    assert len(samples.subset(~samples.is_training)) == 100
    assert all(np.all(values > 0) for values in samples.metals.values())
    # the largest cadmium concentration of the training samples, in mg/kg (Goovaerts 1997)
    training = samples.subset(samples.is_training)
    assert training.metals["Cd"].max() == pytest.approx(5.129)
    assert training.metals["Cd"].mean() == pytest.approx(1.309, abs=0.001)


def test_the_grid_covers_the_samples():
    grid = jura_grid()
    assert len(grid.points) == 5957
    assert set(grid.categories["rock"]) == set(jura().categories["rock"])
    gaps = np.linalg.norm(jura().points[:, None] - grid.points[None], axis=2).min(axis=1)
    assert gaps.max() < 0.1  # km


def test_the_predicted_metal_is_never_among_its_secondaries():
    assert set(SECONDARIES) <= set(METALS)
    assert all(metal not in others for metal, others in SECONDARIES.items())
    assert jura().of(SECONDARIES["Cd"]).shape == (359, 3)


def test_an_unknown_metal_is_told_with_the_nearest():
    with pytest.raises(RieszError, match=r"no metal 'Zm'.*Zn"):
        jura().of(["Zm"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{HEADING.replace(',Zn', '')}\n{ROW[:-2]}", "has no column 'Zn'"),
        ("", "is empty"),
        (HEADING, "has no rows"),
        (f"{HEADING}\n{ROW.replace('3', 'three')}", "line 2: Cr is 'three', not a finite number"),
        (f"{HEADING}\n{ROW}\n{ROW.replace('2.0', 'nan')}", "line 3: y_km is 'nan'"),
        (f"{HEADING}\n{ROW.replace('train', 'test')}", "line 2: set is 'test'"),
        (f"{HEADING}\n{ROW.replace('Argovian', ' ')}", "line 2: rock is empty; write 'unknown'"),
        (f"{HEADING}\n{ROW[:-4]}", "line 2: Pb is nothing"),
        (f"{HEADING}\ntrain,1.0,2.0", "line 2: the row ends before landuse"),
        (f"{HEADING}\n{ROW[:-1]}-7", "line 2: Zn is -7; a concentration is positive"),
    ],
)
def test_tables_that_cannot_be_read_are_told(tmp_path, text, words):
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=words):
        read_samples(path)


def test_a_metal_that_was_not_measured_everywhere_is_told_when_asked_for(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(f"{HEADING}\n{ROW}\n{ROW[:-1]}\n")
    samples = read_samples(path)
    assert samples.of(["Pb"]).tolist() == [[6.0], [6.0]]
    with pytest.raises(RieszError, match="Zn was not measured at 1 samples, first sample 1"):
        samples.of(["Pb", "Zn"])


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileFormatError, match="cannot be read: No such file"):
        read_samples(tmp_path / "no.csv")
