//! What the values of a platform add up to.

use ccnic_sim::platform::Platform;

#[test]
fn paths_add_up_to_the_targets() {
    for name in Platform::names() {
        let platform = Platform::named(name).unwrap();
        let targets = &platform.targets;
        assert!(targets.local_hitm.is_some(), "{name} has nothing to be compared with");
        for (what, sum, target) in [
            ("local hitm", Some(platform.local_hitm_ns()), &targets.local_hitm),
            ("local memory", Some(platform.local_memory_ns()), &targets.local_memory),
            ("remote memory", platform.remote_memory_ns(), &targets.remote_memory),
            ("writer-homed", platform.remote_hitm_writer_homed_ns(), &targets.remote_hitm_writer_homed),
            ("reader-homed", platform.remote_hitm_reader_homed_ns(), &targets.remote_hitm_reader_homed),
        ] {
            let Some(target) = target else { continue };
            let error = sum.unwrap() / target.get() - 1.0;
            println!(
                "{name:15} {what:13} {:6.1} of {:6.1} ns {:+.1} %",
                sum.unwrap(),
                target.get(),
                100.0 * error
            );
            assert!(error.abs() <= 0.03, "{name}: {what} adds up to {sum:?}, target {}", target.get());
        }
    }
}

/// The sums in the documentation of `Path`, repeated here.
#[test]
fn paths_are_the_documented_sums() {
    let platform = Platform::named("icx").unwrap();
    let path = &platform.path;
    let [miss, mesh, lookup] = [path.miss.get(), path.mesh.get(), path.lookup.get()];
    let [data, snoop, fill] = [path.llc_data.get(), path.snoop.get(), path.fill.get()];
    let [memory, link] = [platform.memory.latency.get(), platform.link.as_ref().unwrap().one_way.get()];
    let near =
        |sum: f64, parts: &[f64]| assert!((sum - parts.iter().sum::<f64>()).abs() < 1e-9, "{sum} {parts:?}");
    near(platform.local_hitm_ns(), &[miss, mesh, lookup, mesh, snoop, mesh, fill]);
    near(platform.llc_hit_ns(), &[miss, mesh, lookup, data, mesh, fill]);
    near(platform.local_memory_ns(), &[miss, mesh, lookup, memory, mesh, fill]);
    let remote = [miss, mesh, lookup, link, lookup, mesh, snoop, mesh, link, mesh, fill];
    near(platform.remote_hitm_writer_homed_ns().unwrap(), &remote);
    let extra = [&remote[..], &[path.home_extra.get()]].concat();
    near(platform.remote_hitm_reader_homed_ns().unwrap(), &extra);
    let far = [miss, mesh, lookup, link, lookup, memory, link, mesh, fill];
    near(platform.remote_memory_ns().unwrap(), &far);
    let one = Platform::named("spr-one-socket").unwrap();
    assert_eq!((one.remote_memory_ns(), one.remote_hitm_reader_homed_ns()), (None, None));
}

/// A link's throughput, in lines of 64 bytes, is what the paper measured, or at most 2 % more.
#[test]
fn links_carry_what_was_measured() {
    for name in ["icx", "spr"] {
        let platform = Platform::named(name).unwrap();
        let link = platform.link.unwrap();
        let gbit = link.rate.get() / f64::from(link.data_flits.get()) * 512.0;
        let target = platform.targets.remote_read_rate.unwrap().get();
        assert!((1.0..1.02).contains(&(gbit / target)), "{name}: {gbit} of {target} Gbit/s");
    }
}
