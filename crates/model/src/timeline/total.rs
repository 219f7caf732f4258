//! A sum of doubles and integers without any rounding until it is read.
//!
//! An answer at given coordinates is the same for ever, so a sum must not depend on the order in
//! which rows are found, and must come back to what it was when a value leaves it. Adding doubles
//! as doubles keeps neither. So the sum is kept as one wide integer in units of the smallest
//! double; reading it rounds once.

/// Exponent of the unit: the smallest double above zero is 2^-1074 (IEEE 754, binary64).
const UNIT_EXPONENT: i32 = -1074;
/// The greatest double lies below 2^1024; 62 bits more are room for 2^62 of them, and one is the
/// sign: 1074 + 1024 + 62 + 1 bits, in whole limbs.
const LIMBS: usize = 34;
const LIMB_BITS: usize = 64;
/// Bits of a double's significand, the one that is not stored included.
const SIGNIFICAND_BITS: usize = 53;

/// An exact sum of at most 2^62 numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    // Two's complement, lowest limb first.
    limbs: [u64; LIMBS],
}

impl Default for Total {
    fn default() -> Total {
        Total { limbs: [0; LIMBS] }
    }
}

impl Total {
    /// Adds a finite double.
    ///
    /// # Panics
    /// If it is infinite or not a number.
    pub fn add_float(&mut self, float: f64) {
        let (significand, shift) = parts(float);
        self.add_shifted(u128::from(significand), shift, float < 0.0);
    }

    /// Takes a double away that was added.
    ///
    /// # Panics
    /// If it is infinite or not a number.
    pub fn remove_float(&mut self, float: f64) {
        let (significand, shift) = parts(float);
        self.add_shifted(u128::from(significand), shift, float >= 0.0);
    }

    /// Adds an integer, such as a sum of integers.
    pub fn add_int(&mut self, int: i128) {
        let shift = UNIT_EXPONENT.unsigned_abs() as usize;
        self.add_shifted(int.unsigned_abs(), shift, int < 0);
    }

    /// The double nearest to the sum, of two equally near ones the even one; infinite beyond the
    /// doubles. Zero is never negative.
    pub fn to_float(&self) -> f64 {
        let is_negative = self.limbs[LIMBS - 1] >> (LIMB_BITS - 1) == 1;
        let mut magnitude = self.clone();
        if is_negative {
            magnitude.negate();
        }
        let float = magnitude.rounded();
        if is_negative { -float } else { float }
    }

    /// Adds `significand` · 2^`shift` units, or takes it away.
    fn add_shifted(&mut self, significand: u128, shift: usize, subtract: bool) {
        let (first, bits) = (shift / LIMB_BITS, shift % LIMB_BITS);
        let low = significand << bits;
        let high = if bits == 0 {
            0
        } else {
            (significand >> (2 * LIMB_BITS - bits)) as u64
        };
        let parts = [low as u64, (low >> LIMB_BITS) as u64, high];
        let mut carry = false;
        for (position, limb) in self.limbs.iter_mut().enumerate().skip(first) {
            let part = parts.get(position - first).copied().unwrap_or(0);
            if position - first >= parts.len() && !carry {
                break;
            }
            let (sum, one, other) = if subtract {
                let (difference, one) = limb.overflowing_sub(part);
                let (difference, other) = difference.overflowing_sub(u64::from(carry));
                (difference, one, other)
            } else {
                let (sum, one) = limb.overflowing_add(part);
                let (sum, other) = sum.overflowing_add(u64::from(carry));
                (sum, one, other)
            };
            *limb = sum;
            carry = one | other;
        }
    }

    fn negate(&mut self) {
        let mut carry = true;
        for limb in &mut self.limbs {
            let (negated, overflows) = (!*limb).overflowing_add(u64::from(carry));
            *limb = negated;
            carry = overflows;
        }
    }

    /// A sum that is not negative, rounded.
    fn rounded(&self) -> f64 {
        let Some(top) = self.limbs.iter().rposition(|limb| *limb != 0) else {
            return 0.0;
        };
        let length = (top + 1) * LIMB_BITS - self.limbs[top].leading_zeros() as usize;
        // Up to 53 bits are a double as they are: the bits of a subnormal are its value in units.
        if length <= SIGNIFICAND_BITS {
            return scaled(self.limbs[0], 0);
        }
        let dropped = length - SIGNIFICAND_BITS;
        let mut significand = self.bits_from(dropped);
        let is_half = self.bit(dropped - 1);
        let is_above_half = is_half && self.any_below(dropped - 1);
        if is_above_half || is_half && significand & 1 == 1 {
            significand += 1;
        }
        scaled(significand, dropped)
    }

    /// 64 bits from this one on.
    fn bits_from(&self, bit: usize) -> u64 {
        let (limb, bits) = (bit / LIMB_BITS, bit % LIMB_BITS);
        let low = u128::from(self.limbs[limb]);
        let high = u128::from(self.limbs.get(limb + 1).copied().unwrap_or(0));
        ((low | high << LIMB_BITS) >> bits) as u64
    }

