//! What goes through bytes and back, and which bytes are refused.

use std::cell::Cell;

use proptest::prelude::*;

use super::parts::{ValuePart, decode, encode};
use super::*;

fn text(text: &str) -> ValuePart {
    ValuePart::Text(text.into())
}

fn key(name: &str) -> ValuePart {
    ValuePart::Key(PhpKey::Text(name.into()))
}

fn int(number: i64) -> ValuePart {
    ValuePart::Scalar(PhpScalar::Int(number))
}

fn demand_alike(parts: &[ValuePart]) {
    let bytes = encode(parts).unwrap();
    assert_eq!(decode(bytes.as_slice(), true).as_deref(), Ok(parts));
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length], true).is_err(), "{length} bytes");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(decode(longer.as_slice(), true), Err(PhpRefusal::Malformed));
}

#[test]
fn scalars_and_texts_keep_their_type_and_every_bit() {
    let floats = [0.0, -0.0, 1.5, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY];
    let ints = [0, 1, -1, 63, 64, -64, -65, i64::MAX, i64::MIN];
    let scalars = [
        PhpScalar::Null,
        PhpScalar::Bool(false),
        PhpScalar::Bool(true),
    ]
    .into_iter()
    .chain(floats.map(PhpScalar::Float))
    .chain(ints.map(PhpScalar::Int));
    for scalar in scalars {
        demand_alike(&[ValuePart::Scalar(scalar)]);
    }
    // A NaN with a sign and a payload.
    demand_alike(&[ValuePart::NotANumber(0xfff8_0000_dead_beef)]);
    let bytes = encode(&[ValuePart::Scalar(PhpScalar::Float(-0.0))]).unwrap();
    assert_eq!(bytes, [0, 4, 0, 0, 0, 0, 0, 0, 0, 0x80]);
    demand_alike(&[ValuePart::Text(vec![0, 255, b'\'', b'%'])]);
    demand_alike(&[text("")]);
}

#[test]
fn array_object_reference_and_case_go_through_bytes_and_back() {
    let own = |class: &str| PhpWhole::Object(class.as_bytes().to_vec());
    demand_alike(&[
        ValuePart::Begin(PhpWhole::Map, 6),
        key(""),
        ValuePart::Begin(PhpWhole::List, 0),
        ValuePart::Key(PhpKey::Int(-7)),
        ValuePart::Begin(PhpWhole::Reference, 1),
        int(5),
        key("07"),
        ValuePart::SameReference(0),
        key("object"),
        ValuePart::Begin(own("WP_Post"), 2),
        key("\0*\0itself"),
        ValuePart::SameObject(0),
        key("ID"),
        int(3),
        key("state"),
        ValuePart::Begin(PhpWhole::State(b"DateTime".to_vec()), 1),
        ValuePart::Begin(PhpWhole::List, 2),
        ValuePart::SameObject(1),
        ValuePart::SameObject(0),
        key("case"),
        ValuePart::Case(b"Suit".to_vec(), b"Hearts".to_vec()),
    ]);
}

#[test]
fn classes_are_refused_where_the_bytes_are_not_verified() {
    let values = [
        vec![ValuePart::Begin(PhpWhole::Object(b"C".to_vec()), 0)],
        vec![
            ValuePart::Begin(PhpWhole::List, 1),
            ValuePart::Case(b"S".to_vec(), b"C".to_vec()),
        ],
    ];
    for value in values {
        let mut bytes = encode(&value).unwrap();
        assert_eq!(PhpDecoder::has_classes(bytes.as_slice()), Some(true));
        assert_eq!(decode(bytes.as_slice(), false), Err(PhpRefusal::Class));
        // One that says it has none.
        bytes[0] = 0;
        assert_eq!(decode(bytes.as_slice(), true), Err(PhpRefusal::Class));
    }
    let plain = encode(&[int(1)]).unwrap();
    assert_eq!(PhpDecoder::has_classes(plain.as_slice()), Some(false));
    assert_eq!(PhpDecoder::has_classes(&[][..]), None);
}

#[test]
fn depth_is_bounded_alike_in_both_directions() {
    let nested = |depth: usize| {
        let mut parts = vec![ValuePart::Begin(PhpWhole::List, 1); depth];
        parts.push(int(1));
        parts
    };
    demand_alike(&nested(DEPTH_MAX as usize));
    assert_eq!(
        encode(&nested(DEPTH_MAX as usize + 1)),
        Err(PhpRefusal::TooDeep)
    );
    let list = [Tag::List as u8, 1];
    let bytes = [&[0][..], &list.repeat(1_000_000), &[0]].concat();
    assert_eq!(decode(bytes.as_slice(), true), Err(PhpRefusal::TooDeep));
}

