"""Meshes, and collectives that move compressed bytes and return exact bits."""

from parallel.collectives import all_gather as all_gather
from parallel.collectives import all_to_all as all_to_all
from parallel.collectives import pbroadcast as pbroadcast
from parallel.collectives import ppermute as ppermute
from parallel.collectives import psum as psum
from parallel.collectives import psum_scatter as psum_scatter
from parallel.collectives import reference as reference
from parallel.mesh import make_mesh as make_mesh
from parallel.wire import Codec as Codec
from parallel.wire import Fallbacks as Fallbacks
from parallel.wire import WireReport as WireReport
from parallel.wire import WireRow as WireRow
from parallel.wire import record_fallbacks as record_fallbacks
from parallel.wire import wire_report as wire_report
