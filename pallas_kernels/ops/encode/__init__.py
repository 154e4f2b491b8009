"""Room of `encode`: an array becomes a `CompressedTensor`."""

from pallas_kernels.ops.encode.api import encode as encode
from pallas_kernels.ops.encode.api import encode_static as encode_static
from pallas_kernels.ops.encode.api import relayout as relayout
from pallas_kernels.ops.encode.api import trim as trim
