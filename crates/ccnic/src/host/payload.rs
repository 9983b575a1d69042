//! Reading and writing the data of buffers.

use crate::buf::{Buf, RegionTag};
use crate::memory::SharedMemory;
use crate::ring::Ring;

use super::QueuePair;

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Copies `from` into the buffer's data from byte `at` on; returns the bytes copied: fewer than given
    /// when the data end first.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// let mut burst = Burst::new();
    /// pair.alloc(4, 1, &mut burst);
    /// for buf in burst.iter_mut() {
    ///     assert_eq!(pair.write(buf, 1, b"abcdef"), 3);
    ///     let mut bytes = [0; 2];
    ///     assert_eq!(pair.read(buf, 2, &mut bytes), 2);
    ///     assert_eq!(&bytes, b"bc");
    /// }
    /// # pair.free(&mut burst);
    /// ```
    #[inline(always)]
    pub fn write(&self, buf: &mut Buf, at: u16, from: &[u8]) -> usize {
        RegionTag::of(&self.mem).check(core::slice::from_ref(buf));
        let room = usize::from(buf.len().saturating_sub(at));
        let n = from.len().min(room);
        self.mem.write(buf.desc().offset() + u32::from(at), from.get(..n).unwrap_or_default());
        n
    }

    /// Copies the buffer's data from byte `at` on into `to`; returns the bytes copied: fewer than `to` holds
    /// when the data end first. Example: [`write`](QueuePair::write).
    #[inline(always)]
    pub fn read(&self, buf: &Buf, at: u16, to: &mut [u8]) -> usize {
        RegionTag::of(&self.mem).check(core::slice::from_ref(buf));
        let n = to.len().min(usize::from(buf.len().saturating_sub(at)));
        self.mem.read(buf.desc().offset() + u32::from(at), to.get_mut(..n).unwrap_or_default());
        n
    }

    /// Lends the buffer's data to `f`, where they lie: the NIC is trusted not to change them meanwhile. Otherwise
    /// [read](QueuePair::read) a copy.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// let mut burst = Burst::new();
    /// pair.alloc(8, 1, &mut burst);
    /// for buf in burst.iter_mut() {
    ///     pair.with_mut(buf, |bytes| bytes.fill(7));
    ///     assert_eq!(pair.with(buf, |bytes| bytes.iter().sum::<u8>()), 56);
    /// }
    /// # pair.free(&mut burst);
    /// ```
    #[inline(always)]
    pub fn with<T>(&self, buf: &Buf, f: impl FnOnce(&[u8]) -> T) -> T {
        RegionTag::of(&self.mem).check(core::slice::from_ref(buf));
        self.mem.with(buf.desc().offset(), u32::from(buf.len()), f)
    }

    /// Lends the buffer's data to `f` for writing. Example: [`with`](QueuePair::with).
    #[inline(always)]
    pub fn with_mut<T>(&self, buf: &mut Buf, f: impl FnOnce(&mut [u8]) -> T) -> T {
        RegionTag::of(&self.mem).check(core::slice::from_ref(buf));
        self.mem.with_mut(buf.desc().offset(), u32::from(buf.len()), f)
    }
}

#[cfg(test)]
mod tests {
    use crate::buf::Burst;
    use crate::ring::GroupedEpoch;
    use crate::testing::{Sides, config};

    #[test]
    fn writes_and_reads_end_with_the_data() {
        let mut host = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()).host;
        let mut burst = Burst::new();
        host.alloc(10, 1, &mut burst);
        let buf = burst.iter_mut().next().unwrap();
        assert_eq!((host.write(buf, 0, &[1; 20]), host.write(buf, 8, &[2; 20])), (10, 2));
        assert_eq!((host.write(buf, 10, &[3]), host.write(buf, 11, &[3])), (0, 0));
        let mut bytes = [9; 12];
        assert_eq!(host.read(buf, 1, &mut bytes), 9);
        assert_eq!(bytes, [1, 1, 1, 1, 1, 1, 1, 2, 2, 9, 9, 9]);
        assert_eq!(host.read(buf, 200, &mut bytes), 0);
        host.free(&mut burst);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a buffer of another region")]
    fn data_of_another_region_cannot_be_read() {
        let [mut one, other] = [(); 2].map(|()| Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()).host);
        let mut burst = Burst::new();
        one.alloc(64, 1, &mut burst);
        other.with(&burst.as_slice()[0], |_| ());
    }
}
