"""The Snake River Plain aquifer in time: dated readings, and a forecast of twenty years."""
