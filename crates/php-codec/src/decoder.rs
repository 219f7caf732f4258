//! From bytes to a value, part by part, from bytes that may change while they are read.

use super::{
    BYTES_MAX, DEPTH_MAX, HAS_CLASSES, PhpKey, PhpRefusal, PhpScalar, PhpWhole, TAGS, Tag,
};

/// Bytes to be decoded. Those of a mapped file may be others at a second look.
pub trait PhpBytes: Copy {
    /// How many.
    fn length(&self) -> usize;

    /// The byte at `at`; `None` beyond the end.
    fn byte(&self, at: usize) -> Option<u8>;

    /// So many bytes from `at`; `None` beyond the end.
    fn part(&self, at: usize, length: usize) -> Option<Self>;
}

impl PhpBytes for &[u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.get(at).copied()
    }

    fn part(&self, at: usize, length: usize) -> Option<Self> {
        self.get(at..)?.get(..length)
    }
}

/// What makes a value of its parts, which come in their order.
///
/// A call that gives `false` ends the decoding. Until then, and until the bytes are known to have
/// been whole, nothing but the result may be changed.
pub trait PhpBuilder<S> {
    /// A scalar.
    fn scalar(&mut self, scalar: PhpScalar) -> bool;

    /// A text.
    fn text(&mut self, text: S) -> bool;

    /// A case of an enumeration: its class and its name.
    fn case(&mut self, class: S, name: S) -> bool;

    /// What has so many parts begins. For each, [`PhpBuilder::key`] comes first if it has keys.
    fn begin(&mut self, whole: PhpWhole<S>, count: usize) -> bool;

    /// The key of the next part. A key that was there before must be refused.
    fn key(&mut self, key: PhpKey<S>) -> bool;

    /// What began last is whole.
    fn end(&mut self) -> bool;

    /// The reference that began as the one of this number. It may not be whole yet.
    fn same_reference(&mut self, number: u64) -> bool;

    /// The object that began as the one of this number. It may not be whole yet.
    fn same_object(&mut self, number: u64) -> bool;
}

/// Reads one value.
pub struct PhpDecoder<S> {
    from: S,
    at: usize,
    length: usize,
    references: u64,
    objects: u64,
    /// Bytes that the parts not yet begun of all wholes take at least. Without it each whole of a
    /// nested one could claim all bytes that are left.
    owed: usize,
    may_have_classes: bool,
}

fn demand(is_accepted: bool) -> Result<(), PhpRefusal> {
    if is_accepted {
        Ok(())
    } else {
        Err(PhpRefusal::Part)
    }
}

impl<S: PhpBytes> PhpDecoder<S> {
    /// A decoder of a value that is all of these bytes. Classes may be allowed only where the bytes
    /// are a copy that was verified, since to make an object can run what its class says.
    pub fn new(from: S, may_have_classes: bool) -> PhpDecoder<S> {
        PhpDecoder {
            length: from.length(),
            from,
            at: 0,
            references: 0,
            objects: 0,
            owed: 0,
            may_have_classes,
        }
    }

    /// Whether the value says that it has objects or cases; `None` if there is no value. It may say
    /// something else a moment later.
    pub fn has_classes(from: S) -> Option<bool> {
        from.byte(0).map(|flags| flags & HAS_CLASSES != 0)
    }

    /// Builds the value.
    ///
    /// # Errors
    /// Why not. What was built until then must be thrown away.
    pub fn build(mut self, to: &mut impl PhpBuilder<S>) -> Result<(), PhpRefusal> {
        if self.length > BYTES_MAX {
            return Err(PhpRefusal::TooLong);
        }
        let flags = self.byte()?;
        if flags & !HAS_CLASSES != 0 {
            return Err(PhpRefusal::Malformed);
        }
        self.may_have_classes &= flags & HAS_CLASSES != 0;
        self.item(to, 0)?;
        if self.at == self.length {
            Ok(())
        } else {
            Err(PhpRefusal::Malformed)
        }
    }

    fn item(&mut self, to: &mut impl PhpBuilder<S>, depth: u32) -> Result<(), PhpRefusal> {
        let tag = self.tag()?;
        self.item_of(tag, to, depth)
    }

    fn item_of(
        &mut self,
        tag: Tag,
        to: &mut impl PhpBuilder<S>,
        depth: u32,
    ) -> Result<(), PhpRefusal> {
        let is_accepted = match tag {
            Tag::Null => to.scalar(PhpScalar::Null),
            Tag::False => to.scalar(PhpScalar::Bool(false)),
            Tag::True => to.scalar(PhpScalar::Bool(true)),
            Tag::Int => to.scalar(PhpScalar::Int(self.int()?)),
            Tag::Float => to.scalar(PhpScalar::Float(self.float()?)),
            Tag::Text => to.text(self.bytes()?),
            Tag::Case => {
                let class = self.class()?;
                to.case(class, self.bytes()?)
            }
            Tag::SameReference => to.same_reference(self.number_below(self.references)?),
            Tag::SameObject => to.same_object(self.number_below(self.objects)?),
            Tag::List | Tag::Map | Tag::Object | Tag::State | Tag::Reference => {
                return self.whole(tag, to, depth);
            }
        };
        demand(is_accepted)
    }

