"""Eight numbers at a time, for loops over a few dozen particles.

The compiler's own vector loops take several vectors at once and leave what does not fill them to a scalar end: for 20
particles and their 40 children that end, and the loops that it cannot vectorise at all because they choose, are most of
the work. Here vectors are values of their own in compiled code: `load` makes one from an array, arithmetic and
comparisons act on all eight numbers (a single number stands for eight equal ones), and `store` writes them back. What
the machine has no vectors of eight for is made from shorter ones, and sums are added up in the same order everywhere.

Arrays must be contiguous, with room for whole vectors (see `padded`). Bounds are checked where numba is told to, by
``NUMBA_BOUNDSCHECK=1``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

#: Numbers in a vector.
LANES = 8


def padded(size: int) -> int:
    """Length of an array that can be read and written in whole vectors, from any place below `size` on."""
    return -(-size // LANES) * LANES + LANES


class Lanes(types.Type):
    """The type of eight numbers of one kind: float64, int64, or boolean for what comparisons say."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


FLOATS, WHOLES, MARKS = Lanes(types.float64), Lanes(types.int64), Lanes(types.boolean)
_ELEMENT = {FLOATS: ir.DoubleType(), WHOLES: ir.IntType(64), MARKS: ir.IntType(1)}
_FIRST = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, ir.VectorType(_ELEMENT[kind], LANES))


def _spread(context: Any, builder: Any, kind: Any, lanes: Lanes, value: Any) -> Any:
    """Eight equal numbers, unless there are eight already."""
    if isinstance(kind, Lanes):
        return value
    value = context.cast(builder, value, kind, lanes.dtype)
    vector = ir.VectorType(_ELEMENT[lanes], LANES)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), _FIRST)


def _define(operation: Any, kinds: dict[Lanes, Callable[..., Any]], result: Lanes | None = None) -> None:
    """Let compiled code apply an operator of two arguments to lanes of these kinds, or to lanes and a number."""

    def lanes_of(a: Any, b: Any) -> Lanes | None:
        found = {kind for kind in (a, b) if isinstance(kind, Lanes)}
        others = [kind for kind in (a, b) if not isinstance(kind, (Lanes, types.Number, types.Boolean))]
        return found.pop() if len(found) == 1 and not others and found <= kinds.keys() else None

    @type_callable(operation)
    def type_operation(context: Any) -> Any:
        def typer(a: Any, b: Any) -> Any:
            lanes = lanes_of(a, b)
            return None if lanes is None else result or lanes

        return typer

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = lanes_of(*signature.args)
        assert lanes is not None
        a, b = (_spread(context, builder, kind, lanes, value) for kind, value in zip(signature.args, arguments))
        return kinds[lanes](builder, a, b)

    for first, second in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lower_builtin(operation, first, second)(build)


def _compare(sign: str) -> dict[Lanes, Callable[..., Any]]:
    return {
        FLOATS: lambda builder, a, b: builder.fcmp_ordered(sign, a, b),
        WHOLES: lambda builder, a, b: builder.icmp_signed(sign, a, b),
    }


_define(operator.add, {FLOATS: ir.IRBuilder.fadd, WHOLES: ir.IRBuilder.add})
_define(operator.sub, {FLOATS: ir.IRBuilder.fsub, WHOLES: ir.IRBuilder.sub})
_define(operator.mul, {FLOATS: ir.IRBuilder.fmul})
_define(operator.iadd, {FLOATS: ir.IRBuilder.fadd, WHOLES: ir.IRBuilder.add})
_define(operator.truediv, {FLOATS: ir.IRBuilder.fdiv})
_define(operator.lshift, {WHOLES: ir.IRBuilder.shl})
_define(operator.rshift, {WHOLES: ir.IRBuilder.ashr})
_define(operator.and_, {MARKS: ir.IRBuilder.and_, WHOLES: ir.IRBuilder.and_})
_define(operator.or_, {MARKS: ir.IRBuilder.or_})
_define(operator.xor, {WHOLES: ir.IRBuilder.xor})
for _operation, _sign in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
):
    _define(_operation, _compare(_sign), MARKS)


