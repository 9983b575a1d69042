//! A value that is changed for a run.

use ccnic_sim::platform::Platform;

#[test]
fn overriding() {
    let icx = Platform::named("icx").unwrap();
    let slow = icx.overridden("link.one_way", 30.0).unwrap();
    let one_way = &slow.link.as_ref().unwrap().one_way;
    assert!(one_way.get() == 30.0 && !one_way.fitted());
    assert!(one_way.source().contains("21.5") && one_way.source().contains("fitted to"), "{one_way:?}");
    assert_eq!(slow.remote_memory_ns().unwrap() - icx.remote_memory_ns().unwrap(), 17.0);
    let both = slow.overridden("core.fill_buffers", 8.0).unwrap().overridden("prefetch.nic.ip", 1.0).unwrap();
    assert_eq!((both.core.fill_buffers.get(), both.prefetch.nic.ip.get()), (8, true));
    assert_eq!(both.link.unwrap().one_way.get(), 30.0);

    for (key, value, words) in [
        ("link.one_way", f64::NAN, "NaN"),
        ("link.rate", 0.0, "is zero"),
        ("core.fill_buffers", 8.5, "whole"),
        ("core.fill_buffers", 1e300, "whole"),
        ("prefetch.nic.ip", 2.0, "0 or 1"),
        ("memory.curve", 2.0, "not one number"),
        ("link", 2.0, "not one number"),
        ("link.one_day", 2.0, "one_way"),
        ("lnk.one_way", 2.0, "link"),
        ("link.one_way.ns", 2.0, "without its unit"),
        ("protocol.kind", 2.0, "demote"),
        ("name", 2.0, "link"),
        ("", 2.0, "link"),
    ] {
        let error = icx.overridden(key, value).unwrap_err();
        assert_eq!(error.key(), Some(key), "{error}");
        assert!(error.to_string().contains("icx.toml") && error.to_string().contains(words), "{error}");
    }
}
