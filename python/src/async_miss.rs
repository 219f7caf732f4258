//! The coroutine that answers a call of an async function which no fresh entry answers.

use pyo3::ffi;

use crate::bind::GivenCall;
use crate::call_key::{CallKey, KeyParts};
use crate::callable::Inner;
use crate::key::LookupKey;
use crate::miss::MissedCall;
use crate::object::{HeldObject, Outcome};
use crate::python::{self, PythonFunction};

impl Inner {
    /// The coroutine that answers a call of an async function.
    pub unsafe fn async_miss(
        &self,
        cached: *mut ffi::PyObject,
        missed: MissedCall<'_>,
    ) -> Outcome<HeldObject> {
        let MissedCall { call, lookup, .. } = missed;
        let (arguments, names) = call.taken()?;
        // What the caller may change until it awaits is a key only then.
        let key = match lookup {
            LookupKey::Plain(_) => {
                let instance = match self.is_method() {
                    true => call.slice(0).first(),
                    false => None,
                };
                let parts = KeyParts {
                    cached: HeldObject::borrowed(cached),
                    instance: instance.map(|instance| HeldObject::borrowed(*instance)),
                    hash: missed.hash,
                    key: lookup.held(),
                    arguments: arguments.clone(),
                    names: names.clone(),
                    // An instance may have another table by then.
                    absent_at: missed.absent_at.filter(|_| instance.is_none()),
                };
                CallKey::object(parts)?
            }
            LookupKey::Built(_) => HeldObject::borrowed(ffi::Py_None()),
        };
        let given = [cached, arguments.as_ptr(), names.as_ptr(), key.as_ptr()];
        let function = python::known(PythonFunction::AsyncMiss)?;
        python::call(function, given.as_ptr(), given.len(), std::ptr::null_mut())
    }

    /// As `miss_of_plain`, of an async function.
    #[inline(never)]
    pub unsafe fn async_miss_of_plain(
        &self,
        cached: *mut ffi::PyObject,
        call: &GivenCall,
        arguments: &[*mut ffi::PyObject],
        hash: u64,
        edition: u64,
    ) -> Outcome<HeldObject> {
        let _held = HeldObject::borrowed(cached);
        let missed = MissedCall {
            store: &self.store,
            lookup: &LookupKey::Plain(arguments),
            hash,
            call,
            runs_seen: None,
            absent_at: Some(edition),
        };
        self.async_miss(cached, missed)
    }
}
