"""Estimators, from the request to the result."""
