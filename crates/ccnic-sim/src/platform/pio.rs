//! The machine of the PIO paper: a processor, and a device on a coherent link, on PCIe, or on both. `platforms/enzian.toml` and
//! `platforms/pio-pc.toml` are the built-in ones.

use toml::Table;

use super::built_in;
use super::error::PlatformError;
use super::read::{Fault, field, only, tables};
use super::units::{Bytes, Count, Cycles, GbytesPerS, Ghz, Ns, On, Us};

built_in::files!("enzian", "pio-pc");

/// A processor with a device.
#[derive(Clone, Debug, PartialEq)]
pub struct PioPlatform {
    /// Short name.
    pub name: String,
    /// What it describes.
    pub about: String,
    /// A core.
    pub core: InOrder,
    /// Its caches.
    pub cache: WriteThrough,
    /// The coherent link.
    pub link: Option<CoherentLink>,
    /// The device on it.
    pub device: Option<CoherentDevice>,
    /// A second processor in the device's place.
    pub socket: Option<SecondSocket>,
    /// PCIe.
    pub pcie: ProgrammedPcie,
    /// The DMA engine on it.
    pub dma: DmaEngine,
    /// The dataflow program.
    pub dataflow: Option<Dataflow>,
    pub(super) file: Table,
}

tables! {
    /// `[core]`: in order, one miss at a time.
    InOrder {
        /// Clock.
        frequency: Ghz,
        /// A double word that is copied.
        word: Cycles,
        /// A turn of a polling loop, without its load.
        poll: Cycles,
        /// The instructions around a message.
        call: Cycles,
        /// A barrier with no store under way.
        barrier: Cycles,
    }

    /// `[cache]`: a first level that is written through, and a second that all cores share.
    WriteThrough {
        /// Load to use, first level.
        l1: Cycles,
        /// Load to use, second level; half for each way.
        l2: Cycles,
        /// The second level answers the other node.
        snoop: Cycles,
        /// Load to use.
        memory: Ns,
        /// Units that work on transactions, by line.
        units: Count,
        /// Transactions that a unit works on at once.
        slots: Count,
    }

    /// `[link]`: between the nodes.
    CoherentLink {
        /// One way.
        one_way: Ns,
        /// In each direction.
        gbytes_per_s: GbytesPerS,
        /// Of each message.
        header: Bytes,
        /// A load that waits for longer is a machine check.
        timeout: Us,
        /// A barrier after a store that had to ask the other node sends a message there and waits for its answer.
        gsync: On,
    }

    /// `[device]`: what is on the link: a directory controller, and an application behind it.
    CoherentDevice {
        /// Clock.
        frequency: Ghz,
        /// A message through the directory controller, in or out.
        directory: Cycles,
        /// A step of the application.
        steps: Cycles,
        /// After how long a held load is answered NOT_READY.
        not_ready: Us,
        /// The NIC's clock.
        nic: Ghz,
    }

    /// `[socket]`: a second processor in the device's place.
    SecondSocket {
        /// One way.
        one_way: Ns,
    }

    /// `[pcie]`: programmed I/O.
    ProgrammedPcie {
        /// In each direction.
        gbytes_per_s: GbytesPerS,
        /// Header and framing of a packet.
        header: Bytes,
        /// A read, there and back: the next one waits for it.
        read: Ns,
        /// Bytes of a read.
        read_width: Bytes,
        /// A posted write, one way.
        write: Ns,
        /// Bytes of a combined write.
        write_width: Bytes,
        /// From a combined write to the next.
        write_gap: Ns,
    }

    /// `[dma]`: a DMA engine and its driver.
    DmaEngine {
        /// Software of a transfer.
        setup: Ns,
        /// Of each page.
        page: Ns,
        /// The engine reads a descriptor.
        descriptor: Ns,
        /// The engine says that it is done.
        complete: Ns,
        /// What an interrupt costs, instead of polling.
        interrupt: Ns,
    }

    /// `[dataflow]`: a batch through a graph of operators.
    Dataflow {
        /// A batch, whatever its size.
        scheduler: Us,
        /// A byte through all operators on the processor.
        cpu: Ns,
        /// The same on the device.
        fpga: Ns,
        /// What is told of a batch's progress.
        progress: Bytes,
    }
}

