//! What a machine decides of the interface: how lines are requested, and how a side waits for them.
//!
//! A [`Config`] belongs to a region and lies in its header; a [`Tuning`] belongs to a machine. The NIC measures
//! it and tells its programs when they attach; each side gives it to its own queues. The two sides need not have
//! the same: nothing of it is visible in the region.

use core::fmt;
use core::str::FromStr;

use crate::config::{Config, ConfigError, Demote, Design};
use crate::layout::AREA_LINES;
use crate::memory::{self, LINE};

/// How the payload of fetched and received packets is requested. The names are `read` and `own`.
/// Example: [`Tuning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum FetchMode {
    /// With ownership: its buffer is written next, and one transfer costs less than a read and an upgrade.
    #[default]
    Own = 0,
    /// To be read: better where a read hands over ownership too, or where a request for ownership waits longer
    /// than it saves.
    Read = 1,
}

impl FetchMode {
    /// All values.
    pub const ALL: [FetchMode; 2] = [FetchMode::Own, FetchMode::Read];

    /// The names of all values, in the order of [`ALL`](FetchMode::ALL).
    const NAMES: [&str; 2] = [FetchMode::Own.name(), FetchMode::Read.name()];

    /// The name of the value. Example: [`Tuning`].
    pub const fn name(self) -> &'static str {
        match self {
            FetchMode::Own => "own",
            FetchMode::Read => "read",
        }
    }
}

/// What a side does between two polls that find nothing. The names are `pause` and `spin`.
/// Example: [`Tuning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum IdleMode {
    /// Pauses the processor (PAUSE: 40 to 140 cycles): another thread of the same core runs meanwhile.
    #[default]
    Pause = 0,
    /// Polls again at once.
    Spin = 1,
}

impl IdleMode {
    /// All values.
    pub const ALL: [IdleMode; 2] = [IdleMode::Pause, IdleMode::Spin];

    /// The names of all values, in the order of [`ALL`](IdleMode::ALL).
    const NAMES: [&str; 2] = [IdleMode::Pause.name(), IdleMode::Spin.name()];

    /// The name of the value. Example: [`Tuning`].
    pub const fn name(self) -> &'static str {
        match self {
            IdleMode::Pause => "pause",
            IdleMode::Spin => "spin",
        }
    }
}

/// What a machine decides. The default holds where nothing has been measured.
///
/// Its text names every field; text that is read may leave some out, which then keep their values:
///
/// ```
/// use ccnic::{Config, Design, FetchMode, IdleMode, Tuning};
///
/// let measured: Tuning = "fetch=read,ahead=2".parse()?;
/// assert_eq!(measured.to_string(), "fetch=read,ahead=2,demote=auto,idle=pause,inline=1,loaded=0");
/// let ours = measured.with("idle=spin")?;
/// assert_eq!((ours.fetch, ours.ahead, ours.idle), (FetchMode::Read, 2, IdleMode::Spin));
/// assert_eq!((ours.fetch.name(), ours.idle.name()), ("read", "spin"));
/// let paper = Config { design: Design::GroupedClear, ..Config::default() };
/// assert_eq!(ours.within(&paper).ahead, 0); // the paper's design requests nothing ahead
/// assert_eq!(ours.with("default"), Ok(Tuning::default()));
/// let error = ours.with("idle=sleep").unwrap_err();
/// assert_eq!(error.to_string(), "unknown idle; choose one of pause, spin");
/// # Ok::<(), ccnic::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// How payload is requested.
    pub fetch: FetchMode,
    /// How many units (descriptors and inline payload) behind the one that is read next are requested before
    /// they are known to be ready: 0 to [`Tuning::MAX_AHEAD`].
    pub ahead: u8,
    /// When a writer demotes the lines that it has written.
    pub demote: Demote,
    /// What a side does between polls that find nothing.
    pub idle: IdleMode,
    /// The longest packet that a writer puts inline while the reader waits, in lines: 0 to [`Tuning::MAX_INLINE`]. A reader takes inline
    /// packets of any length.
    pub inline: u8,
    /// The same under load. Then a writer must get back the lines of the area, while a buffer that it has received lies in its cache
    /// already: half as many line transfers, which decides where the cores are far from each other. Where they share a cache fewer
    /// instructions decide.
    pub loaded: u8,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            fetch: FetchMode::Own,
            ahead: 0,
            demote: Demote::Auto,
            idle: IdleMode::Pause,
            inline: 1,
            loaded: 0,
        }
    }
}

