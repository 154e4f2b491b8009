"""What the fused ops share: a tile decoded in registers and multiplied there, as one kernel."""

from pallas_kernels.mma.launch import BLOCK_COLUMNS as BLOCK_COLUMNS
from pallas_kernels.mma.launch import FusedConfig as FusedConfig
from pallas_kernels.mma.launch import check_fused as check_fused
from pallas_kernels.mma.launch import choose_config as choose_config
from pallas_kernels.mma.launch import multiply_blocks as multiply_blocks
from pallas_kernels.mma.launch import product_of as product_of
