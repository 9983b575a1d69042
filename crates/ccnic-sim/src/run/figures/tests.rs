use super::expr::Place;
use super::point::Measured;
use super::run::{Curve, Simulated};
use super::*;

#[test]
fn built_in_plans_are_right() {
    let figures = all().unwrap();
    assert_eq!(figures.len(), FILES.len());
    for figure in &figures {
        assert!(!figure.statements.is_empty(), "{}", figure.id);
        for series in &figure.series {
            let platform = series.base.platform.as_deref().unwrap();
            let machine = crate::platform::Platform::named(platform).unwrap();
            assert!(series.base.set.keys().all(|key| machine.overridden(key, 1.0).is_ok()), "{}", series.id);
        }
    }
    let mut ids: Vec<&str> = figures.iter().map(|f| f.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), FILES.len());
}

#[test]
fn built_in_plans_of_the_cni_paper_are_right() {
    for figure in cni().unwrap() {
        assert!(figure.id.starts_with("cni-"), "{}", figure.id);
        // Across machines there is nothing published.
        assert_eq!(figure.statements.is_empty(), figure.id == "cni-across", "{}", figure.id);
        for series in figure.series.iter().filter(|series| series.variants.is_empty()) {
            let platform = series.base.platform.as_deref().unwrap();
            assert!(crate::platform::BusPlatform::named(platform).is_ok(), "{}", series.id);
        }
    }
    let (_, text) = CNI_FILES[0];
    let error = Figure::parse(&text.replace("\"cni512q\"", "\"cni1q\""), "mine.toml").unwrap_err();
    assert!(error.to_string().contains("choose one of ni2w, cni4, cni16q, cni512q, cni16qm"), "{error}");
}

#[test]
fn built_in_plans_of_the_pio_paper_are_right() {
    for figure in pio().unwrap() {
        assert!(figure.id.starts_with("pio-") && !figure.statements.is_empty(), "{}", figure.id);
        for series in &figure.series {
            let machine =
                crate::platform::PioPlatform::named(series.base.platform.as_deref().unwrap()).unwrap();
            assert!(series.base.set.iter().all(|(key, value)| machine.overridden(key, *value).is_ok()));
        }
        // What was fitted is an input: it says so where the number stands.
        for statement in figure.statements.iter().filter(|s| s.calibrated) {
            assert!(statement.text.contains("(input"), "{}: {}", figure.id, statement.id);
        }
    }
    let (_, text) = PIO_FILES[1];
    let error = Figure::parse(&text.replace("by = \"eci-shared\"", "by = \"upi\""), "mine.toml").unwrap_err();
    assert!(error.to_string().contains("fastforward"), "{error}");
    let receives = text
        .replace("{ act = \"call\", by = \"fastforward\" }", "{ act = \"receive\", by = \"fastforward\" }");
    let error = Figure::parse(&receives, "mine.toml").unwrap_err();
    assert!(error.to_string().contains("nothing simulates this act by this means"), "{error}");
}

#[test]
fn an_unknown_design_is_refused_with_the_names_of_all() {
    let (_, text) = FILES.iter().find(|(name, _)| name.contains("17-")).unwrap();
    assert!(text.contains("\"e810\""));
    let error = Figure::parse(&text.replace("\"e810\"", "\"e811\""), "mine.toml").unwrap_err();
    let names = "unknown design; choose one of ccnic, paper, packed, padded, e810";
    assert!(error.to_string().contains(names), "{error}");
}

/// Experiments are plans that explain, and that no report counts.
#[test]
fn experiments_can_be_run_and_are_not_among_the_figures() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures/experiments");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let figure = named(file.to_str().unwrap()).unwrap();
        assert!(all().unwrap().iter().all(|f| f.id != figure.id), "{}", figure.id);
        for series in &figure.series {
            let machine = crate::platform::Platform::named(series.base.platform.as_deref().unwrap()).unwrap();
            assert!(series.base.set.iter().all(|(key, value)| machine.overridden(key, *value).is_ok()));
        }
    }
}

#[test]
fn points_that_have_not_converged_are_named() {
    let point = |name: &str, drift: f64| {
        let values = [("drift".to_owned(), drift)].into();
        (Place { name: name.into(), number: 0.0 }, Measured { values, ..Measured::default() })
    };
    let points = vec![point("steady", 0.01), point("rising", 0.06), point("falling", -0.2)];
    let series = vec![Curve { id: "rate".into(), points, missing: None }];
    let simulated = Simulated { figure: named("15").unwrap(), series, verdicts: Vec::new() };
    assert!(simulated.has_loopbacks());
    let drifting: Vec<_> = simulated.drifting().collect();
    assert_eq!(drifting, [("rate", "rising", 0.06), ("rate", "falling", -0.2)]);
}
