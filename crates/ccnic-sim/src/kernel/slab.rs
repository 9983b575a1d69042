//! Values under numbers; the number of a value that has been taken out is used again.

/// A slab of values.
#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds a value; returns its number.
    pub fn add(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(i) => {
                self.entries[i as usize] = Some(value);
                i
            }
            None => {
                self.entries.push(Some(value));
                self.entries.len() as u32 - 1
            }
        }
    }

    /// The value under a number.
    pub fn get(&self, i: u32) -> Option<&T> {
        self.entries.get(i as usize)?.as_ref()
    }

    /// The value under a number, to change.
    pub fn get_mut(&mut self, i: u32) -> Option<&mut T> {
        self.entries.get_mut(i as usize)?.as_mut()
    }

    /// Takes a value out.
    pub fn take(&mut self, i: u32) -> Option<T> {
        let value = self.entries.get_mut(i as usize)?.take();
        if value.is_some() {
            self.free.push(i);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut slab = Slab::default();
        let (a, b) = (slab.add('a'), slab.add('b'));
        assert_eq!((slab.take(a), slab.take(a), slab.get(a)), (Some('a'), None, None));
        assert_eq!(
            (slab.add('c'), slab.get(b).copied(), slab.get_mut(a).copied()),
            (a, Some('b'), Some('c'))
        );
        assert_eq!(slab.take(77), None);
    }
}
