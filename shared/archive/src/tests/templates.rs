//! Which templates are found.

use super::build::{LIMITS, Tar};
use crate::template_with;

#[test]
fn templates_of_subcharts_are_found() {
    let found = |chart: Tar| {
        let archive = chart.tgz();
        template_with(&*archive, LIMITS, |text| text.contains("lookup")).unwrap()
    };
    let with = |path: &str| found(Tar::chart().file(path, "{{ lookup }}"));
    assert_eq!(with("web/README.md"), None);
    for path in ["web/templates/_helpers.tpl", "web/charts/db/templates/a.yaml"] {
        assert_eq!(with(path).as_deref(), Some(path));
    }
    let subchart = Tar::chart().file("web/templates/a.yaml", "lookup").tgz();
    let nested = found(Tar::chart().file("web/charts/db.tgz", subchart));
    assert_eq!(nested.as_deref(), Some("web/templates/a.yaml"));
}
