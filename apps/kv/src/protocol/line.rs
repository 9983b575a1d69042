//! A command line as words, with memcached's limits.

/// As many as are looked at; a get reads on behind them.
pub(crate) const MOST: usize = 23;

/// The words of a line. Only spaces separate them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    words: [&'a [u8]; MOST],
    count: usize,
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// The first words of a line, and what is behind them.
    pub(crate) fn new(line: &'a [u8]) -> Words<'a> {
        let (mut words, mut count, mut rest) = ([&[][..]; MOST], 0, line);
        while count < MOST {
            let start = rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len());
            rest = &rest[start..];
            if rest.is_empty() {
                break;
            }
            let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
            words[count] = &rest[..end];
            rest = &rest[end..];
            count += 1;
        }
        Words { words, count, rest }
    }

    /// The words.
    pub(crate) fn get(&self) -> &[&'a [u8]] {
        &self.words[..self.count]
    }

    /// What has not been divided into words.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True if the last word says that no reply is wanted.
    pub(crate) fn noreply(&self) -> bool {
        self.get().last() == Some(&&b"noreply"[..])
    }
}
