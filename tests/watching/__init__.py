"""Limiters of other libraries, driven for real, and what is reported of them."""
