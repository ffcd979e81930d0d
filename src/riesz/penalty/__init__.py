"""How far a state is from satisfying the equation: dual norms, exact and by mini-patches."""
