"""Machine instructions for kernels: words at any address of a byte array, wide copies and comparisons, CRC-32C.

NumPy's indexing in Numba moves one byte at a time; these intrinsics become single machine instructions. None of them
checks bounds, as the caller has; ``make bounds`` compiles them with such checks (``kernel.CHECK_BOUNDS``).
"""

# Numba's extension API is untyped.
# pyright: basic, reportPrivateUsage=false, reportCallIssue=false

from __future__ import annotations

import platform

from brokerless.format.kernel import cgutils, inlined, intrinsic, ir, types
from brokerless.format.kernel_library import CHECK_BOUNDS

__all__ = [
    "CRC32C_INSTRUCTION",
    "address",
    "copy_32",
    "copy_bytes",
    "copy_value",
    "crc32c_word",
    "equal_bytes_64",
    "keep_apart",
    "load_u32_be",
    "load_u64",
    "load_u64_be",
    "prefetch",
    "store_u32_be",
    "store_u64",
    "store_u64_be",
    "trailing_zeros",
]


def address(context, builder, signature, args, array: int, position: int, length):
    """The address of ``array[position]`` as an ``i8*``, for ``length`` bytes: an int, an ``i64``, or None for any."""
    struct = cgutils.create_struct_proxy(signature.args[array])(context, builder, value=args[array])
    if CHECK_BOUNDS and length is not None:
        length = ir.Constant(ir.IntType(64), length) if isinstance(length, int) else length
        _check_bounds(context, builder, args[position], length, builder.mul(struct.nitems, struct.itemsize))
    data = builder.bitcast(struct.data, ir.IntType(8).as_pointer())
    return builder.gep(data, [args[position]])


def _check_bounds(context, builder, position, length, size) -> None:
    """Raises IndexError where ``[position, position + length)`` is not within ``[0, size)``; no bytes are anywhere."""
    zero = ir.Constant(ir.IntType(64), 0)
    is_outside = builder.or_(
        builder.icmp_signed("<", position, zero),
        builder.icmp_signed(">", position, builder.sub(size, length)),
    )
    is_outside = builder.and_(is_outside, builder.icmp_signed("!=", length, zero))
    is_outside = builder.or_(is_outside, builder.icmp_signed("<", length, zero))
    with cgutils.if_unlikely(builder, is_outside):
        context.call_conv.return_user_exc(builder, IndexError, ("a word or a copy reaches out of its array",))


