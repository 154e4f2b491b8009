"""What the kernels of the wire code share: blocks of groups, and arithmetic on pairs of words."""

from pallas_kernels.slots.block import BLOCK_GROUPS as BLOCK_GROUPS
from pallas_kernels.slots.block import MASKS_NBYTES as MASKS_NBYTES
from pallas_kernels.slots.block import Groups as Groups
from pallas_kernels.slots.block import for_units as for_units
from pallas_kernels.slots.block import groups_of as groups_of
from pallas_kernels.slots.block import load_halves as load_halves
from pallas_kernels.slots.block import num_blocks as num_blocks
from pallas_kernels.slots.block import store_halves as store_halves
from pallas_kernels.slots.block import vector_elems as vector_elems
from pallas_kernels.slots.gpus import require_wire_gpu as require_wire_gpu
from pallas_kernels.slots.pairs import AND_OR as AND_OR
from pallas_kernels.slots.pairs import Pairs as Pairs
from pallas_kernels.slots.pairs import Place as Place
from pallas_kernels.slots.pairs import both as both
