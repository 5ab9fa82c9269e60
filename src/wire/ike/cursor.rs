//! Reading octets from the front, and length fields written when what they count is there.

use super::TooLong;

/// What is left to read. A failed read leaves it as it was.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn new(octets: &'a [u8]) -> Cursor<'a> {
        Cursor(octets)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// A structure whose length field counts the `header` octets read before it as well.
    pub(super) fn take_counted(&mut self, length: u16, header: usize) -> Option<&'a [u8]> {
        self.take(usize::from(length).checked_sub(header)?)
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes what `content` appends, then the number of octets appended since `start` into the 16 bits at `start + at`.
pub(super) fn counted(
    out: &mut Vec<u8>,
    start: usize,
    at: usize,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), TooLong>,
) -> Result<(), TooLong> {
    content(out)?;
    let length = u16::try_from(out.len() - start).map_err(|_| TooLong)?;
    let field = out.get_mut(start + at..start + at + 2).ok_or(TooLong)?;
    field.copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// A number of things as one octet.
pub(super) fn count(things: usize) -> Result<u8, TooLong> {
    u8::try_from(things).map_err(|_| TooLong)
}
