"""A log-diffusivity field with many unknowns."""
