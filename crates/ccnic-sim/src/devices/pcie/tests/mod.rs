//! Timing, order and limits of a device's link, seen from inside.

mod dma;
mod mmio;
mod nic;

use super::costs::Costs;
use crate::platform::Platform;

fn platform() -> Platform {
    Platform::named("icx-e810").unwrap()
}

fn costs() -> Costs {
    Costs::of(&platform()).unwrap()
}
