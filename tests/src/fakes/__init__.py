"""The providers that fake_providers.py serves, one module for each."""
