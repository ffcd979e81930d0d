"""Arrays inside VTK's XML files: text, base64, or base64 of zlib blocks."""

import base64
import binascii
import zlib
from xml.etree.ElementTree import Element

import equinox as eqx
import numpy as np

from riesz.errors import FileFormatError

TYPES = {"Float32": "f4", "Float64": "f8"} | {
    f"{name}{8 * size}": f"{code}{size}"
    for name, code in (("Int", "i"), ("UInt", "u"))
    for size in (1, 2, 4, 8)
}


class Encoding(eqx.Module):
    """How a file writes its arrays, from the attributes of its root."""

    byte_order: str  # "<" or ">"
    header: np.dtype
    compressed: bool


def encoding_of(root: Element) -> Encoding:
    byte_order = {"LittleEndian": "<", "BigEndian": ">"}.get(root.get("byte_order", ""), "<")
    header = {"UInt32": "u4", "UInt64": "u8"}.get(root.get("header_type", "UInt32"))
    compressor = root.get("compressor")
    if header is None or compressor not in (None, "vtkZLibDataCompressor"):
        raise FileFormatError(
            f"its arrays are compressed by {compressor} with header {root.get('header_type')}: "
            "save it with zlib or without compression."
        )
    return Encoding(byte_order, np.dtype(byte_order + header), compressor is not None)


def decode(element: Element, encoding: Encoding) -> np.ndarray:
    """Values of a DataArray, flat, or [row, component] where it has several components."""
    name = element.get("Name")
    kind, text = TYPES.get(element.get("type", "")), (element.text or "").strip()
    if kind is None:
        raise FileFormatError(f"array {name!r} has the unknown type {element.get('type')!r}.")
    dtype = np.dtype(encoding.byte_order + kind)
    try:
        values = decode_text(text, element.get("format", "ascii"), dtype, encoding)
        num_components = int(element.get("NumberOfComponents") or 1)
        values = values.astype(dtype.newbyteorder("="))
        return values.reshape(-1, num_components) if num_components > 1 else values
    except (ValueError, OverflowError, zlib.error, MemoryError) as error:
        raise FileFormatError(f"array {name!r} is damaged: {error}") from error


def decode_text(text: str, form: str, dtype: np.dtype, encoding: Encoding) -> np.ndarray:
    match form:
        case "ascii":
            return np.array(text.split(), dtype=dtype)
        case "binary" if encoding.compressed:
            return np.frombuffer(inflate(text, encoding.header), dtype=dtype)
        case "binary":
            return np.frombuffer(plain_bytes(text, encoding.header), dtype=dtype)
        case _:
            raise ValueError(f"data format {form!r} is not read; save as ascii or binary, inline")


def base64_length(num_bytes: int) -> int:
    return 4 * -(-num_bytes // 3)


def plain_bytes(text: str, header: np.dtype) -> bytes:
    """A count of bytes, then the bytes, in one or in two pieces of base64."""
    split = base64_length(header.itemsize)
    if text[:split].endswith("="):
        start, data = base64_bytes(text[:split]), base64_bytes(text[split:])
    else:
        whole = base64_bytes(text)
        start, data = whole[: header.itemsize], whole[header.itemsize :]
    (count,) = np.frombuffer(start, dtype=header).tolist()
    if len(data) != count:
        raise ValueError(f"{count} bytes were announced, {len(data)} found")
    return data


def inflate(text: str, header: np.dtype) -> bytes:
    """Sizes of zlib blocks (how many, full, last, each compressed), then the blocks."""
    first = base64_bytes(text[: base64_length(header.itemsize)])[: header.itemsize]
    (num_blocks,) = np.frombuffer(first, dtype=header).tolist()
    split = base64_length((3 + num_blocks) * header.itemsize)
    if split > len(text):
        raise ValueError(f"{num_blocks} compressed blocks were announced, but the text is shorter")
    _, full, last, *sizes = np.frombuffer(base64_bytes(text[:split]), dtype=header).tolist()
    data, start, blocks = base64_bytes(text[split:]), 0, []
    for number, size in enumerate(sizes, start=1):
        expected = last if number == num_blocks and last else full
        # One byte more than announced tells; a small block must not fill the memory.
        block = zlib.decompressobj().decompress(data[start : start + size], expected + 1)
        if len(block) != expected:
            raise ValueError(f"compressed block {number} does not hold {expected} bytes")
        blocks.append(block)
        start += size
    return b"".join(blocks)


def base64_bytes(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64 ({error})") from None


def encode_array(name: str, values: np.ndarray) -> Element:
    """A DataArray in base64; truth values and integers of any width become integers."""
    kind, label = storage_type(values)
    attributes = {"type": label, "Name": name, "format": "binary"}
    if values.ndim == 2:
        attributes["NumberOfComponents"] = str(values.shape[1])
    data = np.ascontiguousarray(values, dtype=kind).tobytes()
    element = Element("DataArray", attributes)
    element.text = base64.b64encode(np.array(len(data), dtype="<u8").tobytes() + data).decode()
    return element


def storage_type(values: np.ndarray) -> tuple[str, str]:
    match values.dtype.kind, values.dtype.itemsize:
        case "f", (2 | 4):
            return "<f4", "Float32"
        case "f", _:
            return "<f8", "Float64"
        case "b", _:
            return "<i1", "Int8"
        case "u", 1:
            return "<u1", "UInt8"
        case _:
            return "<i8", "Int64"