def _load(bits: int, swap: bool):
    def typer(typing, array, position):
        signature = types.Integer.from_bitwidth(bits, signed=False)(array, types.int64)

        def generate(context, builder, sig, args):
            word = ir.IntType(bits)
            pointer = builder.bitcast(address(context, builder, sig, args, 0, 1, bits // 8), word.as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return builder.bswap(value) if swap else value

        return signature, generate

    return typer


@intrinsic
def load_u64(typing, array, position):
    """The 8 bytes at ``position``, little-endian (the first byte lowest)."""
    return _load(64, swap=False)(typing, array, position)


@intrinsic
def load_u64_be(typing, array, position):
    return _load(64, swap=True)(typing, array, position)


@intrinsic
def load_u32_be(typing, array, position):
    return _load(32, swap=True)(typing, array, position)


@intrinsic
def store_u64(typing, array, position, word):
    """Writes ``word`` (uint64) as the 8 bytes at ``position``, little-endian."""

    def generate(context, builder, sig, args):
        pointer = builder.bitcast(address(context, builder, sig, args, 0, 1, 8), ir.IntType(64).as_pointer())
        builder.store(args[2], pointer).align = 1

    return types.void(array, types.int64, types.uint64), generate


def _store_be(bits: int):
    def typer(typing, array, position, number):
        def generate(context, builder, sig, args):
            word = ir.IntType(bits)
            pointer = builder.bitcast(address(context, builder, sig, args, 0, 1, bits // 8), word.as_pointer())
            builder.store(builder.bswap(args[2]), pointer).align = 1

        return types.void(array, types.int64, types.Integer.from_bitwidth(bits, signed=True)), generate

    return typer


@intrinsic
def store_u64_be(typing, array, position, number):
    """Writes the 64 bits of ``number`` big-endian at ``position``."""
    return _store_be(64)(typing, array, position, number)


@intrinsic
def store_u32_be(typing, array, position, number):
    """Writes the lowest 32 bits of ``number`` big-endian at ``position``."""
    return _store_be(32)(typing, array, position, number)


@intrinsic
def prefetch(typing, array, position):
    """Asks the processor to fetch the cache line at ``position``, which may be anywhere; changes nothing."""

    def generate(context, builder, sig, args):
        pointer = address(context, builder, sig, args, 0, 1, None)
        word = ir.IntType(32)
        signature = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], signature)
        read, keep, data = word(0), word(3), word(1)
        builder.call(function, [pointer, read, keep, data])

    return types.void(array, types.int64), generate


@intrinsic
def copy_32(typing, target, target_position, source, source_position):
    """Copies exactly 32 bytes; the ranges must not overlap."""

    def generate(context, builder, sig, args):
        vector = ir.VectorType(ir.IntType(8), 32).as_pointer()
        source_pointer = builder.bitcast(address(context, builder, sig, args, 2, 3, 32), vector)
        target_pointer = builder.bitcast(address(context, builder, sig, args, 0, 1, 32), vector)
        value = builder.load(source_pointer)
        value.align = 1
        builder.store(value, target_pointer).align = 1

    return types.void(target, types.int64, source, types.int64), generate


@intrinsic
def copy_bytes(typing, target, target_position, source, source_position, length):
    """Copies ``length`` bytes; the ranges may overlap."""

    def generate(context, builder, sig, args):
        cgutils.raw_memmove(
            builder,
            address(context, builder, sig, args, 0, 1, args[4]),
            address(context, builder, sig, args, 2, 3, args[4]),
            args[4],
            1,
        )

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def equal_bytes_64(typing, array, position, byte):
    """Return which of the 64 bytes from ``position`` on are ``byte`` (uint8): uint64, the first in the lowest bit."""

    def generate(context, builder, sig, args):
        vector = ir.VectorType(ir.IntType(8), 64)
        loaded = builder.load(builder.bitcast(address(context, builder, sig, args, 0, 1, 64), vector.as_pointer()))
        loaded.align = 1
        undefined = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(undefined, args[2], ir.Constant(ir.IntType(32), 0))
        every = builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64))
        return builder.bitcast(builder.icmp_unsigned("==", loaded, every), ir.IntType(64))

    return types.uint64(array, types.int64, types.uint8), generate


@intrinsic
def keep_apart(typing):
    """Compiles the helper that this is called in once, and not into each place where it is called."""

    def generate(context, builder, sig, args):
        builder.function.attributes.add("noinline")

    return types.void(), generate


@intrinsic
def trailing_zeros(typing, word):
    """Return how many of the lowest bits of ``word`` (uint64, not 0) are 0."""

    def generate(context, builder, sig, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@inlined
def copy_value(target, to: int, source, start: int, length: int) -> None:
    """Copies ``length`` bytes, in steps of 32 where ``source`` reaches far enough; ``target`` always must."""
    if length <= 256 and start + length + 32 <= len(source):
        done = 0
        while done < length:
            copy_32(target, to + done, source, start + done)
            done += 32
    else:
        copy_bytes(target, to, source, start, length)


def _crc32c_instruction() -> str | None:
    """LLVM's intrinsic for eight bytes of CRC-32C on this machine, if it has the instruction."""
    machine = platform.machine().lower()
    if machine in ("arm64", "aarch64"):
        return "llvm.aarch64.crc32cx"
    if ir is None:  # the library has it
        return None
    try:
        import llvmlite.binding

        features = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:
        return None
    return "llvm.x86.sse42.crc32.64.64" if machine in ("x86_64", "amd64") and features.get("sse4.2") else None


_CRC32C = _crc32c_instruction()
CRC32C_INSTRUCTION = _CRC32C is not None
"""Whether :func:`crc32c_word` can be compiled on this machine."""


@intrinsic
def crc32c_word(typing, crc, word):
    """The CRC-32C register ``crc`` (uint32) after the eight bytes of ``word`` (uint64), by the processor."""

    def generate(context, builder, sig, args):
        i32, i64 = ir.IntType(32), ir.IntType(64)
        if _CRC32C == "llvm.x86.sse42.crc32.64.64":
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(i64, [i64, i64]), _CRC32C)
            return builder.trunc(builder.call(function, [builder.zext(args[0], i64), args[1]]), i32)
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(i32, [i32, i64]), _CRC32C)
        return builder.call(function, [args[0], args[1]])

    return types.uint32(types.uint32, types.uint64), generate
