"""Whole models, compressed in place."""

from zipjax.compression.compress_model import compress_model as compress_model
from zipjax.compression.decompress_model import decompress_model as decompress_model
from zipjax.compression.report import CompressionReport as CompressionReport
from zipjax.compression.report import ReportRow as ReportRow
