"""Rows 7 to 12: containers that lie, with checksums that are right."""

import copy
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

from tests.reliability.samples import dump, forge, forge_index, raw_sample, split_container
from tests.reliability.tally import Tally, read_contents
from zipjax.files.checksum import checksum64
from zipjax.files.spec import INDEX_NBYTES_MAX

Forgeries = Iterator[tuple[str, bytes]]


def all_refused(row: int, kind: str, forgeries: Forgeries) -> Tally:
    """Read every forgery; each must be refused by a typed error that says what was got."""
    tally = Tally(row, kind)
    for what, data in forgeries:
        tally.attempt(lambda data=data: read_contents(data) is None, what)
    return tally.done()


def hostile_sizes() -> Forgeries:
    """Row 7: sizes and numbers that cannot be, in every field that holds one."""
    numbers: dict[str, Any] = {
        "-1": -1,
        "2^63": 1 << 63,
        "2^64": 1 << 64,
        "a float": 1.5,
        "an integral float": 5.0,
        "true": True,
        "a string": "5",
        "null": None,
        "a list": [5],
    }
    for name, number in numbers.items():
        yield f"shape is {name}", _forged(_set_shape, [number])
        yield f"offset is {name}", _forged(_set_stream, "offset", number)
        yield f"nbytes is {name}", _forged(_set_stream, "nbytes", number)
    for text in (b"NaN", b"Infinity", b"-Infinity", b"1e400", b"9" * 5000, b"-0.0", b"1E2"):
        yield f"shape is {text[:9]!r}", _forged_text(b'"shape":[10]', b'"shape":[' + text + b"]")
    yield "a tensor of 2^60 elements", _forged(_set_shape, [1 << 60])
    yield "a product of 2^64", _forged(_set_shape, [1 << 32, 1 << 32])
    yield "a product that overflows to 10", _forged(_set_shape, [1 << 62, 4, 10])
    yield "an empty tensor with an absurd axis", _forged(_set_shape, [0, 1 << 62, 1 << 62])
    yield "65 axes", _forged(_set_shape, [1] * 65)
    yield "a stream of 2^40 bytes", _forged(_swell_stream)
    yield "a zip bomb: a petabyte in ten bytes", _forged(_set_shape, [1 << 47])
    yield from _hostile_headers()


def _hostile_headers() -> Forgeries:
    data = raw_sample()
    nbytes = len(data)
    for name, value in {
        "0": 0,
        "2^40": 1 << 40,
        "2^64 - 1": (1 << 64) - 1,
        "+64": nbytes + 64,
    }.items():
        yield f"file size {name}", _with_field(data, 16, value)
        yield f"index offset {name}", _with_field(data, 24, value)
        yield f"index size {name}", _with_field(data, 32, value)
    yield "index above the cap", _with_field(data, 32, INDEX_NBYTES_MAX + 1)
    yield "index offset not aligned", _with_field(data, 24, 65)
    yield "index inside the header", _with_field(data, 24, 0)


def hostile_ranges() -> Forgeries:
    """Row 8: chunks that overlap, leave holes, or lie elsewhere."""
    chunks, index = split_container(raw_sample())

    def moved(change: Callable[[list[dict]], Any], chunks: bytes = chunks) -> bytes:
        forged = copy.deepcopy(index)
        change([s for t in forged["tensors"] for s in t.get("streams", ())])
        return forge(chunks, forged)

    yield "the second overlaps the first", moved(lambda s: s[1].update(offset=s[0]["offset"]))
    yield "a hole of 64 bytes", moved(lambda s: s[1].update(offset=s[1]["offset"] + 64))
    yield "not aligned", moved(lambda s: s[1].update(offset=s[1]["offset"] + 1))
    yield "in the header", moved(lambda s: s[0].update(offset=0))
    yield "in the index", moved(lambda s: s[0].update(offset=64 + len(chunks)))
    yield "outside the file", moved(lambda s: s[-1].update(offset=1 << 40))
    yield "at the last number", moved(lambda s: s[-1].update(offset=(1 << 63) - 1))
    yield "swapped", moved(lambda s: s[0].update(offset=s[1]["offset"]) or s[1].update(offset=64))
    yield "all at one place", moved(lambda s: [stream.update(offset=64) for stream in s])
    yield "a gap before the index", forge(chunks + bytes(64), index)
    yield "a chunk too few", forge(chunks[:-64], index)
    yield "no chunks at all", forge(b"", index)
    yield "100,000 overlapping tensors", _many_overlapping(index, 100_000)


