from riesz.lazy import public_names as public_names
from riesz.progress import progress_bar as progress_bar

from .options import CheckJsonOption as CheckJsonOption
from .options import CheckOption as CheckOption
from .options import EngineOption as EngineOption
from .options import FitSeedOption as FitSeedOption
from .options import JsonOption as JsonOption
from .options import OutOption as OutOption
from .options import QuietOption as QuietOption
from .options import SeedOption as SeedOption
from .options import json_of as json_of
from .options import parse_seconds as parse_seconds
from .options import use_float64 as use_float64
from .options import use_one_thread as use_one_thread
