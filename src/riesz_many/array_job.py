"""A script for those who have only `sbatch`: an array of jobs, each of which does a share."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from riesz.io import write_bytes
from riesz_many.sites import LEDGER

SCRIPT = "array-job.sh"


def write_array_job(runs: Path, words: Sequence[str], count: int) -> Path:
    """Write the script into the ledger's folder; `words` are those of `riesz` but the share."""
    beside = Path(sys.executable).with_name("riesz")
    command = shlex.join([str(beside) if beside.is_file() else "riesz", *words])
    folder = (runs / LEDGER).resolve()
    path = folder / SCRIPT
    told = shlex.quote(str(folder / "slurm-%A_%a.txt"))
    write_bytes(
        path,
        f"""#!/bin/bash
# {count} jobs, each a share of the fits. Submit it again, and only what is not done is taken up.
# Add what your cluster asks for: an account, a partition, memory, a limit of time.
#SBATCH --job-name=riesz
#SBATCH --array=1-{count}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --requeue
#SBATCH --output={told}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
exec {command} --part "$SLURM_ARRAY_TASK_ID/{count}"
""".encode(),
    )
    return path
