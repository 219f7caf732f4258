//! Numbers that look drawn by chance, the same for the same seed (splitmix64).

/// A sequence of them.
#[derive(Clone, Debug)]
pub struct Draw(pub u64);

impl Draw {
    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `bound` - 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }

    /// From 0 to `bound` - 1.
    pub fn small(&mut self, bound: u32) -> u32 {
        self.below(u64::from(bound)) as u32
    }

    /// From 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of a list that is not empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.place(list)]
    }

    /// A place in a list that is not empty.
    pub fn place<T>(&mut self, list: &[T]) -> usize {
        self.below(list.len() as u64) as usize
    }

    /// From 0 to `count` - 1; the one of rank k about as often as 1 / k, as lists are asked for.
    pub fn popular(&mut self, count: usize) -> usize {
        ((count as f64 + 1.0).powf(self.share()) as usize - 1).min(count - 1)
    }
}
