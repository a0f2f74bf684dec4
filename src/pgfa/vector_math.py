"""Exponentials that vectorise.

Loops over `math.exp` call the C library once for each number. The function here is straight-line arithmetic that the
compiler inlines and vectorises, about five times as fast, with a relative error of at most 3e-16.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pgfa._compile import compiled


@intrinsic
def _bits_of_float(typing_context: Any, x: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), build


@intrinsic
def _float_of_bits(typing_context: Any, x: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), build


_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
#: Adding this to a float below 2^51 in size rounds it to a whole number, which stands in the low bits of the sum.
_ROUNDER = 6755399441055744.0


@compiled(liberty="fused", allocates=False)
def exp(x):  # type: ignore[no-untyped-def]
    """e to the power x; zero below -708, and x must not exceed 708.

    Compiled without licence to reorder sums, since rounding by adding and subtracting `_ROUNDER` depends on it.
    """
    clipped = -708.0 if x < -708.0 else x
    shifted = clipped * _LOG2_E + _ROUNDER
    whole = shifted - _ROUNDER
    r = (clipped - whole * _LN2_HIGH) - whole * _LN2_LOW
    # Taylor series; |r| <= log(2) / 2, so that the first term left out is below 1e-17.
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.388888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    value = _float_of_bits(_bits_of_float(p) + (_bits_of_float(shifted) << 52))
    return 0.0 if x < -708.0 else value


#: Coefficients of (log(1 + f) - s f + s f^2 / 2 - ...) in s = f / (2 + f), from the C library of Sun Microsystems.
_LOG_1 = 6.666666666666735130e-01
_LOG_2 = 3.999999999940941908e-01
_LOG_3 = 2.857142874366239149e-01
_LOG_4 = 2.222219843214978396e-01
_LOG_5 = 1.818357216161805012e-01
_LOG_6 = 1.531383769920937332e-01
_LOG_7 = 1.479819860511658591e-01
_MANTISSA = 0x000FFFFFFFFFFFFF
_EXPONENT_OF_ONE = 0x3FF0000000000000
#: The upper bits of the square root of one half, below which a mantissa is better doubled.
_BITS_OF_ROOT_HALF = 0x3FE6A09E667F3BCD


@compiled(liberty="fused", allocates=False)
def log(x):  # type: ignore[no-untyped-def]
    """Natural logarithm of a positive, normal, finite x."""
    bits = _bits_of_float(x) + (_EXPONENT_OF_ONE - _BITS_OF_ROOT_HALF)
    exponent = float((bits >> 52) - 1023)
    f = _float_of_bits((bits & _MANTISSA) + _BITS_OF_ROOT_HALF) - 1.0
    s = f / (2.0 + f)
    square = s * s
    r = _LOG_7
    r = r * square + _LOG_6
    r = r * square + _LOG_5
    r = r * square + _LOG_4
    r = r * square + _LOG_3
    r = r * square + _LOG_2
    r = r * square + _LOG_1
    r = r * square
    half = 0.5 * f * f
    return exponent * _LN2_HIGH - ((half - (s * (half + r) + exponent * _LN2_LOW)) - f)


@compiled(liberty="fused", allocates=False)
def softplus(x):  # type: ignore[no-untyped-def]
    """log(1 + e^x) for any finite x, with an absolute error of at most a few units in the last place of max(1, x)."""
    return max(x, 0.0) + log(1.0 + exp(-abs(x)))


@compiled(liberty="fused", allocates=False)
def split(x):  # type: ignore[no-untyped-def]
    """The exponent of x >= 1, plus 1023, and its mantissa in [1, 2)."""
    bits = _bits_of_float(x)
    # Masked though positive: vector units know how to shift in zeros, not how to shift in signs.
    return (bits >> 52) & 0x7FF, _float_of_bits((bits & _MANTISSA) | _EXPONENT_OF_ONE)
