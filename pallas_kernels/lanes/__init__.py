"""Device functions written once and run twice: on a GPU's lanes, and on arrays of 128 lanes.

Pallas cannot say what these functions need (an address per lane, a shuffle, a fused logic
operation), and its interpret mode cannot run what says it. So they are written against `Lanes`, and
their very source is tested on bits without a GPU. `lanes.inline` puts them into kernels; it is not
imported here, because it takes half a second and only kernels need it.
"""

from pallas_kernels.lanes.arrays import ArrayLanes as ArrayLanes
from pallas_kernels.lanes.arrays import ArrayMemory as ArrayMemory
from pallas_kernels.lanes.interface import GROUP_LANES as GROUP_LANES
from pallas_kernels.lanes.interface import WARP_LANES as WARP_LANES
from pallas_kernels.lanes.interface import Lanes as Lanes
from pallas_kernels.lanes.interface import Memory as Memory
from pallas_kernels.lanes.interface import Word as Word
from pallas_kernels.lanes.interface import logic_table as logic_table
