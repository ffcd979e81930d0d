from .data import predict_data as predict_data
from .data import predict_in_time as predict_in_time
from .next_places import NextPlaces as NextPlaces
from .quantity import BudgetTerm as BudgetTerm
from .quantity import Outflow as Outflow