/// The fields, as in text.
const FIELDS: [&str; 7] = ["fetch", "ahead", "demote", "idle", "inline", "loaded", "default"];
/// The values of `ahead`, as in text.
const AHEADS: [&str; Tuning::MAX_AHEAD as usize + 1] = ["0", "1", "2", "3", "4", "5", "6", "7", "8"];
/// The values of `inline` and `loaded`, as in text.
const INLINES: [&str; Tuning::MAX_INLINE as usize + 1] = ["0", "1", "2", "3", "4", "5", "6", "7"];
/// Where the fields lie in a word.
const DEMOTE_SHIFT: u32 = 8;
const IDLE_SHIFT: u32 = 16;
const AHEAD_SHIFT: u32 = 24;
const LOADED_SHIFT: u32 = 20;
const INLINE_SHIFT: u32 = 28;

impl Tuning {
    /// The most units that are requested ahead: with their payload they are more lines than a core has fill
    /// buffers for (16; 12 before Sapphire Rapids).
    pub const MAX_AHEAD: u8 = 8;

    /// The most lines that are put inline: those of an area.
    pub const MAX_INLINE: u8 = AREA_LINES as u8;

    /// This tuning with the fields that `text` names set: `field=value`, separated by commas. `default` sets all
    /// of them to their defaults. [`Tuning`] has an example.
    ///
    /// # Errors
    /// An unknown field, or an unknown value of one.
    pub fn with(self, text: &str) -> Result<Tuning, ConfigError> {
        let mut tuning = self;
        for part in text.split(',') {
            let (field, value) = part.split_once('=').unwrap_or((part, ""));
            match (field, value) {
                ("fetch", name) => tuning.fetch = one_of("fetch", name, &FetchMode::ALL, &FetchMode::NAMES)?,
                ("ahead", name) => {
                    tuning.ahead = one_of("ahead", name, &[0, 1, 2, 3, 4, 5, 6, 7, 8], &AHEADS)?;
                }
                ("demote", name) => tuning.demote = name.parse()?,
                ("inline", name) => {
                    tuning.inline = one_of("inline", name, &[0, 1, 2, 3, 4, 5, 6, 7], &INLINES)?;
                }
                ("loaded", name) => {
                    tuning.loaded = one_of("loaded", name, &[0, 1, 2, 3, 4, 5, 6, 7], &INLINES)?;
                }
                ("idle", name) => tuning.idle = one_of("idle", name, &IdleMode::ALL, &IdleMode::NAMES)?,
                ("default", "") => tuning = Tuning::default(),
                _ => return Err(ConfigError::Name { field: "field of the tuning", names: &FIELDS }),
            }
        }
        Ok(tuning)
    }

    /// What is left of it in a region of this configuration: what the configuration says explicitly wins.
    ///
    /// Designs other than the default's only read, as the paper has them (CC-NIC section 5.6 counts one read
    /// per packet; on its machines a read hands over ownership), and so do regions whose buffers are not
    /// recycled: nobody writes those next. Example: [`Tuning`].
    pub fn within(self, config: &Config) -> Tuning {
        let default_design = matches!(config.design, Design::GroupedEpoch);
        let owns = default_design && config.recycle && config.shared_pool;
        Tuning {
            fetch: if owns { self.fetch } else { FetchMode::Read },
            ahead: if default_design { self.ahead.min(Tuning::MAX_AHEAD) } else { 0 },
            demote: if config.demote == Demote::Auto { self.demote } else { config.demote },
            idle: self.idle,
            inline: if config.has_areas() { self.inline.min(Tuning::MAX_INLINE) } else { 0 },
            loaded: if config.has_areas() { self.loaded.min(Tuning::MAX_INLINE) } else { 0 },
        }
    }