def _check_contiguous(array: Any) -> None:
    if not (isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"):
        raise TypingError(f"lanes are of contiguous arrays of one dimension, not of {array}")


@intrinsic
def load(typing_context: Any, array: Any, first: Any) -> Any:
    """The numbers of an array from `first` on."""
    _check_contiguous(array)
    lanes = Lanes(array.dtype)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, signature, arguments, lanes), align=8)

    return lanes(array, types.int64), build


@intrinsic
def store(typing_context: Any, array: Any, first: Any, numbers: Any) -> Any:
    """Write numbers to an array, from `first` on."""
    _check_contiguous(array)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(context, builder, signature, arguments, numbers), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, numbers), build


def _place(context: Any, builder: Any, signature: Any, arguments: Any, lanes: Lanes) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    if config.BOUNDSCHECK:
        size = cgutils.unpack_tuple(builder, array.shape)[0]
        inside = builder.icmp_signed("<=", builder.add(arguments[1], size.type(LANES)), size)
        with cgutils.if_unlikely(builder, builder.not_(inside)):
            context.call_conv.return_user_exc(builder, IndexError, ("eight numbers reach beyond the end of an array",))
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.VectorType(_ELEMENT[lanes], LANES).as_pointer())


@intrinsic
def spread(typing_context: Any, number: Any) -> Any:
    """Eight times the same number."""
    lanes = FLOATS if isinstance(number, types.Float) else WHOLES

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _spread(context, builder, lanes.dtype, lanes, arguments[0])

    return lanes(lanes.dtype), build


@intrinsic
def places(typing_context: Any, first: Any) -> Any:
    """Eight whole numbers in a row."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        steps = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))
        return builder.add(_spread(context, builder, types.int64, WHOLES, arguments[0]), steps)

    return WHOLES(types.int64), build


@intrinsic
def choose(typing_context: Any, condition: Any, yes: Any, no: Any) -> Any:
    """Where the condition holds one, elsewhere the other: for lanes, and just as well for single numbers."""
    lanes = next((kind for kind in (yes, no) if isinstance(kind, Lanes)), None)
    if lanes is None and isinstance(condition, Lanes):
        lanes = FLOATS if isinstance(yes, types.Float) else WHOLES
    result = lanes or types.unliteral(yes)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if lanes is None:
            return builder.select(*arguments)
        a, b = (_spread(context, builder, signature.args[i], lanes, arguments[i]) for i in (1, 2))
        return builder.select(arguments[0], a, b)

    kinds = (kind if isinstance(kind, Lanes) else lanes.dtype if lanes else result for kind in (yes, no))
    return result(condition, *kinds), build


@intrinsic
def store_marked(typing_context: Any, array: Any, first: Any, marks: Any, numbers: Any) -> Any:
    """Write the marked numbers to an array from `first` on, one behind the other; what follows them is of no use."""
    _check_contiguous(array)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments, numbers)
        if "+avx512f" in context.codegen().magic_tuple()[2]:
            builder.store(_compress(builder, arguments[2], arguments[3]), place, align=8)
            return context.get_dummy_value()
        # Each number is written where the next marked one belongs, and unless it is marked the next one over it.
        place = builder.bitcast(place, arguments[3].type.element.as_pointer())
        for i in range(LANES):
            lane = ir.Constant(ir.IntType(32), i)
            builder.store(builder.extract_element(arguments[3], lane), place)
            step = builder.zext(builder.extract_element(arguments[2], lane), ir.IntType(64))
            place = builder.gep(place, [step])
        return context.get_dummy_value()

    return types.void(array, types.int64, marks, numbers), build


def _compress(builder: Any, marks: Any, numbers: Any) -> Any:
    kind = ir.FunctionType(numbers.type, [numbers.type, marks.type, numbers.type])
    name = f"llvm.experimental.vector.compress.v{LANES}{numbers.type.element.intrinsic_name}"
    function = builder.module.declare_intrinsic(name, fnty=kind)
    return builder.call(function, [numbers, marks, ir.Constant(numbers.type, ir.Undefined)])


@intrinsic
def running_total(typing_context: Any, numbers: Any) -> Any:
    """Sums of the first one, two, ..., eight numbers."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = arguments[0]
        nothing = ir.Constant(value.type, [0.0] * LANES)
        for step in (1, 2, 4):
            # Places from LANES on are those of the second vector, which is all zeros.
            moved = [i - step if i >= step else LANES for i in range(LANES)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), moved)
            value = builder.fadd(value, builder.shuffle_vector(value, nothing, mask))
        return value

    return numbers(numbers), build


