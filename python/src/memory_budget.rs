//! Bytes that several functions share.

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::guard::{Guarded, SharedCount};
use crate::object::{HeldObject, Outcome, Raised};
use crate::python;

/// How a function is weighed, and has an entry leave: it stands above this file.
#[derive(Clone, Copy)]
pub struct PayerWays {
    /// Bytes of its entries.
    pub bytes_of: unsafe fn(*mut ffi::PyObject) -> u64,
    pub give_up_one: unsafe fn(*mut ffi::PyObject),
}

/// A function that may have to give an entry up, as a weak reference.
#[derive(Clone)]
struct Payer {
    weak: HeldObject,
    ways: PayerWays,
}

/// As for one function, in `_settings.py`.
const BYTES_MAX: i64 = 1 << 48;

/// A bound on the bytes of all entries of all functions that were given it.
#[pyclass(frozen, weakref, name = "MemoryBudget", module = "tidemark_cache")]
pub struct FunctionBudget {
    max_bytes: u64,
    /// Of all entries of these functions.
    bytes: SharedCount,
    payers: Guarded<Vec<Payer>>,
}

#[pymethods]
impl FunctionBudget {
    #[new]
    fn new(max_bytes: i64) -> PyResult<FunctionBudget> {
        if !(1..=BYTES_MAX).contains(&max_bytes) {
            return Err(PyValueError::new_err(format!(
                "max_bytes must be from 1 to {BYTES_MAX} bytes, not {max_bytes}"
            )));
        }
        Ok(FunctionBudget {
            max_bytes: max_bytes.unsigned_abs(),
            bytes: SharedCount::new(0),
            payers: Guarded::default(),
        })
    }

    /// The bound.
    #[getter]
    fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Bytes held, as the package weighs them.
    #[getter]
    fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    fn __repr__(&self) -> String {
        format!("MemoryBudget({})", self.max_bytes)
    }
}

impl FunctionBudget {
    /// Counts what one of the functions holds more or less than before.
    pub fn move_bytes(&self, before: u64, after: u64) {
        self.bytes.move_by(before, after);
    }

    /// From now on `function` may have to give an entry up for another one.
    pub unsafe fn join(&self, function: &HeldObject, ways: PayerWays) -> Outcome<()> {
        // Forgets some that have ended, so that no more than about half of them ever have.
        self.drawn()?;
        let weak = ffi::PyWeakref_NewRef(function.as_ptr(), std::ptr::null_mut());
        let weak = HeldObject::owned(weak)?;
        self.payers.lock().push(Payer { weak, ways });
        Ok(())
    }

    /// Has functions give entries up until they hold no more than they may.
    pub unsafe fn make_room(&self) -> Outcome<()> {
        while self.bytes.get() > self.max_bytes {
            let Some((function, ways)) = self.chosen()? else {
                return Ok(());
            };
            (ways.give_up_one)(function.as_ptr());
        }
        Ok(())
    }

    /// The heavier one of two that were drawn, which costs the same however many there are. Where
    /// both hold nothing it is the heaviest of all, and each of them is looked at: that is often
    /// so where few of many functions hold anything.
    unsafe fn chosen(&self) -> Outcome<Option<(HeldObject, PayerWays)>> {
        let (one, other) = (self.drawn()?, self.drawn()?);
        let heavier = one.into_iter().chain(other).max_by_key(weight);
        if let Some(heavier) = heavier.filter(|one| weight(one) > 0) {
            return Ok(Some(heavier));
        }
        let all: Vec<Payer> = self.payers.lock().clone();
        let mut heaviest = None;
        for payer in &all {
            heaviest = heaviest
                .into_iter()
                .chain(payer.found()?)
                .max_by_key(weight);
        }
        Ok(heaviest.filter(|one| weight(one) > 0))
    }

    /// A function by chance; forgets those that have ended.
    unsafe fn drawn(&self) -> Outcome<Option<(HeldObject, PayerWays)>> {
        loop {
            let payer = {
                let payers = self.payers.lock();
                let place = (python::chance() * payers.len() as f64) as usize;
                payers.get(place).cloned()
            };
            let Some(payer) = payer else {
                return Ok(None);
            };
            if let Some(found) = payer.found()? {
                return Ok(Some(found));
            }
            let is_it = |known: &Payer| known.weak.as_ptr() == payer.weak.as_ptr();
            let mut payers = self.payers.lock();
            let ended = payers.iter().position(is_it);
            let ended = ended.map(|ended| payers.swap_remove(ended));
            drop(payers);
            drop(ended);
        }
    }
}

impl Payer {
    /// The function, unless it has ended.
    unsafe fn found(&self) -> Outcome<Option<(HeldObject, PayerWays)>> {
        let found = HeldObject::owned(ffi::PyObject_CallNoArgs(self.weak.as_ptr()))?;
        Ok((found.as_ptr() != ffi::Py_None()).then_some((found, self.ways)))
    }
}

fn weight((function, ways): &(HeldObject, PayerWays)) -> u64 {
    unsafe { (ways.bytes_of)(function.as_ptr()) }
}

/// Says that methods have no share of a budget: their entries stand in their instances, where no
/// other function reaches them.
pub fn refuse_method() -> Raised {
    python::raise_type(
        "a method cannot share a MemoryBudget, since its entries live in the instances; \
         give it a number as max_bytes",
    )
}
