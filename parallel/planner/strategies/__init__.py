"""Every published schedule, one a file, and the one that combines them."""
