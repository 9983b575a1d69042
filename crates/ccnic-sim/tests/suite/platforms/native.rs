//! What was measured on a machine itself stands beside what is simulated of it.

use ccnic_sim::calibrate::Probe;
use ccnic_sim::native::{TOLERANCE, native};
use ccnic_sim::platform::{AnyPlatform, Platform};

/// Every measurement is compared with a simulation of its own, and the verdict is that of the tolerance.
#[test]
fn every_measurement_has_its_simulation() {
    let zen4 = Platform::named("zen4-one-socket").unwrap();
    let probes = native(&zen4).unwrap();
    let measured: Vec<(String, String)> = AnyPlatform::named("zen4-one-socket")
        .unwrap()
        .entries()
        .into_iter()
        .filter_map(|e| Some((e.key.strip_prefix("native.")?.to_owned(), e.value)))
        .collect();
    assert_eq!(probes.len(), measured.len(), "{probes:?}");
    for (key, value) in measured {
        let probe = probes.iter().find(|p| p.target == key).unwrap();
        assert_eq!(probe.wanted, value.parse::<f64>().unwrap(), "{key}");
        assert!(probe.simulated > 0.0 && probe.within == (probe.error.abs() <= TOLERANCE), "{probe:?}");
    }
    let of = |key: &str| probes.iter().find(|p| p.target == key).map(|p: &Probe| p.simulated).unwrap();
    assert!(of("rate_64") > of("rate_64_e810"), "doorbells and host-managed buffers cost more than CC-NIC's");
    assert!(of("rate_64") > of("rate_1500") && of("lone_64") < of("lone_1500"), "as long packets do");
}

/// A machine that nobody has measured has nothing to be compared with.
#[test]
fn without_measurements_nothing_is_simulated() {
    assert!(native(&Platform::named("icx").unwrap()).unwrap().is_empty());
}

/// More pairs than cores are refused, not left out.
#[test]
fn a_measurement_that_the_platform_cannot_have_is_refused() {
    let emr = Platform::named("emr-one-socket").unwrap();
    let small = emr.overridden("topology.host_cores", 4.0).unwrap();
    assert!(native(&small).unwrap_err().to_string().contains("7 cores"), "seven pairs on four cores");
}
