"""Packs or unpacks standard input with the libraries that Python programs use.

compress.py pack|unpack|unpack-begun FORMAT [VARIANT]

unpack-begun: of a stream that has not ended, everything that can be read by now.
"""

import sys


def pack(format, variant, data):
    half = len(data) // 2
    if format == "gzip" and variant == "module":
        import gzip

        return gzip.compress(data[:half]) + gzip.compress(data[half:])
    if format in ("gzip", "zlib", "deflate"):
        import zlib

        packer = zlib.compressobj(9 if variant else 6, zlib.DEFLATED, {"gzip": 31, "zlib": 15, "deflate": -15}[format])
        return packer.compress(data[:half]) + packer.flush(zlib.Z_SYNC_FLUSH) + packer.compress(data[half:]) + packer.flush()
    if format == "zstd":
        import zstandard

        options = {"level": 19, "write_checksum": True} if variant else {}
        packer = zstandard.ZstdCompressor(**options)
        if variant == "whole":
            return packer.compress(data)
        packer = packer.compressobj()
        first = packer.compress(data[:half]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        return first + packer.compress(data[half:]) + packer.flush()
    if format == "brotli":
        import brotli

        packer = brotli.Compressor(quality=11 if variant else 5)
        return packer.process(data[:half]) + packer.flush() + packer.process(data[half:]) + packer.finish()
    if format == "lz4":
        import lz4.frame

        options = dict(block_linked=not variant, content_checksum=bool(variant), block_checksum=bool(variant))
        if variant:
            options["block_size"] = lz4.frame.BLOCKSIZE_MAX4MB
        if variant == "whole":
            return lz4.frame.compress(data, store_size=True, **options)
        packer = lz4.frame.LZ4FrameCompressor(**options)
        first = packer.begin() + packer.compress(data[:half])
        return first + packer.compress(data[half:]) + packer.flush()
    if format == "snappy":
        import snappy

        packer = snappy.StreamCompressor()
        return packer.compress(data[:half]) + packer.compress(data[half:])
    raise SystemExit(f"unknown format {format}")


def unpack(format, data, begun):
    if format == "gzip" and not begun:
        import gzip

        return gzip.decompress(data)
    if format in ("gzip", "zlib", "deflate"):
        import zlib

        unpacker = zlib.decompressobj({"gzip": 31, "zlib": 15, "deflate": -15}[format])
        out = unpacker.decompress(data)
        check(begun or (unpacker.eof and not unpacker.unused_data))
        return out
    if format == "zstd":
        import zstandard

        unpacker = zstandard.ZstdDecompressor().decompressobj()
        out = unpacker.decompress(data)
        check(begun or unpacker.eof)
        return out
    if format == "brotli":
        import brotli

        unpacker = brotli.Decompressor()
        out = piece = unpacker.process(data)
        while begun and piece:  # of a stream that has not ended it gives a piece at a time
            piece = unpacker.process(b"")
            out += piece
        check(begun or unpacker.is_finished())
        return out
    if format == "lz4":
        import lz4.frame

        unpacker = lz4.frame.LZ4FrameDecompressor()
        out = unpacker.decompress(data)
        check(begun or unpacker.eof)
        return out
    if format == "snappy":
        import snappy

        return snappy.StreamDecompressor().decompress(data)
    raise SystemExit(f"unknown format {format}")


def check(ended):
    if not ended:
        raise SystemExit("the stream has not ended")


what, format, variant = (sys.argv[1:] + [""])[:3]
data = sys.stdin.buffer.read()
out = pack(format, variant, data) if what == "pack" else unpack(format, data, what == "unpack-begun")
sys.stdout.buffer.write(out)