    fn bit(&self, bit: usize) -> bool {
        self.bits_from(bit) & 1 == 1
    }

    fn any_below(&self, bit: usize) -> bool {
        let (limb, bits) = (bit / LIMB_BITS, bit % LIMB_BITS);
        let partly = self.limbs[limb] & ((1 << bits) - 1) != 0;
        partly || self.limbs[..limb].iter().any(|limb| *limb != 0)
    }
}

/// The magnitude of a double: a significand, and by how many bits it is shifted from the unit.
fn parts(float: f64) -> (u64, usize) {
    assert!(float.is_finite(), "columns hold finite doubles");
    let bits = float.to_bits();
    let exponent = (bits >> (SIGNIFICAND_BITS - 1) & 0x7ff) as usize;
    let fraction = bits & ((1 << (SIGNIFICAND_BITS - 1)) - 1);
    match exponent {
        0 => (fraction, 0),
        _ => (fraction | 1 << (SIGNIFICAND_BITS - 1), exponent - 1),
    }
}

/// The double of `significand` · 2^`shift` units. It has at most 53 bits, or is 2^53.
fn scaled(significand: u64, shift: usize) -> f64 {
    let implicit = 1 << (SIGNIFICAND_BITS - 1);
    if significand < implicit {
        // A subnormal: only an unshifted one is so short.
        return f64::from_bits(significand);
    }
    let (fraction, exponent) = if significand >> SIGNIFICAND_BITS == 1 {
        (0, shift + 2)
    } else {
        (significand - implicit, shift + 1)
    };
    if exponent >= 0x7ff {
        return f64::INFINITY;
    }
    f64::from_bits((exponent as u64) << (SIGNIFICAND_BITS - 1) | fraction)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn total(floats: &[f64]) -> Total {
        let mut total = Total::default();
        for float in floats {
            total.add_float(*float);
        }
        total
    }

    #[test]
    fn sums_are_rounded_once_at_the_end() {
        for (floats, sum) in [
            (&[][..], 0.0),
            (&[0.1, 0.2, -0.2], 0.1),
            (&[1e308, 1e308, -1e308], 1e308),
            (&[1e308, 1e308], f64::INFINITY),
            (&[-1e308, -1e308], f64::NEG_INFINITY),
            (&[1e16, 1.0, -1e16], 1.0),
            (&[f64::MAX, f64::MIN_POSITIVE, -f64::MAX], f64::MIN_POSITIVE),
            (&[5e-324, 5e-324], 1e-323),
            (&[-5e-324, 5e-324], 0.0),
            // Half-way between two doubles: to the even one, unless a trace is above it.
            (&[9_007_199_254_740_992.0, 1.0], 9_007_199_254_740_992.0),
            (&[9_007_199_254_740_994.0, 1.0], 9_007_199_254_740_996.0),
            (
                &[9_007_199_254_740_992.0, 1.0, 5e-324],
                9_007_199_254_740_994.0,
            ),
            (&[9_007_199_254_740_991.0, 1.0], 9_007_199_254_740_992.0),
            (&[2.225_073_858_507_201e-308, 5e-324], f64::MIN_POSITIVE),
        ] {
            let result = total(floats).to_float();
            assert_eq!(result.to_bits(), sum.to_bits(), "{floats:?}: {result:e}");
        }
    }

    fn finite() -> impl Strategy<Value = f64> {
        use prop::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
        POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
    }

    proptest! {
        #[test]
        fn one_number_comes_back_bit_for_bit(float in finite()) {
            // Negative zero is no value of a column.
            prop_assert_eq!(total(&[float]).to_float().to_bits(), (float + 0.0).to_bits());
        }

        #[test]
        fn two_numbers_add_up_as_the_processor_adds_them(one in finite(), other in finite()) {
            let sum = total(&[one, other]).to_float();
            prop_assert_eq!(sum.to_bits(), (one + other + 0.0).to_bits());
        }

        #[test]
        fn integers_round_as_the_compiler_rounds_them(int in any::<i128>(), shift in 0..127_u32) {
            let int = int >> shift;
            let mut sum = Total::default();
            sum.add_int(int);
            prop_assert_eq!(sum.to_float().to_bits(), (int as f64).to_bits());
        }

        #[test]
        fn the_order_is_no_matter_and_what_leaves_leaves_no_trace(
            mut floats in prop::collection::vec(finite(), 0..20),
            seed: u64,
        ) {
            let sum = total(&floats);
            let turn = seed as usize % (floats.len() + 1);
            floats.rotate_left(turn);
            floats.reverse();
            let mut again = total(&floats);
            prop_assert_eq!(&again, &sum);
            for float in &floats {
                again.remove_float(*float);
            }
            prop_assert_eq!(again, Total::default());
        }
    }
}
