"""How a kernel is set for a product on a GPU: by formula, or as it was measured."""

from pallas_kernels.tuning.cache import TuningCache as TuningCache
from pallas_kernels.tuning.cache import TuningCacheWarning as TuningCacheWarning
from pallas_kernels.tuning.choice import decode_matmul_config as decode_matmul_config
from pallas_kernels.tuning.choice import tuned as tuned
from pallas_kernels.tuning.config import DecodeMatmulConfig as DecodeMatmulConfig
from pallas_kernels.tuning.config import MatmulShape as MatmulShape
from pallas_kernels.tuning.heuristic import decode_first_rows as decode_first_rows
from pallas_kernels.tuning.heuristic import decode_matmul_candidates as decode_matmul_candidates
from pallas_kernels.tuning.heuristic import decode_matmul_heuristic as decode_matmul_heuristic
