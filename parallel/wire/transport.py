"""Carry an array through a collective that only moves data, raw or coded, bit for bit."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array, lax

from pallas_kernels import ExponentPayload, exponent_decode, exponent_encode
from parallel.wire.bits import from_wire, to_wire
from parallel.wire.decision import Codec, decide
from parallel.wire.fallbacks import note_fallback
from parallel.wire.site import Site


@dataclass(frozen=True, kw_only=True)
class Leg:
    """One collective that moves data, as the wire sees it.

    Attributes:
        move: the collective, applied to each array that travels. It may copy and permute along
            leading axes of ranks, and nothing else.
        names: the mesh axes it runs over.
        site: who calls.
        link_share: bytes that a device sends per byte of its operand.
        parts_in: the leading axis of the operand counts ranks, so each part is encoded alone.
        parts_out: the leading axis of the result counts ranks.
    """

    move: Callable[[Array], Array]
    names: tuple
    site: Site
    link_share: float
    parts_in: bool
    parts_out: bool


def transport(x: Array, leg: Leg, codec: Codec) -> Array:
    """Return `leg.move(x)`, by way of payloads where `decide` says so.

    A payload has a static size. Where that of any rank does not hold its operand, all ranks of
    the axis take the raw branch together: whatever the input, the result is exact.
    """
    config = decide(codec, x.shape[1:] if leg.parts_in else x.shape, x.dtype)
    if config is None or lax.axis_size(leg.names) == 1:
        return _raw(x, leg)
    encode = lambda x: exponent_encode(x, config)
    payload = (jax.vmap(encode) if leg.parts_in else encode)(x)
    # The order of the branches is known to `wire_report`: coded is the false one.
    return lax.cond(
        _anywhere(payload.overflow, leg.names),
        lambda x, payload: _fallback(x, payload, leg),
        lambda x, payload: _coded(payload, leg),
        x,
        payload,
    )


def _raw(x: Array, leg: Leg) -> Array:
    return from_wire(leg.move(to_wire(x)), x.dtype)


def _coded(payload: ExponentPayload, leg: Leg) -> Array:
    """Each stream travels on its own: to join them first would cost more than to encode."""
    received = jax.tree.map(leg.move, payload)
    return (jax.vmap(exponent_decode) if leg.parts_out else exponent_decode)(received)


def _fallback(x: Array, payload: ExponentPayload, leg: Leg) -> Array:
    saved_nbytes = x.nbytes - sum(stream.nbytes for stream in jax.tree.leaves(payload))
    note_fallback(leg.site, leg.link_share * saved_nbytes)
    return _raw(x, leg)


def _anywhere(overflow: Array, names: tuple) -> Array:
    """Whether any payload of any rank overflows: bool [], equal on all ranks."""
    here = _any_of_batch(jnp.any(overflow).astype(jnp.int32))
    return lax.pmax(here, names) > 0


@jax.custom_batching.custom_vmap
def _any_of_batch(flag: Array) -> Array:
    """Return `flag`; under `vmap`, one flag for the whole batch.

    `lax.cond` on a batched flag would run both branches for every element.
    """
    return flag


@_any_of_batch.def_vmap
def _any_of_batch_vmap(axis_size: int, in_batched: list[bool], flags: Array) -> tuple[Array, bool]:
    return (jnp.max(flags) if in_batched[0] else flags), False