#[test]
fn hostile_bytes_are_refused_before_anything_is_made_of_them() {
    let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let with_max = |tag: Tag| [&[0, tag as u8][..], &max].concat();
    let (list, text_tag, map) = (Tag::List as u8, Tag::Text as u8, Tag::Map as u8);
    let reference = Tag::Reference as u8;
    let cases = [
        (vec![], PhpRefusal::Malformed),
        (vec![2, 0], PhpRefusal::Malformed),
        (vec![0, 14], PhpRefusal::Malformed),
        (with_max(Tag::List), PhpRefusal::TooLong),
        (with_max(Tag::Map), PhpRefusal::TooLong),
        (with_max(Tag::Text), PhpRefusal::Malformed),
        (with_max(Tag::SameReference), PhpRefusal::Malformed),
        // More bits than a number has.
        (
            vec![0, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
            PhpRefusal::Malformed,
        ),
        (vec![0, list, 3, 0, 0], PhpRefusal::TooLong),
        // Each of two lists claims the same bytes.
        (vec![0, list, 4, list, 2, 0, 0, 0], PhpRefusal::TooLong),
        (vec![0, Tag::SameObject as u8, 0], PhpRefusal::Malformed),
        // A reference to a reference, and one to itself from outside.
        (vec![0, reference, reference, 0], PhpRefusal::Malformed),
        (
            vec![0, reference, Tag::SameReference as u8, 0],
            PhpRefusal::Malformed,
        ),
        // A key that is none, and one that comes twice.
        (vec![0, map, 1, 0, 0, 0], PhpRefusal::Malformed),
        (
            vec![0, map, 2, text_tag, 1, b'a', 0, text_tag, 1, b'a', 0],
            PhpRefusal::Part,
        ),
        // A state that is no array, and an object with a number for a name.
        (vec![1, Tag::State as u8, 1, b'C', 0], PhpRefusal::Malformed),
        (
            vec![1, Tag::Object as u8, 1, b'C', 1, 3, 2, 0],
            PhpRefusal::Malformed,
        ),
    ];
    for (bytes, refusal) in cases {
        assert_eq!(decode(bytes.as_slice(), true), Err(refusal), "{bytes:?}");
    }
}

#[test]
fn encoder_refuses_what_is_not_one_whole_value() {
    let values = [
        vec![],
        vec![int(1), int(2)],
        vec![ValuePart::Begin(PhpWhole::List, 2), int(1)],
        vec![ValuePart::Begin(PhpWhole::List, 0), int(1)],
    ];
    for value in values {
        assert_eq!(encode(&value), Err(PhpRefusal::Malformed), "{value:?}");
    }
    let long = ValuePart::Text(vec![0; BYTES_MAX]);
    assert_eq!(encode(&[long]), Err(PhpRefusal::TooLong));
}

/// Bytes that are others at each look, and count the looks.
#[derive(Clone, Copy)]
struct Changing<'a> {
    seed: &'a Cell<u64>,
    looks: &'a [Cell<u8>],
}

impl PhpBytes for Changing<'_> {
    fn length(&self) -> usize {
        self.looks.len()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        let looks = self.looks.get(at)?;
        looks.set(looks.get() + 1);
        let next = self.seed.get().wrapping_mul(0x5851_f42d_4c95_7f2d);
        let next = next.wrapping_add(0x1405_7b7e_f767_814f);
        self.seed.set(next);
        // Tags and small numbers, for the most part.
        Some((next >> 59) as u8 % 16)
    }

    fn part(&self, at: usize, length: usize) -> Option<Self> {
        let looks = self.looks.get(at..)?.get(..length)?;
        Some(Changing { looks, ..*self })
    }
}

/// How much a builder may have set aside.
struct Count(usize);
impl<S: PhpBytes> PhpBuilder<S> for Count {
    fn scalar(&mut self, _: PhpScalar) -> bool {
        self.0 += 1;
        true
    }
    fn text(&mut self, _: S) -> bool {
        true
    }
    fn case(&mut self, _: S, _: S) -> bool {
        true
    }
    fn begin(&mut self, _: PhpWhole<S>, count: usize) -> bool {
        self.0 += count;
        true
    }
    fn key(&mut self, _: PhpKey<S>) -> bool {
        true
    }
    fn end(&mut self) -> bool {
        true
    }
    fn same_reference(&mut self, _: u64) -> bool {
        true
    }
    fn same_object(&mut self, _: u64) -> bool {
        true
    }
}

#[test]
fn bytes_that_change_are_read_once_each_and_never_beyond_their_end() {
    let mut built = 0;
    for seed in 0..200_000 {
        let looks = vec![Cell::new(0); 40];
        let from = Changing {
            seed: &Cell::new(seed),
            looks: &looks,
        };
        let mut count = Count(0);
        let _ = PhpDecoder::new(from, true).build(&mut count);
        assert!(looks.iter().all(|looks| looks.get() <= 1), "{seed}");
        // Each part is counted where it is announced, and a scalar once more.
        assert!(count.0 <= 2 * looks.len(), "{seed}");
        built += usize::from(count.0 > 3);
    }
    assert!(built > 1_000, "{built}");
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_go_through_parts_and_back(
        bytes in prop::collection::vec(prop_oneof![4 => 0..16_u8, 1 => any::<u8>()], 0..80),
    ) {
        if let Ok(parts) = decode(bytes.as_slice(), true) {
            let again = encode(&parts).unwrap();
            prop_assert_eq!(decode(again.as_slice(), true), Ok(parts));
        }
    }
}
