"""Layers in Flax NNX."""

from zipjax.nn.attention import GroupedAttention as GroupedAttention
from zipjax.nn.experts import ExpertParam as ExpertParam
from zipjax.nn.experts import SwigluExperts as SwigluExperts
from zipjax.nn.moe import ONE_DEVICE as ONE_DEVICE
from zipjax.nn.moe import ExpertParallel as ExpertParallel
from zipjax.nn.moe import MoE as MoE
from zipjax.nn.moe import MoEStats as MoEStats
from zipjax.nn.rotary import rotary as rotary
