"""The one place that decides how a collective's operand travels.

Strategies that look at links (compress only slow axes, change the algorithm) belong here.
"""

from typing import Literal, TypeAlias

Codec: TypeAlias = Literal["exponent"] | None
