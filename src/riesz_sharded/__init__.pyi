from .assembly import ShardedProblem as ShardedProblem
from .assembly import sharded_problem as sharded_problem
from .solver import ShardedMultigrid as ShardedMultigrid
from .solver import sharded_multigrid as sharded_multigrid
