"""What differs between the versions of JAX that this floor runs on."""

import jax

# XLA of jax 0.10 on CPU drops optimization barriers before it puts a program in order.
BARRIERS_ORDER_PROGRAMS = jax.__version_info__ >= (0, 12)

# Mosaic GPU assumes Hopper before jax 0.11.
MOSAIC_KNOWS_AMPERE = jax.__version_info__ >= (0, 11)
