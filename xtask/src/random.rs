//! Chance that repeats itself: the same seed makes the same choices.

/// A small generator (splitmix64): its whole state is one number.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One for something that has a name, whatever else was drawn before.
    pub(crate) fn named(name: &str) -> Self {
        // FNV-1a: enough to tell names apart.
        Self(
            name.bytes()
                .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)),
        )
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, but not including, `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of them, if there are any.
    pub(crate) fn among<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| self.pick(from))
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.below(from.len() as u64) as usize;
        &from[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let draw = |mut random: Random| (0..8).map(|_| random.below(1000)).collect::<Vec<_>>();
        assert_eq!(draw(Random::new(7)), draw(Random::new(7)));
        assert_ne!(draw(Random::new(7)), draw(Random::new(8)));
        assert_ne!(draw(Random::named("a")), draw(Random::named("b")));
    }
}
