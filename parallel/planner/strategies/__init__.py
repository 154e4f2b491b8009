"""Every published schedule, one a file, and the exact one that contains them."""
