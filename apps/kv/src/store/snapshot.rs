//! The store as a file: written whole to a temporary file beside it, made durable, renamed; read only if it is whole.
//!
//! ```text
//! header   "CCNICKV\0", u32 version (1), u32 Unix time of writing
//! item     u8 1, u8 key length, u8 bits (1: key came in base64), u32 flags, u32 expires (Unix time, 0: never), u32 value length,
//!          key, value                              the items used longest ago first
//! end      u8 0, u64 number of items, u64 XXH3-64 of all bytes before it
//! ```
//! All numbers are little endian. CAS ids are new after loading.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::slot::{BINARY_KEY, KEPT, Slot};
use super::{MAX_KEY, Session, Stored, Update};

const MAGIC: &[u8; 8] = b"CCNICKV\0";
const VERSION: u32 = 1;

/// Why a snapshot was not loaded or not written.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The system's refusal.
    #[error("{1}: {0}; check the path and the space on its file system")]
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
}

struct Item {
    body: Arc<[u8]>,
    /// Its value is kept: it is copied when it is written, so that a snapshot takes memory for one of these at a time.
    kept: bool,
    hash: u64,
    key_len: u8,
    bits: u8,
    flags: u32,
    expires: u32,
}

/// The names of unfinished snapshots: this, the process id, that.
fn temporary_name(path: &Path) -> (String, &'static str) {
    (format!("{}.", path.file_name().unwrap_or_default().display()), ".tmp")
}

/// Removes what processes have left beside `path` that were killed while they wrote a snapshot. What cannot be removed stays.
pub fn remove_leftovers(path: &Path) {
    let (before, behind) = temporary_name(path);
    let Ok(entries) = fs::read_dir(folder(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(&before)?.strip_suffix(behind)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes every item to `path`. Returns how many. Requests are served meanwhile: a shard is held while its items are listed, not while
/// they are written.
pub fn save(session: &mut Session<'_>, path: &Path) -> Result<u64, SnapshotError> {
    let (before, behind) = temporary_name(path);
    let temporary = path.with_file_name(format!("{before}{}{behind}", std::process::id()));
    let result = write_file(session, path, &temporary);
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(|error| SnapshotError::Io(error, path.into()))
}

fn write_file(session: &mut Session<'_>, path: &Path, temporary: &Path) -> io::Result<u64> {
    let file = File::create(temporary)?;
    let mut out = Hashed::new(BufWriter::new(file));
    let items = write(session, &mut out)?;
    let file = out.inner.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    File::open(folder(path))?.sync_all()?;
    Ok(items)
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
        for item in list(session, number) {
            let Some(item) = on_the_heap(session, item) else { continue };
            write_item(out, &item)?;
            count += 1;
        }
    }
    out.put(&[0])?;
    out.put(&count.to_le_bytes())?;
    let sum = out.hash.digest();
    out.inner.write_all(&sum.to_le_bytes())?;
    Ok(count)
}

fn list(session: &mut Session<'_>, number: usize) -> Vec<Item> {
    let now = session.now;
    let items = session.numbered(number).oldest_first(now).filter_map(item).collect();
    session.release();
    items
}

fn item(slot: &Slot) -> Option<Item> {
    let (body, kept, bits) = (slot.body.clone()?, slot.has(KEPT), slot.bits & BINARY_KEY);
    let Slot { hash, key_len, flags, expires, .. } = *slot;
    Some(Item { body, kept, hash, key_len, bits, flags, expires })
}

/// An item with its value: as it is now, if that was kept. Nothing, if it is gone meanwhile.
fn on_the_heap(session: &mut Session<'_>, listed: Item) -> Option<Item> {
    if !listed.kept {
        return Some(listed);
    }
    let now = session.now;
    let shard = session.shard(listed.hash);
    let now = shard.find(listed.hash, &listed.body[..usize::from(listed.key_len)], now).and_then(|id| {
        let body = shard.whole(id)?;
        Some(Item { body, kept: false, ..item(shard.slot(id))? })
    });
    session.release();
    now
}

fn write_item<W: Write>(out: &mut Hashed<W>, item: &Item) -> io::Result<()> {
    let (key, rest) = item.body.split_at(usize::from(item.key_len));
    let value = &rest[..rest.len() - 2];
    out.put(&[1, item.key_len, u8::from(item.bits != 0)])?;
    out.put(&item.flags.to_le_bytes())?;
    out.put(&item.expires.to_le_bytes())?;
    out.put(&(value.len() as u32).to_le_bytes())?;
    out.put(key)?;
    out.put(value)
}

/// Loads a snapshot into an empty store. Returns how many items are in it now. After an error the store is to be thrown away: what was
/// read before the damage was found is in it.
pub fn load(session: &mut Session<'_>, path: &Path) -> Result<u64, SnapshotError> {
    let io_error = |error| SnapshotError::Io(error, path.into());
    let file = File::open(path).map_err(io_error)?;
    read(session, BufReader::new(file)).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => SnapshotError::Damaged { path: path.into(), what: error.to_string() },
        io::ErrorKind::UnexpectedEof => {
            SnapshotError::Damaged { path: path.into(), what: "it ends early".into() }
        }
        _ => io_error(error),
    })
}

/// [`load`] from anything that can be read.
pub fn read<R: Read>(session: &mut Session<'_>, from: R) -> io::Result<u64> {
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
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
        from.fill(key)?;
        from.fill_vec(&mut value, len as usize)?;
        count += 1;
        if !session.fits(key.len(), flags, value.len()) || (expires != 0 && expires <= session.now) {
            continue;
        }
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
}

impl<S> Hashed<S> {
    fn new(inner: S) -> Hashed<S> {
        Hashed { inner, hash: Box::new(Xxh3::new()) }
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
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.hash.update(bytes);
        Ok(())
    }
}
