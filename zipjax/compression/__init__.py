"""Whole models, compressed in place."""

from zipjax.compression.compress_model import compress_model as compress_model
from zipjax.compression.decompress_model import decompress_model as decompress_model
from zipjax.compression.report import CompressionReport as CompressionReport
from zipjax.compression.report import ReportRow as ReportRow
from zipjax.compression.structure import set_structure as set_structure
from zipjax.compression.structure import structure_of as structure_of
from zipjax.compression.use_kernels import use_kernels as use_kernels
