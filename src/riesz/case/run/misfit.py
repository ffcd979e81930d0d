"""What contradicts the model of a run, as its folder keeps it."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.diagnose.criticism.findings import Finding, Misfit
from riesz.errors import FileFormatError
from riesz.io.store.files import read_bytes
from riesz.io.store.results import check_not_newer
from riesz.notes import read_notes, to_json

MISFIT = "misfit.json"
SCHEMA = 2
"""Of the first, findings were sentences."""

DIGITS = 5
"""Of residuals, which are uncertain in the third."""


def misfit_content(misfit: Misfit) -> bytes:
    """As JSON, which has no word for what is not known but null."""
    content = {
        "schema": SCHEMA,
        "findings": [
            {
                "kind": one.kind,
                "note": to_json(one.note),
                "names": list(one.names),
                "places": list(one.places),
                "p": one.p,
            }
            for one in misfit.findings
        ],
        "residuals": json_list(misfit.residuals),
        "k_hat": json_list(misfit.k_hat),
        "labels": misfit.labels and list(misfit.labels),
        "caution": to_json(misfit.caution),
    }
    return f"{json.dumps(content, indent=1, allow_nan=False)}\n".encode()


def json_list(values: Float[np.ndarray, " sensor"]) -> list[float | None]:
    return [round(one, DIGITS) if math.isfinite(one) else None for one in values.tolist()]


def read_misfit(path: Path) -> Misfit | None:
    """None where a run has none: those of older versions."""
    if not path.is_file():
        return None
    try:
        content: Any = json.loads(read_bytes(path))
        check_not_newer(path, content, SCHEMA)
        findings = tuple(
            Finding(
                kind=str(one["kind"]),
                note=read_notes([one["note"] if "note" in one else one["words"]], path)[0],
                names=tuple(map(str, one["names"])),
                places=tuple(map(int, one["places"])),
                p=float(one["p"]),
            )
            for one in content["findings"]
        )
        residuals, k_hat = (
            np.array([np.nan if one is None else one for one in content[name]], float)
            for name in ("residuals", "k_hat")
        )
        labels = content.get("labels") and tuple(map(str, content["labels"]))
        caution = content.get("caution") and read_notes([content["caution"]], path)[0]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is not what riesz fit wrote: fit again.") from None
    return Misfit(findings, residuals, k_hat, labels, caution)
