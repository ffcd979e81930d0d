from riesz.case.options import ENGINE as ENGINE
from riesz.case.options import Check as Check
from riesz.case.options import Option as Option
from riesz.case.options import Seed as Seed
from riesz.case.options import TimeLimit as TimeLimit
from riesz.lazy import public_names as public_names
from riesz.progress import progress_bar as progress_bar

from .options import CheckJsonOption as CheckJsonOption
from .options import FitSeedOption as FitSeedOption
from .options import JsonOption as JsonOption
from .options import OutOption as OutOption
from .options import QuietOption as QuietOption
from .options import SeedOption as SeedOption
from .options import json_of as json_of
from .options import use_float64 as use_float64
from .options import use_one_thread as use_one_thread
from .options import with_options as with_options
