//! Unusual files and values. Likely mistakes of users are in `tests/suite/platforms`.

use super::load::FILES;
use super::{Platform, PlatformError};
use proptest::prelude::*;
use toml::Table;

/// The dotted key of every value.
fn keys(table: &Table, at: &str, found: &mut Vec<String>) {
    for (key, value) in table {
        if let Some(inner) = value.as_table() {
            let at = format!("{at}{key}");
            if inner.contains_key("source") { found.push(at) } else { keys(inner, &format!("{at}."), found) }
        }
    }
}

fn sound(platform: Result<Platform, PlatformError>) -> Result<(), TestCaseError> {
    match platform {
        Ok(platform) => {
            let sums = [platform.local_hitm_ns(), platform.llc_hit_ns(), platform.local_memory_ns()];
            let remote =
                platform.remote_memory_ns().into_iter().chain(platform.remote_hitm_reader_homed_ns());
            prop_assert!(sums.into_iter().chain(remote).all(|sum| sum.is_finite() && sum > 0.0));
            prop_assert!(platform.link.is_none() == platform.topology.same_socket.get());
        }
        Err(error) => prop_assert!(error.to_string().contains(".toml")),
    }
    Ok(())
}

proptest! {
    /// Whatever happens to a file, the answer is a platform or a refusal.
    #[test]
    fn damaged_files_are_refused_or_sound(
        (_, text) in prop::sample::select(FILES),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, "[ -~\n]{0,12}"), 1..4),
    ) {
        let mut text = text.as_bytes().to_vec();
        for (place, length, with) in damage {
            let start = place.index(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, with.into_bytes());
        }
        sound(Platform::parse(&String::from_utf8_lossy(&text), "damaged.toml"))?;
    }

    /// Numbers keep their type and place, so more of them get as far as the rules.
    #[test]
    fn changed_values_are_refused_or_sound(
        name in prop::sample::select(Platform::names()),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop_oneof![any::<f64>(), (0u32..200).prop_map(f64::from), 0.0..100.0]),
            1..4,
        ),
    ) {
        let mut platform = Platform::named(name);
        for (place, value) in changes {
            if let Ok(before) = &platform {
                let mut known = Vec::new();
                keys(&before.file, "", &mut known);
                platform = before.overridden(&known[place.index(known.len())], value);
            }
        }
        sound(platform)?;
    }
}
