"""The oracles: every codec in plain NumPy, to be read and to be compared with."""

from pallas_kernels.codecs import raw as raw
from pallas_kernels.codecs import triple_bitmap as triple_bitmap