def hostile_duplicates() -> Forgeries:
    """Row 9: the same thing said twice."""
    yield "a key of the index twice", _forged_text(b'"metadata":', b'"metadata":{},"metadata":')
    yield (
        "a key of a tensor twice",
        _forged_text(b'"dtype":"int64"', b'"dtype":"int64","dtype":"int64"'),
    )
    yield (
        "a key twice, once escaped",
        _forged_text(b'"dtype":"int64"', b'"dtype":"int64","dt\\u0079pe":"uint64"'),
    )
    yield "a key of metadata twice", _forged_text(b'"empty":""', b'"empty":"","empty":"1"')
    yield "a tensor twice", _forged(lambda i: i["tensors"].append(i["tensors"][-1]))
    yield "a name twice", _forged(lambda i: i["tensors"][1].update(name=i["tensors"][0]["name"]))
    yield "NFC and NFD of a name", _forged(_rename, "caf\u00e9", "cafe\u0301")
    yield (
        "a tie to itself",
        _forged(lambda i: i["tensors"][-1].update(same_as=i["tensors"][-1]["name"])),
    )
    yield "a tie to what is not there", _forged(lambda i: i["tensors"][-1].update(same_as="nobody"))
    yield "a tie to a later tensor", _forged(lambda i: i["tensors"].insert(0, i["tensors"].pop()))
    yield "a tie with a shape", _forged(lambda i: i["tensors"][-1].update(shape=[5]))


def hostile_names() -> Forgeries:
    """Row 10: names that no tensor can have."""
    names = [
        "",
        "\0",
        "a\0b",
        "../a",
        "a/../../b",
        "..",
        "a\\..\\b",
        "/etc/passwd",
        "\\\\host\\share",
    ]
    names += [
        "C:\\a",
        "c:/a",
        "a\nb",
        "\x1b[2Ja",
        "a\u2028b",
        "\x7f",
        "\x85",
        "x" * 1025,
        "\u00e9" * 513,
    ]
    for name in names:
        yield f"name {ascii(name)[:20]}", _forged(_rename, name)
    for name in ("\ud800", "a\udfff"):
        yield f"name {name!a}", _forged_text(b'"a.ids"', json.dumps(name).encode())
    for value in (None, 5, ["a"], {"a": "b"}, True):
        yield f"name is {value!r}", _forged(_rename, value)


