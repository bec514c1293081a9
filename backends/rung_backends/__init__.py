"""Implementations that the built-in manifests bind: one sub-package per backend.

Owns nothing itself. A backend module holds plain functions over one array library; it imports nothing of the
engine and no other backend, and importing a backend's package imports no framework.
"""
