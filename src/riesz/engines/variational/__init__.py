"""The engine `variational`: the normal distribution nearest to the posterior, by exact solves."""
