//! Which addresses are not memory: lines of device registers (uncached), and pages of lines that a device is home of (cacheable).

use super::ids::DeviceId;

/// Lines of a page: a device is home of whole pages.
const PER_PAGE: u32 = super::directory::PAGE / ccnic::memory::LINE;

/// The address map.
#[derive(Debug, Default)]
pub struct AddressMap {
    /// Lines of registers, a bit each; and, in order of lines, whose they are.
    registers: Vec<u64>,
    owners: Vec<(u32, DeviceId)>,
    /// For each page its device plus one; zero is memory.
    pages: Vec<u8>,
}

impl AddressMap {
    /// Makes a line one of a device's registers: loads and stores of it are uncached.
    pub fn add_registers(&mut self, line: u32, device: DeviceId) {
        let word = line as usize / 64;
        if self.registers.len() <= word {
            self.registers.resize(word + 1, 0);
        }
        self.registers[word] |= 1 << (line % 64);
        match self.owners.binary_search_by_key(&line, |(other, _)| *other) {
            Ok(i) => self.owners[i].1 = device,
            Err(i) => self.owners.insert(i, (line, device)),
        }
    }

    /// Makes a device the home of the pages of `bytes` bytes from `at`: it supplies their data, and takes what is written back.
    pub fn add_pages(&mut self, at: u32, bytes: u32, device: DeviceId) {
        let page = super::directory::PAGE as usize;
        let (first, end) = (at as usize / page, (at as usize + bytes as usize).div_ceil(page));
        self.pages.resize(self.pages.len().max(end), 0);
        self.pages[first..end].fill(device + 1);
    }

    /// True for a line of registers.
    #[inline]
    pub fn is_register(&self, line: u32) -> bool {
        self.registers.get(line as usize / 64).is_some_and(|lines| lines & 1 << (line % 64) != 0)
    }

    /// The device whose registers a line has.
    #[inline]
    pub fn registers_of(&self, line: u32) -> Option<DeviceId> {
        if !self.is_register(line) {
            return None;
        }
        let i = self.owners.binary_search_by_key(&line, |(other, _)| *other).ok()?;
        Some(self.owners[i].1)
    }

    /// The device that is home of a line.
    #[inline]
    pub fn home(&self, line: u32) -> Option<DeviceId> {
        self.pages.get((line / PER_PAGE) as usize)?.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_memory_registers_or_a_devices_pages() {
        let mut map = AddressMap::default();
        assert_eq!((map.is_register(5), map.registers_of(5), map.home(5)), (false, None, None));
        map.add_registers(5, 0);
        map.add_registers(700, 3);
        map.add_pages(8192, 4097, 2);
        assert_eq!([5, 700, 6, 4].map(|l| map.registers_of(l)), [Some(0), Some(3), None, None]);
        assert_eq!([127, 128, 191, 255, 256].map(|l| map.home(l)), [None, Some(2), Some(2), Some(2), None]);
        map.add_registers(5, 1);
        assert_eq!(map.registers_of(5), Some(1));
    }
}
