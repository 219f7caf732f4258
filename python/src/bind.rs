//! Binding: from a call as it was handed over to the arguments that make its key.

use std::time::Duration;

use pyo3::ffi;

use crate::api;
use crate::isolate::CopyMode;
use crate::key::{BuiltKey, LookupKey, is_plain};
use crate::object::{HeldObject, Outcome, Raised};
use crate::python;

/// What was decided while decorating.
pub struct CachePlan {
    /// Names of the parameters: positional ones first, keyword-only ones after them. Interned.
    pub names: Vec<HeldObject>,
    /// The default of each, `None` where the caller must give it.
    pub defaults: Vec<Option<HeldObject>>,
    /// Whether the parameter is left out of the key.
    pub is_ignored: Vec<bool>,
    /// The first so many cannot be given by name.
    pub positional_only: usize,
    /// The first so many can be given by position.
    pub positional: usize,
    /// `*args` is accepted.
    pub takes_more: bool,
    /// `**kwargs` is accepted.
    pub takes_names: bool,
    /// `async def`.
    pub is_async: bool,
    /// The lifetime, if there is one for all.
    pub lifetime_us: Option<u64>,
    /// The setting `copy`.
    pub copy_mode: CopyMode,
    /// Where values are kept as bytes: the function's `Codec`.
    pub codec: Option<HeldObject>,
    /// How long a caller waits for another's run.
    pub flight_wait: Duration,
    /// Gives the key in the arguments' stead.
    pub key: Option<HeldObject>,
    /// Gives the lifetime of a result, or says whether to store it, or names tags: slow paths,
    /// all in `_settings.policy`.
    pub policy: Option<HeldObject>,
    /// Gives the lifetime of an exception that is to be stored, else None.
    pub errors: Option<HeldObject>,
    /// What happens near and after the end of a lifetime.
    pub freshness: LifetimePolicy,
    /// Whether entries are weighed in bytes.
    pub weighs: bool,
    /// Whether any entry may have a lifetime.
    pub reads_clock: bool,
    /// Hashes of the tags every entry has.
    pub tags: Vec<u64>,
    /// Gives the tags of a call.
    pub tags_of: Option<HeldObject>,
}

/// What happens near and after the end of a lifetime.
#[derive(Clone, Copy, Debug, Default)]
pub struct LifetimePolicy {
    /// A hit after this share of the lifetime has the entry refreshed, or begins its lifetime
    /// again.
    pub refresh_share: Option<f64>,
    /// Whether such a hit begins the lifetime again, instead of having the body run.
    pub extends: bool,
    /// How long after its lifetime an entry still answers, while a caller refreshes it.
    pub stale_us: u64,
    /// How long after its lifetime an entry answers if the body fails.
    pub error_us: u64,
    /// Lifetimes are shortened by a random part up to this share.
    pub jitter: f64,
}

impl LifetimePolicy {
    /// Whether hits have entries refreshed at all.
    pub fn refreshes(&self) -> bool {
        self.refresh_share.is_some() || self.stale_us > 0
    }

    /// Whether entries have to know when they were fresh.
    pub fn is_wanted(&self) -> bool {
        self.refreshes() || self.error_us > 0
    }
}

/// Functions of more parameters than this are bound into memory of their own.
pub const DIRECT_MAX: usize = 8;

/// The arguments, bound to parameters; in most calls they are already.
pub enum BoundCall<'a> {
    /// As the caller laid them out.
    AsGiven(&'a [*mut ffi::PyObject]),
    /// Put in order, with defaults.
    Ordered(Vec<*mut ffi::PyObject>),
    /// With parts that no parameter names.
    Built(Box<BuiltKey>),
    /// The function itself will say what is wrong with them.
    Refused,
}

/// One call, as the interpreter handed it over.
#[derive(Clone, Copy)]
pub struct GivenCall {
    /// Positional arguments, then those by name.
    pub arguments: *const *mut ffi::PyObject,
    /// How many are positional.
    pub count: usize,
    /// A tuple of names, or null.
    pub names: *mut ffi::PyObject,
}

impl GivenCall {
    pub unsafe fn slice<'a>(&self, skip: usize) -> &'a [*mut ffi::PyObject] {
        std::slice::from_raw_parts(self.arguments.add(skip), self.count - skip)
    }

    pub unsafe fn by_name(&self) -> impl Iterator<Item = (*mut ffi::PyObject, *mut ffi::PyObject)> {
        let names = self.names;
        let count = if names.is_null() {
            0
        } else {
            api::tuple_len(names)
        };
        let values = self.arguments.add(self.count);
        (0..count).map(move |index| (api::tuple_item(names, index), *values.add(index as usize)))
    }

    pub unsafe fn run(&self, function: *mut ffi::PyObject) -> Outcome<HeldObject> {
        python::call(function, self.arguments, self.count, self.names)
    }

    /// The arguments as a tuple, and those by name as a dict.
    pub unsafe fn taken(&self) -> Outcome<(HeldObject, HeldObject)> {
        let arguments = HeldObject::owned(ffi::PyTuple_New(self.count as isize))?;
        for (index, argument) in self.slice(0).iter().enumerate() {
            let argument = HeldObject::borrowed(*argument).into_ptr();
            ffi::PyTuple_SetItem(arguments.as_ptr(), index as isize, argument);
        }
        let names = HeldObject::owned(ffi::PyDict_New())?;
        for (name, value) in self.by_name() {
            if ffi::PyDict_SetItem(names.as_ptr(), name, value) != 0 {
                return Err(Raised);
            }
        }
        Ok((arguments, names))
    }
}