    /// This tuning in the control message by which a NIC tells it: a byte for each field, `fetch` in the lowest,
    /// then `demote`; half a byte each for `idle`, `loaded`, `ahead` and `inline`.
    ///
    /// ```
    /// use ccnic::Tuning;
    ///
    /// let tuning: Tuning = "fetch=read,ahead=3".parse()?;
    /// assert_eq!((tuning.word(), Tuning::default().word()), (0x1300_0001, 0x1000_0000));
    /// assert_eq!(Tuning::from_word(tuning.word()), Some(tuning));
    /// assert_eq!(Tuning::from_word(7), None);
    /// # Ok::<(), ccnic::ConfigError>(())
    /// ```
    pub fn word(self) -> u32 {
        u32::from(self.fetch as u8)
            | u32::from(self.demote as u8) << DEMOTE_SHIFT
            | u32::from(self.idle as u8) << IDLE_SHIFT
            | u32::from(self.ahead) << AHEAD_SHIFT
            | u32::from(self.loaded) << LOADED_SHIFT
            | u32::from(self.inline) << INLINE_SHIFT
    }

    /// What a word says, `None` when this build knows no such value: another release wrote it, or a peer that
    /// is not to be trusted. [`Tuning::word`] has an example.
    pub fn from_word(word: u32) -> Option<Tuning> {
        let byte = |shift: u32| (word >> shift) as u8;
        Some(Tuning {
            fetch: FetchMode::ALL.into_iter().find(|fetch| *fetch as u8 == byte(0))?,
            ahead: Some(byte(AHEAD_SHIFT) & 15).filter(|ahead| *ahead <= Tuning::MAX_AHEAD)?,
            demote: Demote::ALL.into_iter().find(|demote| *demote as u8 == byte(DEMOTE_SHIFT))?,
            idle: IdleMode::ALL.into_iter().find(|idle| *idle as u8 == byte(IDLE_SHIFT) & 15)?,
            loaded: Some(byte(LOADED_SHIFT) & 15).filter(|lines| *lines <= Tuning::MAX_INLINE)?,
            inline: Some(byte(INLINE_SHIFT)).filter(|lines| *lines <= Tuning::MAX_INLINE)?,
        })
    }

    /// How payload is prefetched.
    #[inline(always)]
    pub(crate) const fn payload(&self) -> memory::Fetch {
        match self.fetch {
            FetchMode::Own => memory::Fetch::Own,
            FetchMode::Read => memory::Fetch::Read,
        }
    }

    /// The longest packet that is put inline, in bytes; `idle`: the reader waits.
    #[inline(always)]
    pub(crate) const fn inline_max(&self, idle: bool) -> u32 {
        (if idle { self.inline } else { self.loaded }) as u32 * LINE
    }

    /// Waits for a moment after a poll that found nothing.
    #[inline(always)]
    pub(crate) fn relax<M: memory::SharedMemory>(&self, mem: &M) {
        if self.idle == IdleMode::Pause {
            mem.relax();
        }
    }
}

/// The value of this name.
fn one_of<T: Copy>(
    field: &'static str,
    name: &str,
    values: &[T],
    names: &'static [&'static str],
) -> Result<T, ConfigError> {
    let at = names.iter().position(|known| *known == name);
    at.and_then(|at| values.get(at)).copied().ok_or(ConfigError::Name { field, names })
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuning { fetch, ahead, demote, idle, inline, loaded } = self;
        let (fetch, idle) = (fetch.name(), idle.name());
        write!(f, "fetch={fetch},ahead={ahead},demote={demote},idle={idle},inline={inline},loaded={loaded}")
    }
}

impl FromStr for Tuning {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Tuning, ConfigError> {
        Tuning::default().with(text)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::testing::rounds;
    use std::string::ToString;
    use std::vec::Vec;

