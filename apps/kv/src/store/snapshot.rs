//! The store as a file: written whole to a temporary file beside it, made durable, renamed; read only if it is whole.
//!
//! ```text
//! header   "CCNICKV\0", u32 version (1), u32 Unix time of writing
//! item     u8 1, u8 key length, u8 bits (1: key came in base64), u32 flags, u32 expires (Unix time, 0: never), u32 value length,
//!          key, value                              the items used longest ago first
//! end      u8 0, u64 number of items, u64 XXH3-64 of all bytes before it
//! ```
//! All numbers are little endian. CAS ids are new after loading.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "server")]
use std::{
    io::{BufReader, BufWriter},
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::Xxh3;

use super::slot::BINARY_KEY;
use super::{LARGEST_ITEM, MAX_KEY, Session, Stored, Update};
#[cfg(feature = "server")]
use crate::file::{self, NewFile};

const MAGIC: &[u8; 8] = b"CCNICKV\0";
const VERSION: u32 = 1;

/// Slots that are looked at, and items that are taken, while a shard is held.
const SLOTS_AT_ONCE: usize = 4096;
const ITEMS_AT_ONCE: usize = 64;
/// A shard is left alone for so long between two looks at its slots: its lock goes to whoever is there first, not to who has waited.
const PAUSE: Duration = Duration::from_micros(50);

/// Why a snapshot was not loaded or not written.
#[cfg(feature = "server")]
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The system's refusal.
    #[error("{1}: check the path and the space on its file system")]
    Io(#[source] io::Error, PathBuf),
    /// It is no snapshot, or a damaged one.
    #[error(
        "{path} is not a whole snapshot ({what}); restore it from a copy, or move it away to start empty"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It was told to stop while it loaded.
    #[error("{0}: stopped while it was loaded")]
    Stopped(PathBuf),
}

/// An item as it is written.
struct Item {
    body: Arc<[u8]>,
    key_len: u8,
    binary_key: bool,
    flags: u32,
    expires: u32,
}

/// Removes what processes have left beside `path` that were killed while they wrote a snapshot.
#[cfg(feature = "server")]
pub fn remove_leftovers(path: &Path) {
    file::remove_leftovers(path);
}

/// Whether a snapshot could be written to `path` now; leaves nothing there.
///
/// # Errors
/// When no file can be made beside it.
#[cfg(feature = "server")]
pub fn try_out(path: &Path) -> Result<(), SnapshotError> {
    NewFile::create(path).map(drop).map_err(|error| SnapshotError::Io(error, path.into()))
}

/// Writes every item to `path`, in a file for this user alone, or with the mode of the one that is there. Returns how many. Requests are
/// served meanwhile: a shard is held for some slots at a time. What changes meanwhile is in it as it was, as it is, or both.
#[cfg(feature = "server")]
pub fn save(session: &mut Session<'_>, path: &Path) -> Result<u64, SnapshotError> {
    let mut save = || {
        let mut out = BufWriter::new(NewFile::create(path)?);
        let items = write_to(session, &mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
        Ok(items)
    };
    save().map_err(|error| SnapshotError::Io(error, path.into()))
}

/// [`save`] to anything that can be written.
pub fn write_to<W: Write>(session: &mut Session<'_>, to: W) -> io::Result<u64> {
    write(session, &mut Hashed::new(to))
}

/// Gives bytes the beginning and the checksum of a snapshot: for fuzzing, which cannot guess them.
#[doc(hidden)]
pub fn seal(bytes: &mut [u8]) {
    let fixed = [(0, &MAGIC[..]), (8, &VERSION.to_le_bytes()[..])];
    for (at, field) in fixed {
        if let Some(place) = bytes.get_mut(at..at + field.len()) {
            place.copy_from_slice(field);
        }
    }
    if let Some((rest, end)) = bytes.split_last_chunk_mut::<8>() {
        *end = xxhash_rust::xxh3::xxh3_64(rest).to_le_bytes();
    }
}

fn write<W: Write>(session: &mut Session<'_>, out: &mut Hashed<W>) -> io::Result<u64> {
    out.put(MAGIC)?;
    out.put(&VERSION.to_le_bytes())?;
    out.put(&session.now.to_le_bytes())?;
    let mut count = 0u64;
    for number in 0..session.store().shards() {
        for ids in oldest_first(session, number).chunks(ITEMS_AT_ONCE) {
            for item in items(session, number, ids) {
                write_item(out, &item)?;
                count += 1;
            }
        }
    }
    out.put(&[0])?;
    out.put(&count.to_le_bytes())?;
    let sum = out.hash.digest();
    out.inner.write_all(&sum.to_le_bytes())?;
    Ok(count)
}

/// When each item of a shard was used last, and its slot, in that order.
fn oldest_first(session: &mut Session<'_>, number: usize) -> Vec<(u32, u32)> {
    let (mut all, now) = (Vec::new(), session.now);
    for from in (0..).step_by(SLOTS_AT_ONCE) {
        let more = session.numbered(number).list(from, SLOTS_AT_ONCE, now, &mut all);
        session.release();
        if !more {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    all.sort_unstable();
    all
}

/// The items in these slots now.
fn items(session: &mut Session<'_>, number: usize, ids: &[(u32, u32)]) -> Vec<Item> {
    let now = session.now;
    let shard = session.numbered(number);
    let item = |(_, id): &(u32, u32)| {
        let slot = shard.valid(*id, now)?;
        let (key_len, binary_key) = (slot.key_len, slot.has(BINARY_KEY));
        let (flags, expires) = (slot.flags, slot.expires);
        Some(Item { body: shard.whole(*id)?, key_len, binary_key, flags, expires })
    };
    let items = ids.iter().filter_map(item).collect();
    session.release();
    items
}

fn write_item<W: Write>(out: &mut Hashed<W>, item: &Item) -> io::Result<()> {
    let (key, rest) = item.body.split_at(usize::from(item.key_len));
    let value = &rest[..rest.len() - 2];
    out.put(&[1, item.key_len, u8::from(item.binary_key)])?;
    out.put(&item.flags.to_le_bytes())?;
    out.put(&item.expires.to_le_bytes())?;
    out.put(&(value.len() as u32).to_le_bytes())?;
    out.put(key)?;
    out.put(value)
}

/// Loads a snapshot into an empty store. Returns how many items are in it now, None if there is no such file. After an error the store is to
/// be thrown away: what was read before the damage was found is in it. It ends early when `stop` says so.
#[cfg(feature = "server")]
pub fn load(
    session: &mut Session<'_>,
    path: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Option<u64>, SnapshotError> {
    let io_error = |error| SnapshotError::Io(error, path.into());
    let file = match file::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(io_error)?,
    };
    let size = file.metadata().map_err(io_error)?.len();
    read_until(session, BufReader::new(file), size, stop).map(Some).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => SnapshotError::Damaged { path: path.into(), what: error.to_string() },
        ErrorKind::UnexpectedEof => {
            SnapshotError::Damaged { path: path.into(), what: "it ends early".into() }
        }
        ErrorKind::Interrupted => SnapshotError::Stopped(path.into()),
        _ => io_error(error),
    })
}

/// As loading a file, from anything that can be read.
pub fn read<R: Read>(session: &mut Session<'_>, from: R) -> io::Result<u64> {
    read_until(session, from, u64::MAX, &|| false)
}

/// A snapshot of at most `size` bytes. It takes memory for one item, of those that the store can hold.
fn read_until<R: Read>(
    session: &mut Session<'_>,
    from: R,
    size: u64,
    stop: &dyn Fn() -> bool,
) -> io::Result<u64> {
    let damaged = |what: &str| io::Error::new(ErrorKind::InvalidData, what.to_string());
    let mut from = Hashed::new(from);
    if from.take::<8>()? != *MAGIC {
        return Err(damaged("it does not begin as one"));
    }
    let version = u32::from_le_bytes(from.take()?);
    if version != VERSION {
        return Err(damaged(&format!("it has version {version}, this program reads version {VERSION}")));
    }
    from.take::<4>()?;
    let (mut count, mut kept) = (0u64, 0u64);
    let (mut key, mut value) = ([0; MAX_KEY], Vec::new());
    loop {
        match from.take::<1>()? {
            [0] => break,
            [1] => {}
            [other] => return Err(damaged(&format!("an item of the unknown kind {other}"))),
        }
        let [key_len, bits] = from.take()?;
        let flags = u32::from_le_bytes(from.take()?);
        let expires = u32::from_le_bytes(from.take()?);
        let len = u32::from_le_bytes(from.take()?);
        let Some(key) = key.get_mut(..usize::from(key_len)).filter(|key| !key.is_empty()) else {
            return Err(damaged(&format!("a key of {key_len} bytes")));
        };
        if stop() {
            return Err(ErrorKind::Interrupted.into());
        }
        if len > LARGEST_ITEM as u32 {
            return Err(damaged(&format!("a value of {len} bytes")));
        }
        if from.passed.saturating_add(u64::from(key_len) + u64::from(len)) > size {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        from.fill(key)?;
        count += 1;
        if !session.fits(key.len(), flags, len as usize) || (expires != 0 && expires <= session.now) {
            from.skip(len as usize, stop)?;
            continue;
        }
        from.fill_vec(&mut value, len as usize)?;
        let update = Update { flags, expires, binary_key: bits == 1, ..Update::set(key, &value) };
        kept += u64::from(matches!(session.update(&update), Stored::Yes(_)));
    }
    if u64::from_le_bytes(from.take()?) != count {
        return Err(damaged("another number of items than it says"));
    }
    let sum = from.hash.digest();
    if u64::from_le_bytes(from.take()?) != sum {
        return Err(damaged("its checksum is wrong"));
    }
    session.reset_counters();
    Ok(kept)
}

/// A stream with the hash of what has passed.
struct Hashed<S> {
    inner: S,
    hash: Box<Xxh3>,
    /// Bytes that have been read.
    passed: u64,
}

impl<S> Hashed<S> {
    fn new(inner: S) -> Hashed<S> {
        Hashed { inner, hash: Box::new(Xxh3::new()), passed: 0 }
    }
}

impl<W: Write> Hashed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.inner.write_all(bytes)
    }
}

impl<R: Read> Hashed<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.hash.update(bytes);
        self.passed += bytes.len() as u64;
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// A length that is not true ends with the file, not with the memory.
    fn fill_vec(&mut self, bytes: &mut Vec<u8>, len: usize) -> io::Result<()> {
        bytes.clear();
        let read = (&mut self.inner).take(len as u64).read_to_end(bytes)?;
        if read != len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.hash.update(bytes);
        self.passed += len as u64;
        Ok(())
    }

    /// Reads what nobody wants.
    fn skip(&mut self, mut len: usize, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        while len > 0 {
            if stop() {
                return Err(ErrorKind::Interrupted.into());
            }
            let now = len.min(bytes.len());
            self.fill(&mut bytes[..now])?;
            len -= now;
        }
        Ok(())
    }
}