impl CachePlan {
    /// Binds a call whose first `skip` arguments are the instance.
    #[inline]
    pub unsafe fn bind<'a>(&self, call: &GivenCall, skip: usize) -> Outcome<BoundCall<'a>> {
        let given = call.slice(skip);
        let wanted = self.names.len() - skip;
        let is_simple = call.names.is_null() && given.len() == wanted;
        if is_simple && self.positional == self.names.len() && !self.takes_anything() {
            return Ok(BoundCall::AsGiven(given));
        }
        self.bind_slowly(call, skip)
    }

    #[inline]
    pub fn takes_anything(&self) -> bool {
        self.takes_more || self.takes_names || self.is_ignored.iter().any(|ignored| *ignored)
    }

    /// Whether a call whose hash no fresh entry has is a miss. Not where there may be an old entry;
    /// and not where the interpreter has no lock, since another run may have stored its value after
    /// the table was looked at.
    #[inline(always)]
    pub fn knows_absence(&self) -> bool {
        !(self.reads_clock || cfg!(Py_GIL_DISABLED))
    }

    /// Binds a call of a simple function without asking the interpreter. `None` when a name is
    /// not found by its pointer, or the call does not fit.
    #[inline]
    pub unsafe fn order(
        &self,
        call: &GivenCall,
        ordered: &mut [*mut ffi::PyObject; DIRECT_MAX],
    ) -> Option<()> {
        let count = self.names.len();
        if call.count > count {
            return None;
        }
        ordered[..call.count].copy_from_slice(call.slice(0));
        for (name, value) in call.by_name() {
            let named = &self.names[self.positional_only..];
            let found = named.iter().position(|known| known.as_ptr() == name)?;
            let place = &mut ordered[found + self.positional_only];
            if !place.is_null() {
                return None;
            }
            *place = value;
        }
        for (place, default) in ordered.iter_mut().zip(&self.defaults) {
            if place.is_null() {
                *place = default.as_ref()?.as_ptr();
            }
        }
        Some(())
    }

    pub unsafe fn bind_slowly<'a>(&self, call: &GivenCall, skip: usize) -> Outcome<BoundCall<'a>> {
        let mut bound = vec![std::ptr::null_mut(); self.names.len() - skip];
        let given = call.slice(skip);
        let by_position = given.len().min(self.positional - skip.min(self.positional));
        bound[..by_position].copy_from_slice(&given[..by_position]);
        let more = &given[by_position..];
        if !more.is_empty() && !self.takes_more {
            return Ok(BoundCall::Refused);
        }
        let mut others = Vec::new();
        for (name, value) in call.by_name() {
            match self.position_of(name, skip)? {
                Some(position) if bound[position].is_null() => bound[position] = value,
                Some(_) => return Ok(BoundCall::Refused),
                None if self.takes_names => others.push((name, value)),
                None => return Ok(BoundCall::Refused),
            }
        }
        for (position, place) in bound.iter_mut().enumerate() {
            if place.is_null() {
                match &self.defaults[position + skip] {
                    Some(default) => *place = default.as_ptr(),
                    None => return Ok(BoundCall::Refused),
                }
            }
            if self.is_ignored[position + skip] {
                *place = ffi::Py_None();
            }
        }
        if more.is_empty() && others.is_empty() {
            return Ok(BoundCall::Ordered(bound));
        }
        let mut key = BuiltKey::default();
        for part in &bound {
            key.encode(*part)?;
        }
        key.count(b'*', more.len());
        for part in more {
            key.encode(*part)?;
        }
        encode_named(&mut key, others)?;
        Ok(BoundCall::Built(Box::new(key)))
    }

    pub unsafe fn position_of(
        &self,
        name: *mut ffi::PyObject,
        skip: usize,
    ) -> Outcome<Option<usize>> {
        let from = self.positional_only.max(skip);
        // Names in source text are interned: nearly always the pointers are equal.
        let named = &self.names[from..];
        if let Some(found) = named.iter().position(|known| known.as_ptr() == name) {
            return Ok(Some(found + from - skip));
        }
        for (found, known) in named.iter().enumerate() {
            match ffi::PyUnicode_Compare(known.as_ptr(), name) {
                0 => return Ok(Some(found + from - skip)),
                -1 if !ffi::PyErr_Occurred().is_null() => return Err(Raised),
                _ => {}
            }
        }
        Ok(None)
    }
}

unsafe fn encode_named(
    key: &mut BuiltKey,
    others: Vec<(*mut ffi::PyObject, *mut ffi::PyObject)>,
) -> Outcome<()> {
    let mut named = Vec::new();
    for (name, value) in others {
        let mut text = BuiltKey::default();
        text.encode(name)?;
        named.push((text.bytes, value));
    }
    named.sort_by(|a, b| a.0.cmp(&b.0));
    key.count(b'%', named.len());
    for (name, value) in named {
        key.bytes.extend_from_slice(&name);
        key.encode(value)?;
    }
    Ok(())
}

/// A bound call's key.
pub unsafe fn lookup<'a>(bound: &'a BoundCall<'a>) -> Outcome<Option<LookupKey<'a>>> {
    let arguments = match bound {
        BoundCall::AsGiven(arguments) => *arguments,
        BoundCall::Ordered(arguments) => arguments,
        BoundCall::Built(key) => return Ok(Some(LookupKey::Built(key.clone()))),
        BoundCall::Refused => return Ok(None),
    };
    if arguments.iter().all(|argument| is_plain(*argument)) {
        return Ok(Some(LookupKey::Plain(arguments)));
    }
    let mut key = BuiltKey::default();
    for argument in arguments {
        key.encode(*argument)?;
    }
    Ok(Some(LookupKey::Built(Box::new(key))))
}