    fn all() -> Vec<Tuning> {
        let mut all = Vec::new();
        for (fetch, idle) in FetchMode::ALL.into_iter().flat_map(|f| IdleMode::ALL.map(|i| (f, i))) {
            for (ahead, demote) in (0..=Tuning::MAX_AHEAD).flat_map(|a| Demote::ALL.map(|d| (a, d))) {
                for inline in 0..=Tuning::MAX_INLINE {
                    let of = |loaded| Tuning { fetch, ahead, demote, idle, inline, loaded };
                    all.extend((0..=Tuning::MAX_INLINE).map(of));
                }
            }
        }
        all
    }

    #[test]
    fn text_and_word_give_back_every_tuning() {
        for tuning in all().into_iter().step_by(rounds(1, 17)) {
            assert_eq!(tuning.to_string().parse(), Ok(tuning));
            assert_eq!(Tuning::from_word(tuning.word()), Some(tuning));
        }
    }

    #[test]
    fn words_of_no_tuning_are_refused() {
        let known: Vec<u32> = all().into_iter().map(Tuning::word).collect();
        for shift in [0, DEMOTE_SHIFT, IDLE_SHIFT, AHEAD_SHIFT] {
            for byte in (0..=u32::from(u8::MAX)).step_by(rounds(1, 17)) {
                let word = byte << shift;
                assert_eq!(Tuning::from_word(word).map(Tuning::word), known.contains(&word).then_some(word));
            }
        }
        assert_eq!(Tuning::from_word(u32::MAX), None);
    }

    #[test]
    fn errors_name_the_field_and_what_to_choose() {
        for (text, error) in [
            (
                "",
                "unknown field of the tuning; choose one of fetch, ahead, demote, idle, inline, loaded, default",
            ),
            (
                "speed=1",
                "unknown field of the tuning; choose one of fetch, ahead, demote, idle, inline, loaded, default",
            ),
            (
                "default=1",
                "unknown field of the tuning; choose one of fetch, ahead, demote, idle, inline, loaded, default",
            ),
            ("fetch", "unknown fetch; choose one of own, read"),
            (
                "idle=spin,",
                "unknown field of the tuning; choose one of fetch, ahead, demote, idle, inline, loaded, default",
            ),
            ("loaded=x", "unknown loaded; choose one of 0, 1, 2, 3, 4, 5, 6, 7"),
            ("inline=8", "unknown inline; choose one of 0, 1, 2, 3, 4, 5, 6, 7"),
            ("ahead=9", "unknown ahead; choose one of 0, 1, 2, 3, 4, 5, 6, 7, 8"),
            ("fetch=own,demote=yes", "unknown demote; choose one of auto, on, off"),
            ("idle=Spin", "unknown idle; choose one of pause, spin"),
        ] {
            assert_eq!(text.parse::<Tuning>().unwrap_err().to_string(), error, "{text:?}");
        }
    }

    #[test]
    fn what_a_region_says_explicitly_wins() {
        let asked: Tuning = "fetch=own,ahead=2,demote=off,idle=spin,inline=3,loaded=2".parse().unwrap();
        let within = |config: Config| asked.within(&config).to_string();
        let config = Config::default();
        assert_eq!(within(config), asked.to_string());
        for other in [
            Config { recycle: false, ..config },
            Config { shared_pool: false, ..config },
            Config { demote: Demote::On, ..config },
            Config { inline: false, ..config },
        ] {
            let demote = if other.demote == Demote::On { Demote::On } else { Demote::Off };
            let fetch = if other.recycle && other.shared_pool { "own" } else { "read" };
            let inline = if other.has_areas() { "inline=3,loaded=2" } else { "inline=0,loaded=0" };
            let text = std::format!("fetch={fetch},ahead=2,demote={demote},idle=spin,{inline}");
            assert_eq!(within(other), text);
        }
        let paper = Config { design: Design::GroupedClear, ..config };
        assert_eq!(within(paper), "fetch=read,ahead=0,demote=off,idle=spin,inline=0,loaded=0");
    }
}
