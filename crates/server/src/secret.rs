//! Secrets of API keys: how they are drawn, checked and hashed.

use std::fmt;

use model::catalogue::SecretHash;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;

use crate::rng::Rng;

/// What stands before the random part: the reference's word for a stored key (wire protocol 6.7).
const PREFIX: &str = "standard_";
/// Random bytes of a secret, written as twice as many hexadecimal digits (wire protocol 6.7).
const RANDOM_BYTES: usize = 128;
/// Random bytes of an id, written as the 20 digits that the official SDKs use for theirs.
const ID_BYTES: usize = 10;
/// Shorter secrets can be guessed; longer ones do not fit beside other headers.
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 16..=512;

/// The secret of an API key. Its debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret(String);

impl KeySecret {
    /// Draws a new one.
    pub fn draw(rng: Rng) -> KeySecret {
        let mut bytes = [0; RANDOM_BYTES];
        rng(&mut bytes);
        KeySecret(format!("{PREFIX}{}", hex(&bytes)))
    }

    /// Takes one that a person chose.
    ///
    /// # Errors
    /// When it is not 16 to 512 printable ASCII characters without spaces: it travels in a header.
    pub fn new(text: &str) -> Result<KeySecret, String> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("an API key holds printable ASCII characters without spaces".to_owned());
        }
        if !SECRET_CHARS.contains(&text.len()) {
            let (min, max, len) = (SECRET_CHARS.start(), SECRET_CHARS.end(), text.len());
            return Err(format!(
                "an API key has {min} to {max} characters, not {len}"
            ));
        }
        Ok(KeySecret(text.to_owned()))
    }

    /// The secret itself, for the one who may see it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is stored of it.
    pub fn hash(&self) -> SecretHash {
        sha256(self.0.as_bytes())
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(…)")
    }
}

/// Whether both are the same, in a time that depends on their lengths alone.
pub fn is_same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    // By words: byte by byte, a key of 265 characters took a tenth of a cached answer.
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<8>(), right.as_chunks::<8>());
    let words = left.iter().zip(right);
    let same = words.fold(left_rest.ct_eq(right_rest), |same, (left, right)| {
        same & u64::from_ne_bytes(*left).ct_eq(&u64::from_ne_bytes(*right))
    });
    same.into()
}

/// A new id of 20 hexadecimal digits.
pub fn draw_id(rng: Rng) -> String {
    let mut bytes = [0; ID_BYTES];
    rng(&mut bytes);
    hex(&bytes)
}

/// Lower-case hexadecimal digits, two for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |text, byte| {
            text + &format!("{byte:02x}")
        })
}

/// SHA-256 of a secret, which is what is stored of it.
pub fn sha256(secret: &[u8]) -> SecretHash {
    let hash = digest(&SHA256, secret);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_is_the_published_one() {
        // FIPS 180-4, the example message "abc".
        let hash = sha256(b"abc");
        assert_eq!(hash[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(hash[28..], [0xf2, 0x00, 0x15, 0xad]);
    }

    #[test]
    fn a_drawn_secret_has_the_form_of_the_reference() {
        let secret = KeySecret::draw(|bytes| bytes.fill(0xA5));
        assert_eq!(secret.reveal(), format!("standard_{}", "a5".repeat(128)));
        assert_eq!(KeySecret::new(secret.reveal()), Ok(secret));
        assert_eq!(draw_id(|bytes| bytes.fill(0x0F)), "0f".repeat(10));
    }

    #[test]
    fn chosen_secrets_are_held_to_their_limits() {
        for good in ["a".repeat(16), "~".repeat(512)] {
            assert!(KeySecret::new(&good).is_ok(), "{good}");
        }
        let (short, long) = ("a".repeat(15), "a".repeat(513));
        for bad in [
            "",
            &short,
            &long,
            "with a space in it",
            "with-an-umlaut-ü-in-it",
            "tab\tin-it-xxxxxxxx",
        ] {
            assert!(KeySecret::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_byte_counts_when_secrets_are_compared() {
        let secret = b"standard_0123456789";
        assert!(is_same(secret, secret.as_slice()) && is_same(b"", b""));
        for position in 0..secret.len() {
            let mut other = secret.to_vec();
            other[position] ^= 0x80;
            assert!(!is_same(secret, &other), "byte {position}");
            assert!(!is_same(secret, &secret[..position]));
        }
    }

    #[test]
    fn the_hash_is_sha_256_and_debug_output_hides_the_secret() {
        let secret = KeySecret::new(
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn\
                                     hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
        )
        .unwrap();
        // FIPS 180-2, the 896-bit message.
        let wanted = "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1";
        assert_eq!(hex(&secret.hash()), wanted);
        assert_eq!(format!("{secret:?}"), "KeySecret(…)");
    }
}