    fn whole(
        &mut self,
        tag: Tag,
        to: &mut impl PhpBuilder<S>,
        depth: u32,
    ) -> Result<(), PhpRefusal> {
        if depth >= DEPTH_MAX {
            return Err(PhpRefusal::TooDeep);
        }
        let whole = match tag {
            Tag::List => PhpWhole::List,
            Tag::Map => PhpWhole::Map,
            Tag::Object => PhpWhole::Object(self.class()?),
            Tag::State => PhpWhole::State(self.class()?),
            _ => PhpWhole::Reference,
        };
        // A key has two bytes at least, an item one.
        let (least, has_keys) = match whole {
            PhpWhole::Map | PhpWhole::Object(_) => (3, true),
            PhpWhole::List | PhpWhole::State(_) | PhpWhole::Reference => (1, false),
        };
        let count = match whole {
            PhpWhole::State(_) | PhpWhole::Reference => 1,
            PhpWhole::List | PhpWhole::Map | PhpWhole::Object(_) => self.count(least)?,
        };
        self.owed += count * least;
        match whole {
            PhpWhole::Object(_) | PhpWhole::State(_) => self.objects += 1,
            PhpWhole::Reference => self.references += 1,
            PhpWhole::List | PhpWhole::Map => {}
        }
        demand(to.begin(whole, count))?;
        for _ in 0..count {
            self.owed -= least;
            if has_keys {
                let key = self.key(matches!(whole, PhpWhole::Map))?;
                demand(to.key(key))?;
            }
            self.part_of(&whole, to, depth + 1)?;
        }
        demand(to.end())
    }

    /// A state is an array, and a reference is to no other reference: PHP has neither.
    fn part_of(
        &mut self,
        whole: &PhpWhole<S>,
        to: &mut impl PhpBuilder<S>,
        depth: u32,
    ) -> Result<(), PhpRefusal> {
        let (next, is_right) = match whole {
            PhpWhole::State(_) => {
                let tag = self.tag()?;
                (Some(tag), matches!(tag, Tag::List | Tag::Map))
            }
            PhpWhole::Reference => {
                let tag = self.tag()?;
                let is_reference = matches!(tag, Tag::Reference | Tag::SameReference);
                (Some(tag), !is_reference)
            }
            PhpWhole::List | PhpWhole::Map | PhpWhole::Object(_) => (None, true),
        };
        if !is_right {
            return Err(PhpRefusal::Malformed);
        }
        match next {
            // The tag is not read a second time: it may be another one now.
            Some(tag) => self.item_of(tag, to, depth),
            None => self.item(to, depth),
        }
    }

    fn key(&mut self, may_be_int: bool) -> Result<PhpKey<S>, PhpRefusal> {
        match self.tag()? {
            Tag::Int if may_be_int => Ok(PhpKey::Int(self.int()?)),
            Tag::Text => Ok(PhpKey::Text(self.bytes()?)),
            _ => Err(PhpRefusal::Malformed),
        }
    }

    fn class(&mut self) -> Result<S, PhpRefusal> {
        if !self.may_have_classes {
            return Err(PhpRefusal::Class);
        }
        self.bytes()
    }

    fn tag(&mut self) -> Result<Tag, PhpRefusal> {
        let tag = TAGS.get(usize::from(self.byte()?));
        tag.copied().ok_or(PhpRefusal::Malformed)
    }

    fn byte(&mut self) -> Result<u8, PhpRefusal> {
        let byte = self.from.byte(self.at).ok_or(PhpRefusal::Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, PhpRefusal> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(PhpRefusal::Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(PhpRefusal::Malformed)
    }

    fn int(&mut self) -> Result<i64, PhpRefusal> {
        let folded = self.number()?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    fn float(&mut self) -> Result<f64, PhpRefusal> {
        let mut bytes = [0; 8];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(f64::from_bits(u64::from_le_bytes(bytes)))
    }

    fn number_below(&mut self, bound: u64) -> Result<u64, PhpRefusal> {
        let number = self.number()?;
        if number < bound {
            Ok(number)
        } else {
            Err(PhpRefusal::Malformed)
        }
    }

    /// A count of parts of so many bytes at least, for which there is room after all that others
    /// have still to come.
    fn count(&mut self, least: usize) -> Result<usize, PhpRefusal> {
        let count = usize::try_from(self.number()?).map_err(|_| PhpRefusal::TooLong)?;
        let room = (self.length - self.at).saturating_sub(self.owed) / least;
        if count <= room {
            Ok(count)
        } else {
            Err(PhpRefusal::TooLong)
        }
    }

    fn bytes(&mut self) -> Result<S, PhpRefusal> {
        let length = usize::try_from(self.number()?).map_err(|_| PhpRefusal::TooLong)?;
        let part = self
            .from
            .part(self.at, length)
            .ok_or(PhpRefusal::Malformed)?;
        self.at += length;
        Ok(part)
    }
}
