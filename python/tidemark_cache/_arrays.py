"""Arrays and frames of numpy, pandas and polars, as arguments. None of them is imported here:
an object of theirs can only arrive once its package is loaded."""

import sys
from typing import Any


def _array(value: Any) -> Any:
    if value.dtype.hasobject:
        return (value.dtype.descr, value.shape, value.ravel().tolist())
    return (value.dtype.descr, value.shape, value.tobytes())


def _column(value: Any) -> Any:
    """A column or an index of pandas: numbers as bytes, anything else item by item."""
    numpy = sys.modules["numpy"]
    if isinstance(value.dtype, numpy.dtype) and not value.dtype.hasobject:
        return (value.dtype.str, value.to_numpy().tobytes())
    return (str(value.dtype), value.tolist())


def _index(value: Any) -> Any:
    if hasattr(value, "levels"):
        return ("several", list(value.names), value.tolist())
    return (type(value).__name__, value.name, _column(value))


def _of_pandas(value: Any, pandas: Any) -> Any:
    if isinstance(value, pandas.Series):
        return (value.name, value.attrs, _index(value.index), _column(value))
    if isinstance(value, pandas.DataFrame):
        columns = [_column(value.iloc[:, number]) for number in range(value.shape[1])]
        return (value.attrs, _index(value.index), _index(value.columns), columns)
    if isinstance(value, pandas.Index):
        return _index(value)
    return None


def _of_polars(value: Any, polars: Any) -> Any:
    if isinstance(value, polars.Series):
        return (value.name, str(value.dtype), value.to_list())
    if isinstance(value, polars.DataFrame):
        return [(column.name, str(column.dtype), column.to_list()) for column in value]
    return None


def parts_of(value: Any, kind: type) -> Any:
    """What stands for an array or a frame in a key, or None if it is neither."""
    package = kind.__module__.partition(".")[0]
    module = sys.modules.get(package)
    if module is None:
        return None
    if package == "numpy":
        if kind is module.ndarray:
            return _array(value)
        is_scalar = isinstance(value, module.generic) and not value.dtype.hasobject
        return (value.dtype.descr, value.tobytes()) if is_scalar else None
    if package == "pandas":
        return _of_pandas(value, module)
    return _of_polars(value, module) if package == "polars" else None
