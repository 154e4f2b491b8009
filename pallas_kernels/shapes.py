"""The glossary of axis letters, and the array types of public signatures.

M K N   rows, depth and columns of a matrix product
T       tiles of 4096 elements (at rest) or of 256 runs (on the wire)
E       experts
P       devices along a mesh axis
n       elements of a tensor, flattened
"""

from jax import Array as Array
from jaxtyping import Float as Float
from jaxtyping import Int as Int
from jaxtyping import Shaped as Shaped


def capacity_of(count: int) -> int:
    """Room for a list of `count` entries, so that programs, which are compiled for the room, serve
    many lists.

    A power of two from 256 to 4096, then 8 sizes an octave: at most an eighth of a long list is
    unused.
    """
    if count <= 4096:
        return max(256, 1 << (count - 1).bit_length()) if count else 256
    step = 1 << ((count - 1).bit_length() - 4)
    return -(-count // step) * step
