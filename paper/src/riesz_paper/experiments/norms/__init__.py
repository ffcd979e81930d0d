"""Which estimators measure residuals as the dual norm does."""
