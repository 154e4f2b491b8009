"""What the fused ops share: a tile decoded in registers and multiplied there, as one kernel."""

from pallas_kernels.mma.launch import block_rows as block_rows
from pallas_kernels.mma.launch import check_fused as check_fused
from pallas_kernels.mma.launch import check_mma as check_mma
from pallas_kernels.mma.launch import decode_tensor as decode_tensor
from pallas_kernels.mma.launch import encode_words_of as encode_words_of
from pallas_kernels.mma.launch import multiply_blocks as multiply_blocks
from pallas_kernels.mma.launch import require_fused_gpu as require_fused_gpu
