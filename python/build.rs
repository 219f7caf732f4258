//! Says what kind of interpreter the build is for. Without it the free-threaded parts would not be
//! compiled in, and the interpreter's lock would silently come back.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
