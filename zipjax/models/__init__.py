"""Whole models: the decoder of the training example, and the published ones from their folders."""

from zipjax.models.cache import Cache as Cache
from zipjax.models.cache import cache_nbytes as cache_nbytes
from zipjax.models.cache import empty_cache as empty_cache
from zipjax.models.causal_config import CausalConfig as CausalConfig
from zipjax.models.causal_config import GroupedConfig as GroupedConfig
from zipjax.models.causal_config import LatentConfig as LatentConfig
from zipjax.models.causal_config import MlpConfig as MlpConfig
from zipjax.models.causal_config import RopeConfig as RopeConfig
from zipjax.models.causal_config import SparseConfig as SparseConfig
from zipjax.models.causal_lm import CausalLM as CausalLM
from zipjax.models.causal_lm import abstract_model as abstract_model
from zipjax.models.config import DecoderConfig as DecoderConfig
from zipjax.models.decoder import MoEDecoder as MoEDecoder
from zipjax.models.estimate import FormEstimate as FormEstimate
from zipjax.models.estimate import ModelEstimate as ModelEstimate
from zipjax.models.estimate import estimate_model as estimate_model
from zipjax.models.generation_defaults import GenerationDefaults as GenerationDefaults
from zipjax.models.generation_defaults import (
    load_generation_defaults as load_generation_defaults,
)
from zipjax.models.hf_config import config_from_hf as config_from_hf
from zipjax.models.hf_config_writing import config_to_hf as config_to_hf
from zipjax.models.loading import load_model as load_model
from zipjax.models.saving import save_model as save_model
from zipjax.models.tokenizer import Tokenizer as Tokenizer
from zipjax.models.tokenizer import load_tokenizer as load_tokenizer
