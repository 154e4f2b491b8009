"""Lossless compression for large language models in JAX: every bit comes back."""

from pallas_kernels import ArgumentError as ArgumentError
from pallas_kernels import ChecksumError as ChecksumError
from pallas_kernels import CompressedTensor as CompressedTensor
from pallas_kernels import FormatError as FormatError
from pallas_kernels import UnsupportedError as UnsupportedError
from pallas_kernels import ZipError as ZipError
from pallas_kernels import __version__ as __version__
from zipjax.array import compress as compress
from zipjax.array import decompress as decompress
from zipjax.compression import CompressionReport as CompressionReport
from zipjax.compression import ReportRow as ReportRow
from zipjax.compression import compress_model as compress_model
from zipjax.compression import decompress_model as decompress_model
from zipjax.compression import set_structure as set_structure
from zipjax.compression import structure_of as structure_of
from zipjax.compression import use_kernels as use_kernels
from zipjax.files import DiskError as DiskError
from zipjax.files import FileSummary as FileSummary
from zipjax.files import LoadedTensors as LoadedTensors
from zipjax.files import TensorSummary as TensorSummary
from zipjax.files import Verification as Verification
from zipjax.files import inspect as inspect
from zipjax.files import load as load
from zipjax.files import save as save
from zipjax.files import verify as verify
from zipjax.models import load_model as load_model
