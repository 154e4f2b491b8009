"""The numbers of docs/format.md, once, and the relations between them."""

TRIPLE_BITMAP = "triple_bitmap"
RAW = "raw"
CODECS = (TRIPLE_BITMAP, RAW)

LAYOUT_ROWS16 = "rows16"  # a tile is 16 rows of 256 lanes; see docs/format.md, 1.3
LAYOUT_MMA = "mma16x256"  # for tensor cores, rows on axis -2; see docs/format.md, 1.6
LAYOUT_MMA_T = "mma256x16"  # the same, rows on axis -1
MMA_LAYOUTS = (LAYOUT_MMA, LAYOUT_MMA_T)
LAYOUT_RAW = "bytes"  # little-endian elements, one after the other
LAYOUTS = {TRIPLE_BITMAP: (LAYOUT_ROWS16, *MMA_LAYOUTS), RAW: (LAYOUT_RAW,)}

TILE_ROWS = 16
TILE_LANES = 256
TILE_ELEMS = 4096  # a patch names its element of the tile in 12 bits

CODE_BITS = 3
WINDOW_SIZE = 8  # consecutive exponents that a code can name
ROWS_PER_WORD = 5  # three words of 16 bits hold 5 + 5 + 5 codes, and one bit each of the 16th
WORDS_PER_LANE = 3

PATCH_POSITION_BITS = 12
PATCH_INDEX_BITS = 4
TABLE_SIZE = 16  # exponents outside the window that a patch can name
RARE_EXPONENT_BITS = 8
TILE_PATCH_WORDS = 64  # mma layouts: at most two patches in each; what is beyond them is rare
PATCH_WORDS_STEP = 8  # the list is whole sectors of 32 bytes
RARE_ENTRIES_STEP = 4

assert TILE_ELEMS == TILE_ROWS * TILE_LANES == 1 << PATCH_POSITION_BITS
assert WINDOW_SIZE == 1 << CODE_BITS
assert TABLE_SIZE == 1 << PATCH_INDEX_BITS
assert PATCH_POSITION_BITS + PATCH_INDEX_BITS == 16
assert TILE_ROWS == WORDS_PER_LANE * ROWS_PER_WORD + 1
assert WORDS_PER_LANE * 16 == TILE_ROWS * CODE_BITS


def num_tiles(num_elems: int) -> int:
    """How many tiles hold `num_elems` elements; the last one may be partly used."""
    return -(-num_elems // TILE_ELEMS)
