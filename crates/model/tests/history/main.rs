//! The temporal laws against a model that knows nothing of versions: it keeps what was believed at
//! every point of a small grid. And the worked cases of the specification.

mod agree;
mod cases;
mod memory;
