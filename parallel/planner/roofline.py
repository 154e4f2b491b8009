"""Seconds of kernels from what they compute and move: the roofline, by the number of tokens."""

from parallel.planner.cost import Cost, Line, Roof
from parallel.planner.machine import CodecRate, Kernels


def matmul(kernels: Kernels, *, inner: float, outer: float, nbytes: float) -> Cost:
    """Cost of `tokens [n, inner] @ weights [inner, outer]`, by the number of tokens.

    Args:
        kernels: of the device.
        inner: elements of a token before.
        outer: elements of a token after.
        nbytes: of an element.
    """
    return _by_tokens(
        kernels,
        flops=2 * inner * outer,
        fixed_nbytes=inner * outer * nbytes,
        token_nbytes=(inner + outer) * nbytes,
        num_kernels=1,
    )


def attention(
    kernels: Kernels,
    *,
    width: float,
    num_heads: float,
    num_kv_heads: float,
    head_dim: float,
    seq_len: float,
    nbytes: float,
) -> Cost:
    """Cost of an attention block with its four projections, causal, by the number of tokens.

    Args:
        kernels: of the device.
        width: elements of a token.
        num_heads: query heads on this device.
        num_kv_heads: key and value heads on this device.
        head_dim: elements of a head.
        seq_len: tokens of a sequence; a token looks at half of them on average.
        nbytes: of an element.
    """
    queries, keys = num_heads * head_dim, num_kv_heads * head_dim
    weights = width * (2 * queries + 2 * keys)
    return _by_tokens(
        kernels,
        flops=2 * weights + 2 * 2 * queries * seq_len / 2,
        fixed_nbytes=weights * nbytes,
        token_nbytes=(4 * width + 4 * queries + 4 * keys) * nbytes,
        num_kernels=3,
    )


def experts(
    kernels: Kernels,
    *,
    width: float,
    hidden: float,
    num_matrices: int,
    num_experts: float,
    nbytes: float,
) -> Cost:
    """Cost of the experts of a device by the tokens that reach them, all experts being in use.

    Args:
        kernels: of the device.
        width: elements of a token.
        hidden: elements between an expert's matrices, those on this device.
        num_matrices: 2, or 3 with a gate.
        num_experts: experts on this device.
        nbytes: of an element.
    """
    weights = num_matrices * width * hidden
    return _by_tokens(
        kernels,
        flops=2 * weights,
        fixed_nbytes=num_experts * weights * nbytes,
        token_nbytes=(2 * width + num_matrices * hidden) * nbytes,
        num_kernels=2,
    )


def encode(codec: CodecRate) -> Line:
    """Cost of compressing, by the raw bytes."""
    return Line(codec.start_s, 1 / codec.encode_bytes_per_s)


def decode(codec: CodecRate) -> Line:
    """Cost of decompressing, by the raw bytes."""
    return Line(codec.start_s, 1 / codec.decode_bytes_per_s)


def _by_tokens(
    kernels: Kernels, *, flops: float, fixed_nbytes: float, token_nbytes: float, num_kernels: int
) -> Cost:
    """A roofline by the number of tokens; or the measured line, which holds no memory."""
    if kernels.matmul is not None:
        line = kernels.matmul
        return Line(num_kernels * line.alpha_s, flops * line.s_per_unit)
    start_s = num_kernels * kernels.launch_s
    return Roof(
        (
            Line(start_s, flops / kernels.flops_per_s),
            Line(start_s + fixed_nbytes / kernels.bytes_per_s, token_nbytes / kernels.bytes_per_s),
        )
    )