const TOP: &[&str] =
    &["name", "about", "core", "cache", "link", "device", "socket", "pcie", "dma", "dataflow"];

impl PioPlatform {
    /// A built-in platform; a name with a '/' or ending in `.toml` is a file.
    pub fn named(name: &str) -> Result<PioPlatform, PlatformError> {
        let (text, origin) = built_in::text(name, FILES)?;
        PioPlatform::parse(&text, &origin)
    }

    /// Reads a text; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<PioPlatform, PlatformError> {
        PioPlatform::from_table(built_in::parse(text, origin)?, origin)
    }

    /// The same machine with one value changed, e.g. `link.one_way`.
    pub fn overridden(&self, key: &str, value: f64) -> Result<PioPlatform, PlatformError> {
        let file =
            built_in::overridden(&self.file, key, value).map_err(|f| built_in::located(f, &self.name))?;
        PioPlatform::from_table(file, &self.name)
    }

    fn from_table(file: Table, origin: &str) -> Result<PioPlatform, PlatformError> {
        PioPlatform::read(file).and_then(PioPlatform::checked).map_err(|f| built_in::located(f, origin))
    }

    fn read(file: Table) -> Result<PioPlatform, Fault> {
        only(&file, "", TOP)?;
        Ok(PioPlatform {
            name: field(&file, "", "name")?,
            about: field(&file, "", "about")?,
            core: field(&file, "", "core")?,
            cache: field(&file, "", "cache")?,
            link: field(&file, "", "link")?,
            device: field(&file, "", "device")?,
            socket: field(&file, "", "socket")?,
            pcie: field(&file, "", "pcie")?,
            dma: field(&file, "", "dma")?,
            dataflow: field(&file, "", "dataflow")?,
            file,
        })
    }

    /// Rules between values.
    fn checked(self) -> Result<PioPlatform, Fault> {
        let fault = |key: &str, reason: &str, remedy: &str| Err(Fault::new(key, reason, remedy));
        let Some(link) = &self.link else {
            return match (&self.device, &self.socket) {
                (None, None) => Ok(self),
                _ => fault("link", "is missing, and something is on it", "add [link], or remove the others"),
            };
        };
        match &self.device {
            Some(device) if device.not_ready.get() >= link.timeout.get() => fault(
                "device.not_ready",
                "is not before the link's timeout: held loads would end in a machine check",
                "answer NOT_READY earlier",
            ),
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_platforms_can_be_read_and_changed() {
        let enzian = PioPlatform::named("enzian").unwrap();
        let link = enzian.link.as_ref().unwrap();
        assert_eq!((link.one_way.get(), link.one_way.fitted()), (150.0, false));
        assert!(enzian.pcie.read.fitted());
        let far = enzian.overridden("link.one_way", 300.0).unwrap();
        assert_eq!(far.link.unwrap().one_way.get(), 300.0);
        let pc = PioPlatform::named("pio-pc").unwrap();
        assert!(pc.link.is_none() && pc.pcie.read.get() < enzian.pcie.read.get());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let (_, text) = FILES[0];
        let wrong = |from: &str, to: &str, key: &str| {
            assert!(text.contains(from), "{from}");
            let error = PioPlatform::parse(&text.replacen(from, to, 1), "mine.toml").unwrap_err();
            assert_eq!(error.key(), Some(key), "{error}");
        };
        wrong("ns = 150", "us = 1", "link.one_way");
        wrong("us = 1000,", "us = 200000,", "device.not_ready");
        wrong("[link]", "[linc]", "linc");
        wrong("word      = ", "wort      = ", "core.wort");
        let enzian = PioPlatform::named("enzian").unwrap();
        let error = enzian.overridden("link.speed", 1.0).unwrap_err();
        assert_eq!(error.key(), Some("link.speed"), "{error}");
        assert!(PioPlatform::named("icx").is_err());
        assert!(PioPlatform::named("enzian").unwrap().overridden("link.gsync", 0.5).is_err());
    }
}
