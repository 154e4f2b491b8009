"""Collectives named and shaped after `jax.lax`, exact on bits, optionally compressed."""

from parallel.collectives import reference as reference
from parallel.collectives.all_gather import all_gather as all_gather
from parallel.collectives.all_to_all import all_to_all as all_to_all
from parallel.collectives.pbroadcast import pbroadcast as pbroadcast
from parallel.collectives.ppermute import ppermute as ppermute
from parallel.collectives.psum import psum as psum
from parallel.collectives.psum_scatter import psum_scatter as psum_scatter
