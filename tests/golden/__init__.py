"""Golden files, good and bad, and the script that adds to them."""
