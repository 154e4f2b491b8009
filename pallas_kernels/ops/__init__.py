"""The ops, a room each; they are entered by their own doors."""
