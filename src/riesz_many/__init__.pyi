from .from_python import fit_many as fit_many
