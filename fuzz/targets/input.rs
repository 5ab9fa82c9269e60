//! Octets as a source of choices. At its end it gives zeros.

pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(octets: &'a [u8]) -> Input<'a> {
        Input(octets)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_be_bytes(self.array())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        if bound <= 256 { usize::from(self.u8()) % bound } else { usize::from(self.u16()) % bound }
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// As many octets as are left, at most so many.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A string with its length in front.
    pub(crate) fn string(&mut self) -> &'a [u8] {
        let length = self.u8();
        self.take(length.into())
    }

    /// Changes octets of a message as a hostile wire may: some others, some more, or some less.
    pub(crate) fn damage(&mut self, octets: &mut Vec<u8>) {
        let how = self.u8();
        let at = self.below(octets.len().max(1));
        match how % 8 {
            0 => octets.truncate(at),
            1 => octets.extend_from_slice(self.string()),
            2 => {
                let with = self.string();
                let end = octets.len().min(at + with.len());
                octets[at..end].copy_from_slice(&with[..end - at]);
            }
            3 => drop(octets.splice(at..at, self.string().iter().copied())),
            _ => {
                if let Some(octet) = octets.get_mut(at) {
                    *octet ^= self.u8().max(1);
                }
            }
        }
    }
}
