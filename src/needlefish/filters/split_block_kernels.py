"""Insert and check of split-block filters, compiled. Importing this module imports numba.

One value touches one block of 8 lanes of 32 bits. The lanes are written as one LLVM vector, because the loop over
eight lanes is not vectorised by itself: 1.5 ns per value instead of 7.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from needlefish.filters.compiling import Kernel, kernel
from needlefish.filters.sizing import LANES
from needlefish.filters.split_block_lanes import SALTS

_WORD = ir.IntType(32)
_BLOCK = ir.VectorType(_WORD, LANES)
READ_BLOCKS = types.Array(types.uint32, 2, "C", readonly=True)
READ_HASHES = types.Array(types.uint64, 1, "C", readonly=True)
HALF = np.uint64(32)
# Numba types an intrinsic with its typing context as an argument, which callers do not pass.
_emitted: Callable[[Kernel], Kernel] = intrinsic


def _lanes(words: Any) -> Any:
    return ir.Constant(_BLOCK, [ir.Constant(_WORD, int(word)) for word in words])


def _mask(builder: Any, key: Any) -> Any:
    """One bit per lane: 1 << (key * salt >> 27)."""
    one = builder.insert_element(ir.Constant(_BLOCK, ir.Undefined), key, ir.Constant(_WORD, 0))
    keys = builder.shuffle_vector(one, ir.Constant(_BLOCK, ir.Undefined), _lanes([0] * LANES))
    return builder.shl(_lanes([1] * LANES), builder.lshr(builder.mul(keys, _lanes(SALTS)), _lanes([27] * LANES)))


def _block_pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    first_lane = builder.mul(arguments[1], ir.Constant(ir.IntType(64), LANES))
    return builder.bitcast(builder.gep(array.data, [first_lane]), _BLOCK.as_pointer())


def _load(builder: Any, pointer: Any) -> Any:
    block = builder.load(pointer)
    # NumPy promises the alignment of a lane, not of a block.
    block.align = 4
    return block


@_emitted
def _set_bits(typing_context: Any, blocks: Any, block: Any, key: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _block_pointer(context, builder, signature, arguments)
        store = builder.store(builder.or_(_load(builder, pointer), _mask(builder, arguments[2])), pointer)
        store.align = 4
        return context.get_dummy_value()

    return types.void(blocks, types.uint64, types.uint32), emit


@_emitted
def _has_bits(typing_context: Any, blocks: Any, block: Any, key: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _load(builder, _block_pointer(context, builder, signature, arguments))
        missing = builder.and_(builder.not_(found), _mask(builder, arguments[2]))
        whole = ir.IntType(32 * LANES)
        return builder.icmp_unsigned("==", builder.bitcast(missing, whole), ir.Constant(whole, 0))

    return types.boolean(blocks, types.uint64, types.uint32), emit


@njit
def _block_of(hashed: Any, blocks: Any) -> Any:
    return ((hashed >> HALF) * np.uint64(blocks.shape[0])) >> HALF


@kernel(types.void(types.uint32[:, ::1], READ_HASHES))
def insert(blocks: Any, hashes: Any) -> None:
    for row in range(hashes.size):
        _set_bits(blocks, _block_of(hashes[row], blocks), np.uint32(hashes[row]))


@kernel(types.void(READ_BLOCKS, READ_HASHES, types.boolean[::1]))
def check(blocks: Any, hashes: Any, out: Any) -> None:
    for row in range(hashes.size):
        out[row] = _has_bits(blocks, _block_of(hashes[row], blocks), np.uint32(hashes[row]))
