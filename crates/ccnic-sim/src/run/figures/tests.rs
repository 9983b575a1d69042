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
