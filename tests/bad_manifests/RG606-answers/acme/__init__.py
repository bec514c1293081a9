"""A backend from outside."""
