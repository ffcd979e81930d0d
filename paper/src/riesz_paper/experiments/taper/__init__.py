"""How well mini-patches estimate the dual norm: supplement C."""