def hostile_json() -> Forgeries:
    """Row 11: JSON that is deep, huge, or none."""
    deep = 10_000
    text = dump(split_container(raw_sample())[1])
    chunks = split_container(raw_sample())[0]
    texts = {
        "10,000 lists": b'{"metadata":' + b"[" * deep + b"]" * deep + b"}",
        "10,000 objects": b'{"a":' * deep + b"1" + b"}" * deep,
        "10,000 lists, never closed": b'{"metadata":' + b"[" * deep,
        "nesting behind an escaped quote": b'{"a\\"":' + b"[" * deep,
        "a million keys": b"{" + b",".join(b'"k%d":0' % k for k in range(1_000_000)) + b"}",
        "a million numbers": b'{"tensors":[' + b"0," * 1_000_000 + b"0]}",
        "six million numbers": b'{"tensors":[' + b"0," * 6_000_000 + b"0]}",
        "byte-order mark": b"\xef\xbb\xbf" + text,
        "a space first": b" " + text,
        "a newline first": b"\n" + text,
        "UTF-16": text.decode().encode("utf-16"),
        "Latin-1": text.replace(b"a test", b"\xe9"),
        "an overlong encoding": text.replace(b"a test", b"\xc0\xaf"),
        "a list": b"[" + text + b"]",
        "a second object": text + text,
        "junk behind": text + b"x",
        "nothing": b"",
        "a bare string": b'"metadata"',
        "cut in the middle": text[: len(text) // 2],
        "a comment": text.replace(b"{", b"{/* */", 1),
        "a trailing comma": text[:-1] + b",}",
        "single quotes": text.replace(b'"', b"'"),
        "a raw control character": text.replace(b"a test", b"a\ntest"),
    }
    for what, index in texts.items():
        yield what, forge(chunks, index)


def unknown_values() -> Forgeries:
    """Row 12: what only a future or foreign version knows; each field in three ways."""
    data = raw_sample()
    for version in (0, 2, 0xFFFFFFFF):
        yield f"version {version}", _with_field(data, 8, version, "<I")
    for flags in (1, 1 << 31, 0xFFFFFFFF):
        yield f"flags {flags:#x}", _with_field(data, 12, flags, "<I")
    for reserved in (1, 1 << 63, (1 << 64) - 1):
        yield f"reserved {reserved:#x}", _with_field(data, 48, reserved)
    for value in ("zstd", "RAW", ""):
        yield f"codec {value!r}", _forged(lambda i, v=value: i["tensors"][0].update(codec=v))
        yield f"layout {value!r}", _forged(lambda i, v=value: i["tensors"][0].update(layout=v))
        yield f"dtype {value!r}", _forged(lambda i, v=value: i["tensors"][0].update(dtype=v))
        yield f"stream {value!r}", _forged(_set_stream, "name", value)
        yield f"checksum {value!r}", _forged(_set_stream, "xxh3_64", value)
    for value in ("scale", "", "Name"):
        yield (
            f"field {value!r} of a tensor",
            _forged(lambda i, v=value: i["tensors"][0].update({v: 1})),
        )
        yield f"field {value!r} of a stream", _forged(_set_stream, value, 1)
        yield f"field {value!r} of the index", _forged(lambda i, v=value: i.update({v: 1}))
    for key in ("name", "dtype", "shape", "codec", "layout", "xxh3_128", "streams"):
        yield f"no {key}", _forged(lambda i, k=key: i["tensors"][0].pop(k))
    for kind in ("npz", "", 5):
        yield (
            f"origin {kind!r}",
            _forged(lambda i, k=kind: i.update(origin={"kind": k, "header": ""})),
        )


def _forged(change: Callable[..., Any], *args: Any) -> bytes:
    return forge_index(raw_sample(), lambda index: change(index, *args))


def _forged_text(old: bytes, new: bytes) -> bytes:
    """The sample with its index's text changed, for what no parsed object can say."""
    chunks, index = split_container(raw_sample())
    text = dump(index)
    assert old in text
    return forge(chunks, text.replace(old, new, 1))


def _set_shape(index: dict, shape: list) -> None:
    index["tensors"][0]["shape"] = shape


def _set_stream(index: dict, field: str, value: Any) -> None:
    index["tensors"][0]["streams"][0][field] = value


def _swell_stream(index: dict) -> None:
    tensor = index["tensors"][0]
    tensor["shape"] = [1 << 37]
    tensor["streams"][0].update(shape=[1 << 40], nbytes=1 << 40)


def _rename(index: dict, *names: Any) -> None:
    for tensor, name in zip(index["tensors"], names, strict=False):
        tensor["name"] = name


def _with_field(data: bytes, offset: int, value: int, kind: str = "<Q") -> bytes:
    """A header with one field changed and its checksum put right."""
    header = bytearray(data[:56])
    struct.pack_into(kind, header, offset, value)
    return bytes(header) + struct.pack("<Q", checksum64(bytes(header))) + data[64:]


def _many_overlapping(index: dict, count: int) -> bytes:
    first = index["tensors"][0]
    tensors = [first | {"name": f"t{number}"} for number in range(count)]
    return forge(bytes(128), {"metadata": {}, "tensors": tensors})
