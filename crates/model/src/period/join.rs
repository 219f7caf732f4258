//! The period join of two rows.

use super::Period;

/// Two pieces that share an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The position of the one on the left.
    pub left: usize,
    /// The position of the one on the right.
    pub right: usize,
    /// The part in both.
    pub valid: Period,
}

/// The pairs that share an instant, in the order of their shared parts. On either side periods
/// come in order and do not overlap, as the pieces of a row do; so the work is linear in both.
pub fn join(left: &[Period], right: &[Period]) -> Vec<Shared> {
    for side in [left, right] {
        let in_order = side.windows(2).all(|pair| pair[0].end <= pair[1].from);
        assert!(in_order, "the pieces of a row come in order, disjoint");
    }
    let (mut l, mut r) = (0, 0);
    let mut pairs = Vec::new();
    while let (Some(one), Some(other)) = (left.get(l), right.get(r)) {
        pairs.extend(one.intersect(other).map(|valid| Shared {
            left: l,
            right: r,
            valid,
        }));
        // The one that ends first can meet nothing further.
        if one.end <= other.end {
            l += 1;
        } else {
            r += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::tests::period;
    use super::*;

    #[test]
    fn every_pair_that_shares_an_instant_is_found_once() {
        let sides: [Vec<Period>; 5] = [
            vec![],
            vec![period(20, 80)],
            vec![period(0, 50), period(50, 100)],
            vec![
                period(0, 10),
                period(15, 25),
                period(40, 60),
                period(79, 81),
            ],
            vec![Period::ALWAYS],
        ];
        for (left, right) in sides.iter().flat_map(|l| sides.iter().map(move |r| (l, r))) {
            let mut slow = Vec::new();
            for (l, one) in left.iter().enumerate() {
                for (r, other) in right.iter().enumerate() {
                    slow.extend(one.intersect(other).map(|valid| Shared {
                        left: l,
                        right: r,
                        valid,
                    }));
                }
            }
            slow.sort_by_key(|pair| pair.valid.from());
            assert_eq!(join(left, right), slow);
        }
    }
}
