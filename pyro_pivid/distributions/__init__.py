"""Distributions over orders of nodes and over edges given an order, for use in Pyro models and guides."""
