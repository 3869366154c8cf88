"""Pure tensor mathematics of orders and graphs; nothing here needs Pyro."""
