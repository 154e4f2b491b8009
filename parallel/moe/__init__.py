"""Mixture of experts across devices: route, dispatch, apply the experts, combine; drop nothing."""

from parallel.moe import reference as reference
from parallel.moe.balance import balance_loss as balance_loss
from parallel.moe.combine import collect as collect
from parallel.moe.combine import combine as combine
from parallel.moe.dispatch import dispatch as dispatch
from parallel.moe.exchange import Mixed as Mixed
from parallel.moe.exchange import default_schedule as default_schedule
from parallel.moe.exchange import mixture as mixture
from parallel.moe.queues import Queues as Queues
from parallel.moe.queues import line_up as line_up
from parallel.moe.rounds import Schedule as Schedule
from parallel.moe.routing import Routing as Routing
from parallel.moe.routing import route as route
from parallel.moe.slots import Handle as Handle
