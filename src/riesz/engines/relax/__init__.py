"""The engine `relax`: the paper's joint objective at a finite epsilon."""
