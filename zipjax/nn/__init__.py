"""Layers in Flax NNX."""

from zipjax.nn.attention import GroupedAttention as GroupedAttention
from zipjax.nn.compressed_experts import CompressedSwigluExperts as CompressedSwigluExperts
from zipjax.nn.compressed_layers import CompressedConv as CompressedConv
from zipjax.nn.compressed_layers import CompressedEinsum as CompressedEinsum
from zipjax.nn.compressed_layers import CompressedEmbed as CompressedEmbed
from zipjax.nn.compressed_layers import CompressedLinear as CompressedLinear
from zipjax.nn.compressed_layers import CompressedLinearGeneral as CompressedLinearGeneral
from zipjax.nn.compressed_layers import CompressedLoRALinear as CompressedLoRALinear
from zipjax.nn.compressed_param import CompressedParam as CompressedParam
from zipjax.nn.compressed_param import PlainVariable as PlainVariable
from zipjax.nn.compressed_param import decode_param as decode_param
from zipjax.nn.decoded import call_decoded as call_decoded
from zipjax.nn.experts import ExpertParam as ExpertParam
from zipjax.nn.experts import SwigluExperts as SwigluExperts
from zipjax.nn.moe import ONE_DEVICE as ONE_DEVICE
from zipjax.nn.moe import ExpertParallel as ExpertParallel
from zipjax.nn.moe import MoE as MoE
from zipjax.nn.moe import MoEStats as MoEStats
from zipjax.nn.pieces import decode_pieces as decode_pieces
from zipjax.nn.pieces import encode_pieces as encode_pieces
from zipjax.nn.rotary import rotary as rotary
from zipjax.nn.twins import TWINS as TWINS
from zipjax.nn.twins import Twin as Twin
from zipjax.nn.twins import become_twin as become_twin
from zipjax.nn.twins import change_class as change_class
from zipjax.nn.twins import set_compressed as set_compressed
