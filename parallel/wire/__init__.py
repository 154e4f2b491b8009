"""How an array becomes what travels between devices."""

from parallel.wire.codec import Codec as Codec
from parallel.wire.transport import transport as transport
