"""Which 8 consecutive exponents the codes name: from a histogram, or from sigma in closed form.

For N(0, sigma^2) the exponent e = floor(log2 |x|) has

    P(e) = erf(2^(e+1) / (sigma sqrt 2)) - erf(2^e / (sigma sqrt 2))        (ZipServ, appendix A)

which has one peak, so the best window is a run. Its place depends on sigma alone (ZipCCL's idea,
made exact here): let c be the largest sigma whose best window is still the 8 exponents below 2^1,
that is -7..0. Scaling x by 2 moves every exponent by 1, so the best window starts at
ceil(log2(sigma / c)) - 7.
"""

import math

import numpy as np

from pallas_kernels.errors import ArgumentError
from pallas_kernels.format.spec import WINDOW_SIZE

# Sampling: tensors above this size show the histogram of one run in 17 (odd, so that it does not
# beat with row lengths).
SAMPLE_ABOVE_ELEMS = 1 << 22
SAMPLE_RUN_ELEMS = 256
SAMPLE_STRIDE_RUNS = 17


def window_from_histogram(histogram: np.ndarray) -> int:
    """The first exponent of the run of 8 that covers most elements; the lowest among equals.

    Args:
        histogram: integers [2^E], elements per exponent field value.
    """
    covered = np.convolve(np.asarray(histogram, np.int64), np.ones(WINDOW_SIZE, np.int64), "valid")
    return int(np.argmax(covered))


def escape_rate_gaussian(sigma: float, base: int) -> float:
    """Share of N(0, sigma^2) whose floor(log2 |x|) is outside [base, base + 8)."""
    scale = sigma * math.sqrt(2)
    return 1 - (math.erf(2.0 ** (base + WINDOW_SIZE) / scale) - math.erf(2.0**base / scale))


def window_from_sigma(sigma: float, *, exponent_bias: int = 0) -> int:
    """The first exponent of the best window for N(0, sigma^2), in closed form.

    Args:
        sigma: standard deviation, positive and finite.
        exponent_bias: added to the result; pass a float's bias to get its exponent field.

    Raises:
        ArgumentError: sigma is not a positive finite number.
    """
    if not (sigma > 0 and math.isfinite(sigma)):
        raise ArgumentError("sigma must be positive and finite", got=sigma)
    return math.ceil(math.log2(sigma) - _LOG2_SIGMA_STEP) - (WINDOW_SIZE - 1) + exponent_bias


def _log2_sigma_step() -> float:
    """log2 of the sigma at which windows -7..0 and -6..1 cover equally much.

    Leaving -7 loses erf(2^-6 / s) - erf(2^-7 / s), taking 1 gains erf(4 / s) - erf(2 / s) (s =
    sigma sqrt 2).
    The gain is negligible for small sigma and grows, so there is one crossing: bisect it.
    """

    def advantage(log2_sigma: float) -> float:
        return escape_rate_gaussian(2.0**log2_sigma, -7) - escape_rate_gaussian(2.0**log2_sigma, -6)

    low, high = -2.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if advantage(middle) <= 0 else (low, middle)
    return low


_LOG2_SIGMA_STEP = _log2_sigma_step()