@intrinsic
def shifted(typing_context: Any, numbers: Any, first: Any) -> Any:
    """`first` and the first seven of the numbers."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        moved = [LANES, *range(LANES - 1)]
        front = _spread(context, builder, types.float64, FLOATS, arguments[1])
        return builder.shuffle_vector(arguments[0], front, ir.Constant(ir.VectorType(ir.IntType(32), LANES), moved))

    return numbers(numbers, types.float64), build


@intrinsic
def last(typing_context: Any, numbers: Any) -> Any:
    """The last of eight numbers."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), LANES - 1))

    return numbers.dtype(numbers), build


@intrinsic
def ceil(typing_context: Any, numbers: Any) -> Any:
    """The least whole numbers that are not below."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(arguments[0].type, [arguments[0].type])
        return builder.call(builder.module.declare_intrinsic(f"llvm.ceil.v{LANES}f64", fnty=kind), arguments)

    return numbers(numbers), build


@intrinsic
def count(typing_context: Any, marks: Any) -> Any:
    """How many are marked."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], ir.IntType(LANES))
        return builder.ctpop(builder.zext(bits, ir.IntType(64)))

    return types.int64(marks), build


@intrinsic
def gather(typing_context: Any, array: Any, places: Any) -> Any:
    """The numbers of an array at eight places."""
    _check_contiguous(array)
    lanes = Lanes(array.dtype)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        result = ir.Constant(ir.VectorType(_ELEMENT[lanes], LANES), ir.Undefined)
        for i in range(LANES):
            lane = ir.Constant(ir.IntType(32), i)
            place = builder.extract_element(arguments[1], lane)
            result = builder.insert_element(result, builder.load(builder.gep(data, [place])), lane)
        return result

    return lanes(array, places), build


def _reduction(combine: Callable[[Any, Any, Any], Any], meaning: str) -> Any:
    """A function of lanes that halves their number three times: in this order on every machine."""

    def reduce(typing_context: Any, numbers: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value, size = arguments[0], LANES
            while size > 1:
                size //= 2
                halves = [
                    builder.shuffle_vector(
                        value, value, ir.Constant(ir.VectorType(ir.IntType(32), size), list(range(first, first + size)))
                    )
                    for first in (0, size)
                ]
                value = combine(builder, *halves)
            return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

        return types.float64(numbers), build

    reduce.__doc__ = meaning
    return intrinsic(reduce)


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _smaller(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def larger(a: Any, b: Any) -> Any:
    """The larger number in each place."""
    raise NotImplementedError


def smaller(a: Any, b: Any) -> Any:
    """The smaller number in each place."""
    raise NotImplementedError


_define(larger, {FLOATS: _larger})
_define(smaller, {FLOATS: _smaller})


total = _reduction(ir.IRBuilder.fadd, "Sum of eight numbers.")
highest = _reduction(_larger, "The largest of eight numbers.")
lowest = _reduction(_smaller, "The smallest of eight numbers.")
