//! A map from prefixes to values that finds all prefixes of an address, the longest first: one sorted array for each
//! prefix length in use, of which a real table has a handful.

/// An address as a number.
pub(super) trait Bits: Copy + Ord {
    /// With all but the first `length` bits zero.
    fn truncate(self, length: u8) -> Self;
}

#[derive(Debug)]
pub(super) struct Lengths<B, V> {
    /// Longest first.
    levels: Vec<Level<B, V>>,
}

#[derive(Debug)]
struct Level<B, V> {
    length: u8,
    /// Sorted; `values` in step with it, so that the search touches nothing but numbers.
    keys: Vec<B>,
    values: Vec<V>,
}

impl<B: Bits, V> Lengths<B, V> {
    /// Of entries with the same prefix the last one counts.
    pub(super) fn new(mut entries: Vec<((u8, B), V)>) -> Self {
        entries.sort_by_key(|&((length, bits), _)| (std::cmp::Reverse(length), bits));
        let mut levels: Vec<Level<B, V>> = Vec::new();
        for ((length, bits), value) in entries {
            match levels.last_mut() {
                Some(level) if level.length == length => level.push(bits, value),
                Some(_) | None => levels.push(Level { length, keys: vec![bits], values: vec![value] }),
            }
        }
        Lengths { levels }
    }

    /// Every prefix that `address` lies in, the longest first, with its length.
    pub(super) fn matches(&self, address: B) -> impl Iterator<Item = (u8, &V)> {
        self.levels.iter().filter_map(move |level| {
            let at = level.keys.binary_search(&address.truncate(level.length)).ok()?;
            Some((level.length, level.values.get(at)?))
        })
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.levels.iter().flat_map(|level| &level.values)
    }
}

impl<B, V> Default for Lengths<B, V> {
    fn default() -> Self {
        Lengths { levels: Vec::new() }
    }
}

impl<B: Bits, V> Level<B, V> {
    /// Behind the last one, or instead of it: the caller sorts.
    fn push(&mut self, bits: B, value: V) {
        match (self.keys.last(), self.values.last_mut()) {
            (Some(&last), Some(old)) if last == bits => *old = value,
            (_, _) => {
                self.keys.push(bits);
                self.values.push(value);
            }
        }
    }
}

impl Bits for u32 {
    fn truncate(self, length: u8) -> u32 {
        self & u32::MAX.checked_shl(32_u32.saturating_sub(length.into())).unwrap_or(0)
    }
}

impl Bits for u128 {
    fn truncate(self, length: u8) -> u128 {
        self & u128::MAX.checked_shl(128_u32.saturating_sub(length.into())).unwrap_or(0)
    }
}
