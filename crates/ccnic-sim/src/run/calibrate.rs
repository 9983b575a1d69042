//! Calibration: the probes of [`micro`](crate::run::micro) against the targets of a platform file.

use serde::Serialize;

use crate::platform::{Given, Platform, PlatformError, Unit};
use crate::run::micro::{Held, Stores, Words, access, pingpong, stream};
use crate::systems::plan::RunError;

/// The largest error of a calibrated probe, as a share of the target.
pub const TOLERANCE: f64 = 0.03;

/// A probe: its target and its result.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    /// The platform's name.
    pub platform: String,
    /// Its key in the platform's `[targets]` or `[native]`.
    pub target: &'static str,
    /// The unit of both values.
    pub unit: &'static str,
    /// The target.
    pub wanted: f64,
    /// The result.
    pub simulated: f64,
    /// The error, as a share of the target.
    pub error: f64,
    /// The error is at most what is allowed: [`TOLERANCE`] of a calibrated value, [`native::TOLERANCE`](crate::native::TOLERANCE) of one
    /// that was measured on the machine itself.
    pub within: bool,
    /// The target has not been measured on this machine.
    pub assumed: bool,
    /// Where the target comes from.
    pub source: String,
}

impl Probe {
    pub(crate) fn new<U: Unit<Value = f64>>(
        platform: &Platform,
        target: &'static str,
        wanted: &Given<U>,
        simulated: f64,
        tolerance: f64,
    ) -> Probe {
        let error = simulated / wanted.get() - 1.0;
        Probe {
            platform: platform.name.clone(),
            target,
            unit: U::KEY,
            wanted: wanted.get(),
            simulated,
            error,
            within: error.abs() <= tolerance,
            assumed: wanted.assumed(),
            source: wanted.source().to_owned(),
        }
    }
}

/// Why a platform could not be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A probe could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The probe of the link needs more cores than can be simulated.
    #[error(transparent)]
    Platform(#[from] PlatformError),
}

/// Runs the probes for which the platform has targets.
///
/// # Errors
/// When a probe cannot be run.
pub fn calibrate(platform: &Platform) -> Result<Vec<Probe>, CalibrateError> {
    let targets = &platform.targets;
    let mut probes = Vec::new();
    let held = [
        ("local_hitm", &targets.local_hitm, Held::LocalCore),
        ("local_memory", &targets.local_memory, Held::LocalMemory),
        ("remote_memory", &targets.remote_memory, Held::RemoteMemory),
        ("remote_hitm_writer_homed", &targets.remote_hitm_writer_homed, Held::RemoteWriterHomed),
        ("remote_hitm_reader_homed", &targets.remote_hitm_reader_homed, Held::RemoteReaderHomed),
    ];
    for (name, target, held) in held {
        let Some(wanted) = target else { continue };
        let Some(access) = access(platform, held)? else { continue };
        probes.push(Probe::new(platform, name, wanted, access.median_ns, TOLERANCE));
    }
    let words = [
        ("word_rtt_shared", &targets.word_rtt_shared, Words::Shared(0)),
        ("word_rtt_separate", &targets.word_rtt_separate, Words::WriterHomed),
    ];
    for (name, target, words) in words {
        let Some(wanted) = target else { continue };
        probes.push(Probe::new(platform, name, wanted, pingpong(platform, words)?.median_ns, TOLERANCE));
    }
    if let Some(wanted) = &targets.remote_read_rate {
        // The other socket has as many cores as the host's, whether a NIC is made of them or a device is the NIC.
        let cores = platform.topology.host_cores.get();
        let whole = platform.overridden("topology.nic_cores", f64::from(cores))?;
        let read = stream(&whole, Stores::None, cores as u16)?.gbit_per_s;
        probes.push(Probe::new(platform, "remote_read_rate", wanted, read, TOLERANCE));
    }
    Ok(probes)
}
