"""The engine `amortise`: one training for many data sets."""
