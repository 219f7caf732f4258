"""Tables of pandas, polars and pyarrow as bytes of a tier.

Those of polars and pyarrow go by the stream format of Arrow, which they read without pyarrow and
without polars respectively. pandas needs neither: a table is its indexes and columns, and a column
by what it consists of.
"""

import importlib
import io
import sys
from typing import Any

from tidemark_cache import _parts

_POLARS_FRAME, _POLARS_SERIES = "polars.DataFrame", "polars.Series"
_ARROW_TABLE, _ARROW_BATCH = "pyarrow.Table", "pyarrow.RecordBatch"
_PANDAS_FRAME, _PANDAS_SERIES = "pandas.DataFrame", "pandas.Series"
_PANDAS_INDEX = "pandas.Index"


def parts_of(value: Any, kind: type) -> tuple[str, Any] | None:
    """The name of a table's class and what it is made from again; None for anything else.

    Raises:
        TypeError: when a column cannot be stored.
    """
    package = kind.__module__.partition(".")[0]
    if package not in ("pandas", "polars", "pyarrow"):
        return None
    module: Any = sys.modules[package]
    if package == "polars":
        return _of_polars(value, kind, module)
    if package == "pyarrow":
        return _of_arrow(value, kind, module)
    if kind is module.DataFrame:
        columns = [_column(value.iloc[:, number]) for number in range(value.shape[1])]
        return (_PANDAS_FRAME, (_index(value.columns), _index(value.index), columns, value.attrs))
    if kind is module.Series:
        name = value.name
        return (_PANDAS_SERIES, (_index(value.index), _column(value), name, value.attrs))
    if isinstance(value, module.Index):
        return (_PANDAS_INDEX, _index(value))
    return None


def _module(name: str) -> Any:
    """Not imported before a table of it is read: the process may have none so far."""
    return importlib.import_module(name)


def restorer(name: str) -> Any:
    """The function that makes what has this name; None for a name that is not of this module."""
    return _RESTORERS.get(name)


def _of_polars(value: Any, kind: type, polars: Any) -> tuple[str, Any] | None:
    if kind is polars.Series:
        return (_POLARS_SERIES, (value.name, _polars_bytes(value.to_frame("values"), polars)))
    return (_POLARS_FRAME, _polars_bytes(value, polars)) if kind is polars.DataFrame else None


def _polars_bytes(frame: Any, polars: Any) -> bytes:
    for name, dtype in frame.schema.items():
        if dtype == polars.Object:
            raise TypeError(f"has the column {name!r} of Python objects, which cannot be stored")
    content = io.BytesIO()
    frame.write_ipc_stream(content, compression="uncompressed")
    return content.getvalue()


def _polars_frame(content: bytes) -> Any:
    return _module("polars").read_ipc_stream(io.BytesIO(_parts.exact(bytes, content)))


def _polars_series(parts: Any) -> Any:
    name, content = parts
    return _polars_frame(content).to_series().alias(name)


def _of_arrow(value: Any, kind: type, arrow: Any) -> tuple[str, Any] | None:
    if kind not in (arrow.Table, arrow.RecordBatch):
        return None
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, value.schema) as writer:
        writer.write(value)
    name = _ARROW_TABLE if kind is arrow.Table else _ARROW_BATCH
    return (name, sink.getvalue().to_pybytes())


def _arrow_table(content: bytes) -> Any:
    with _module("pyarrow").ipc.open_stream(_parts.exact(bytes, content)) as reader:
        return _validated(reader.read_all())


def _arrow_batch(content: bytes) -> Any:
    with _module("pyarrow").ipc.open_stream(_parts.exact(bytes, content)) as reader:
        return _validated(reader.read_next_batch())


def _validated(table: Any) -> Any:
    """Looks at every offset: who read a wrong one later would read beyond the memory of the
    table, and end the process."""
    table.validate(full=True)
    return table


def _pandas_frame(parts: Any) -> Any:
    pandas = _module("pandas")
    columns, index, arrays, attributes = parts
    # Numbered first: two columns may have one name.
    numbered = {number: _array(array) for number, array in enumerate(arrays)}
    frame = pandas.DataFrame(numbered, index=_restored_index(index), copy=False)
    frame.columns = _restored_index(columns)
    frame.attrs.update(_parts.exact(dict, attributes))
    return frame


def _pandas_series(parts: Any) -> Any:
    pandas = _module("pandas")
    index, array, name, attributes = parts
    series = pandas.Series(_array(array), index=_restored_index(index), name=name, copy=False)
    series.attrs.update(_parts.exact(dict, attributes))
    return series


