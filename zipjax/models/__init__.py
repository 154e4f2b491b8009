"""Whole models."""

from zipjax.models.config import DecoderConfig as DecoderConfig
from zipjax.models.decoder import MoEDecoder as MoEDecoder
