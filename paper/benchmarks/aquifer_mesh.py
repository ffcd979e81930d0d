"""Do the scores of the aquifer's selected model depend on the mesh?

Split B1, heads: the mesh of the experiment, and one whose edges are half as long. RIESZ_DATA must
hold the wells.
"""

import json
import sys
from pathlib import Path

SPLIT, REFINEMENTS = "B1", (1.0, 2.0)
SCORES = ("absolute", "nlpd", "crps")
LIMIT = 0.05


def scores_on(aquifer, name: str, refinement: float) -> dict:
    """Means over all test wells, and over those near the training wells."""
    from riesz_paper.data.esrp import splits_of
    from riesz_paper.experiments.aquifer.data import mesh_of, places_of, subsets_of
    from riesz_paper.experiments.aquifer.experiment import scores_of
    from riesz_paper.experiments.aquifer.methods import STRUCTURES
    from riesz_paper.experiments.aquifer.model import conditional_head

    mesh = mesh_of(aquifer, refinement)
    (split,) = splits_of(aquifer, SPLIT)
    train = conditional_head(mesh, STRUCTURES[name])
    draws = train(places_of(split.training), split.training.head, seed=0)(places_of(split.test))
    row: dict = {"method": name, "nodes": mesh.num_nodes, "refinement": refinement}
    for subset in subsets_of(SPLIT):
        found = scores_of(aquifer, SPLIT, [draws], "head", subset)
        row |= {f"{score}, {subset}": float(getattr(found, score).mean()) for score in SCORES}
    return row


SMOKE = {"REFINEMENTS": (0.05, 0.1)}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    from bench import parser_of, save

    parser = parser_of(globals(), "results/bench-aquifer-mesh.json")
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    from riesz_paper.data.esrp import esrp
    from riesz_paper.experiments.aquifer.select import frozen_choice

    rows = []
    for refinement in REFINEMENTS:
        rows.append(scores_on(esrp(), frozen_choice(), refinement))
        print(json.dumps(rows[-1]), flush=True)
    coarse, fine = rows
    moved = {
        name: abs(fine[name] / value - 1)
        for name, value in coarse.items()
        if name.startswith(SCORES)
    }
    figures = {
        "moved": moved,
        "largest": max(moved.values()),
        "within_limit": max(moved.values()) < LIMIT,
    }
    config = {"split": SPLIT, "refinements": list(REFINEMENTS), "limit": LIMIT}
    save(options.out, config, 0, rows, figures)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