def _index(index: Any) -> Any:
    pandas: Any = sys.modules["pandas"]
    kind = type(index)
    if kind is pandas.RangeIndex:
        return ("range", index.start, index.stop, index.step, index.name)
    if kind is pandas.MultiIndex:
        # Item by item: levels are gone through when they are read, however long a range is.
        levels = [_items(level) for level in index.levels]
        codes = [codes.copy() for codes in index.codes]
        return ("multi", levels, codes, list(index.names))
    return _items(index)


def _items(index: Any) -> Any:
    return ("index", _column(index), getattr(index, "freqstr", None), index.name)


def _restored_index(parts: Any) -> Any:
    pandas = _module("pandas")
    form, *parts = parts
    if form == "range":
        start, stop, step, name = parts
        return pandas.RangeIndex(start, stop, step, name=name)
    if form == "multi":
        levels, codes, names = parts
        if any(level[0] != "index" for level in levels):
            raise ValueError("a level is not made from its items")
        whole = [_restored_index(level) for level in levels]
        return pandas.MultiIndex(whole, codes, names=names)
    array, rhythm, name = parts
    index = pandas.Index(_array(array), name=name, copy=False)
    return index if rhythm is None else type(index)(index, freq=rhythm)


def _column(values: Any) -> Any:
    """What a series or an index consists of."""
    pandas: Any = sys.modules["pandas"]
    numpy: Any = sys.modules["numpy"]
    dtype = values.dtype
    if isinstance(dtype, numpy.dtype):
        array = values.to_numpy()
        return ("objects", list(array)) if dtype.hasobject else ("plain", array)
    if isinstance(dtype, pandas.StringDtype):
        is_old = dtype.na_value is not pandas.NA
        texts = [None if text is dtype.na_value else text for text in values.array]
        texts = [text if isinstance(text, str) else None for text in texts]
        return ("texts", texts, dtype.storage, is_old)
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return ("zoned", values.array.asi8.copy(), dtype.unit, dtype.tz)
    if isinstance(dtype, pandas.CategoricalDtype):
        array = values.array
        return ("categories", array.codes.copy(), _index(array.categories), array.ordered)
    plain = getattr(dtype, "numpy_dtype", None)
    if plain is not None and getattr(pandas, f"{dtype.name}Dtype", None) is type(dtype):
        return ("masked", values.to_numpy(plain, na_value=0), values.isna().copy(), dtype.name)
    if dtype.name == "boolean":
        return ("masked", values.to_numpy(bool, na_value=False), _mask(values), dtype.name)
    raise TypeError(f"has values of the type {dtype!s} of pandas, which cannot be stored")


def _mask(values: Any) -> Any:
    mask = values.isna()
    return getattr(mask, "to_numpy", lambda: mask)().copy()


def _array(parts: Any) -> Any:
    numpy, pandas = _module("numpy"), _module("pandas")
    form, content, *more = parts
    if form in ("plain", "zoned", "categories", "masked"):
        content = _parts.exact(numpy.ndarray, content)
        if content.ndim != 1:
            # A single value would stand for as many as the index has.
            raise ValueError(f"a column has {content.ndim} dimensions, and not one")
    else:
        content = _parts.exact(list, content)
    if form == "plain":
        return content
    if form == "objects":
        objects = numpy.empty(len(content), dtype=object)
        for number, cell in enumerate(content):
            objects[number] = cell
        return pandas.array(objects, dtype=object, copy=False)
    if form == "texts":
        storage, is_old = more
        missing = numpy.nan if is_old else pandas.NA
        return pandas.array(content, dtype=pandas.StringDtype(storage, na_value=missing))
    if form == "zoned":
        unit, zone = more
        moments = content.view(f"datetime64[{unit}]")
        return pandas.DatetimeIndex(moments).tz_localize("UTC").tz_convert(zone).array
    if form == "categories":
        names, is_ordered = more
        return pandas.Categorical.from_codes(content, _restored_index(names), is_ordered)
    mask, name = more
    array = pandas.array(content, dtype=name)
    array[numpy.asarray(mask)] = pandas.NA
    return array


_RESTORERS: dict[str, Any] = {
    _POLARS_FRAME: _polars_frame,
    _POLARS_SERIES: _polars_series,
    _ARROW_TABLE: _arrow_table,
    _ARROW_BATCH: _arrow_batch,
    _PANDAS_FRAME: _pandas_frame,
    _PANDAS_SERIES: _pandas_series,
    _PANDAS_INDEX: _restored_index,
}
