//! A stream of numbers that a seed repeats.

/// The multiplier is Knuth's, from MMIX; the high bits are the good ones.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        // Neighbouring seeds begin alike.
        for _ in 0..4 {
            chance.below(2);
        }
        chance
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of the things, each as often as its weight says.
    pub fn weighed<T: Copy>(&mut self, things: &[(usize, T)]) -> T {
        let sum: usize = things.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(sum);
        for (weight, thing) in things {
            if left < *weight {
                return *thing;
            }
            left -= weight;
        }
        unreachable!("the weights add up to {sum}")
    }
}
