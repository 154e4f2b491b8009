"""What several ops do with tiles in plain `jnp`, shaped for XLA: arrange, decode, multiply."""

from pallas_kernels.tiles.arrange import prefix_sum as prefix_sum
from pallas_kernels.tiles.arrange import to_tiles as to_tiles
from pallas_kernels.tiles.mma import encode_mma_words as encode_mma_words
from pallas_kernels.tiles.mma import find_escapes as find_escapes
from pallas_kernels.tiles.order import decoded_after as decoded_after
from pallas_kernels.tiles.products import matmul_dtype as matmul_dtype
from pallas_kernels.tiles.rows import can_decode_rows as can_decode_rows
from pallas_kernels.tiles.rows import decode_row_block as decode_row_block
from pallas_kernels.tiles.whole import decode_whole as decode_whole
