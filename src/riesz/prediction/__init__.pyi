from .next_places import NextPlaces as NextPlaces
from .quantity import BudgetTerm as BudgetTerm
from .quantity import Outflow as Outflow
