"""How an array becomes what travels between devices, and what that costs."""

from parallel.wire.bits import from_wire as from_wire
from parallel.wire.bits import to_wire as to_wire
from parallel.wire.decision import SMALL_NBYTES as SMALL_NBYTES
from parallel.wire.decision import Codec as Codec
from parallel.wire.decision import checked_codec as checked_codec
from parallel.wire.fallbacks import Fallbacks as Fallbacks
from parallel.wire.fallbacks import record_fallbacks as record_fallbacks
from parallel.wire.link_share import exchange_share as exchange_share
from parallel.wire.link_share import gather_share as gather_share
from parallel.wire.link_share import permute_share as permute_share
from parallel.wire.program import wire_report as wire_report
from parallel.wire.report import WireReport as WireReport
from parallel.wire.report import WireRow as WireRow
from parallel.wire.site import Site as Site
from parallel.wire.site import caller_site as caller_site
from parallel.wire.transport import Leg as Leg
from parallel.wire.transport import transport as transport
