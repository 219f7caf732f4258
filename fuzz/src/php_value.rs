//! Any bytes as a value of PHP in a cache file: refused, or built, and then the same after it has
//! gone through bytes again. Without leave for classes, no object is built.

use php_codec::PhpWhole;
use php_codec::parts::{ValuePart, decode, encode};

pub fn check(bytes: &[u8]) {
    let built = decode(bytes, true);
    if let Ok(parts) = &built {
        let again = encode(parts).expect("what was built has bytes");
        assert!(again.len() <= bytes.len());
        assert_eq!(decode(again.as_slice(), true).as_ref(), Ok(parts));
    }
    if let Ok(parts) = decode(bytes, false) {
        let is_plain = |part: &ValuePart| {
            !matches!(
                part,
                ValuePart::Case(..) | ValuePart::Begin(PhpWhole::Object(_) | PhpWhole::State(_), _)
            )
        };
        assert!(parts.iter().all(is_plain));
        assert_eq!(built, Ok(parts));
    }
}
