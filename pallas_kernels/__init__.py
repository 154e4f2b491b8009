"""The ground floor: bits and GPUs. Importing it touches no device."""

from pallas_kernels.errors import ArgumentError as ArgumentError
from pallas_kernels.errors import ChecksumError as ChecksumError
from pallas_kernels.errors import FormatError as FormatError
from pallas_kernels.errors import UnsupportedError as UnsupportedError
from pallas_kernels.errors import ZipError as ZipError
from pallas_kernels.format import LAYOUT_MMA as LAYOUT_MMA
from pallas_kernels.format import LAYOUT_MMA_T as LAYOUT_MMA_T
from pallas_kernels.format import dtype_from_name as dtype_from_name
from pallas_kernels.format import dtype_name as dtype_name
from pallas_kernels.format import stream_specs as stream_specs
from pallas_kernels.format import window_from_histogram as window_from_histogram
from pallas_kernels.format import window_from_sigma as window_from_sigma
from pallas_kernels.hardware import A100 as A100
from pallas_kernels.hardware import B200 as B200
from pallas_kernels.hardware import GPUS as GPUS
from pallas_kernels.hardware import H100 as H100
from pallas_kernels.hardware import H200 as H200
from pallas_kernels.hardware import L40S as L40S
from pallas_kernels.hardware import RTX_4090 as RTX_4090
from pallas_kernels.hardware import Gpu as Gpu
from pallas_kernels.hardware import assume as assume
from pallas_kernels.hardware import current_gpu as current_gpu
from pallas_kernels.hardware import gpu_of as gpu_of
from pallas_kernels.ops.decode import decode as decode
from pallas_kernels.ops.decode_matmul import decode_matmul as decode_matmul
from pallas_kernels.ops.decode_rows import decode_rows as decode_rows
from pallas_kernels.ops.encode import encode as encode
from pallas_kernels.ops.encode import encode_static as encode_static
from pallas_kernels.ops.encode import relayout as relayout
from pallas_kernels.ops.encode import trim as trim
from pallas_kernels.ops.exponent_decode import exponent_decode as exponent_decode
from pallas_kernels.ops.exponent_encode import exponent_encode as exponent_encode
from pallas_kernels.ops.grouped_decode_matmul import (
    grouped_decode_matmul as grouped_decode_matmul,
)
from pallas_kernels.payload import ExponentConfig as ExponentConfig
from pallas_kernels.payload import ExponentPayload as ExponentPayload
from pallas_kernels.tensor import CompressedTensor as CompressedTensor
from pallas_kernels.tiles import decoded_after as decoded_after
from pallas_kernels.tuning import DecodeMatmulConfig as DecodeMatmulConfig
from pallas_kernels.tuning import MatmulShape as MatmulShape
from pallas_kernels.tuning import TuningCache as TuningCache
from pallas_kernels.tuning import TuningCacheWarning as TuningCacheWarning
from pallas_kernels.tuning import decode_first_rows as decode_first_rows
from pallas_kernels.tuning import decode_matmul_candidates as decode_matmul_candidates
from pallas_kernels.tuning import decode_matmul_config as decode_matmul_config
from pallas_kernels.tuning import tuned as tuned

__version__ = "0.1.0"
