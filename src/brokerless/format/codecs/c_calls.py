"""Calls of C functions from kernels, by address: the functions must neither keep nor call back anything of Python."""

# Numba's extension API is untyped.
# pyright: basic, reportCallIssue=false

from __future__ import annotations

from brokerless.format.intrinsics import address
from brokerless.format.kernel import cgutils, intrinsic, ir, types

__all__ = ["address_of", "call_c"]


@intrinsic
def address_of(typing, array, position, length):
    """The address of byte ``position`` of an array, from which a function reads or writes at most ``length`` bytes."""

    def generate(context, builder, sig, args):
        return builder.ptrtoint(address(context, builder, sig, args, 0, 1, args[2]), ir.IntType(64))

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def call_c(typing, function, arguments):
    """Calls the function at an address (int64) with a tuple of int64: pointers, and integers of up to 64 bits. Returns
    64 bits, of which a function of ``int`` sets the lower 32."""

    def generate(context, builder, sig, args):
        values = cgutils.unpack_tuple(builder, args[1], sig.args[1].count)
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * len(values))
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)

    return types.int64(types.int64, arguments), generate
