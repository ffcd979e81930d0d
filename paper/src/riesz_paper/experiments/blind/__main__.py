"""A share of the blind problems in this process, without Dask and without the command line's parts.

From the project's folder, the third of fifteen shares of 300 problems:

    PYTHONPATH=src:paper/src JAX_PLATFORMS=cpu OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \\
    XLA_FLAGS="--xla_backend_optimization_level=0 --xla_cpu_multi_thread_eigen=false" \\
    python -m riesz_paper.experiments.blind --problems 300 --seed 23 --part 3/15 --out results/blind

Rows are kept in `results/blind/rows`, one file a problem; run again, a share takes up what is
missing, and prints the counts of its own. When all shares are done, `riesz experiment blind
--problems 300 --seed 23 --out results/blind` reads the rows and writes results.json and the tables.
"""

import argparse
import sys
from pathlib import Path

import jax

from riesz_paper.experiments.blind.share import run_share
from riesz_paper.experiments.blind.tables import spoken, summarise


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", help="A share, such as 3/15; all problems without it.")
    parser.add_argument("--out", type=Path, default=Path("results/blind"))
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = run_share(
        options.out,
        options.seed,
        options.problems,
        options.part,
        say,
    )
    say(spoken(summarise(rows)))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
