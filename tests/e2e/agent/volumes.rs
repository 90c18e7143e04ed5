//! The volumes of the agent's pod.

use std::os::unix::fs::MetadataExt;

use helmops_bed::volume::Volume;
use serde_json::json;

use crate::harness::agent::Fixture;

/// The mode and the owner of `/work` cannot be changed by the user of the image.
#[tokio::test]
async fn the_agent_starts_and_deploys_with_a_volume_that_belongs_to_root() {
    let fixture = Fixture::new("volumes").await;
    let volume = Volume::foreign(&fixture.folder("agent", "volume")).unwrap();
    let of_volume = || {
        let found = std::fs::metadata(&volume.folder).unwrap();
        (found.uid(), found.mode())
    };
    let before = of_volume();
    let wrapper = [&["unshare"][..], &volume.unshare].concat();
    let folder = volume.folder.to_str().unwrap();
    let flags = ["--leader-elect=false", "--work-dir", folder];
    let private = volume.folder.join("agent");
    for name in ["first", "second"] {
        // The second one finds the folder of the first one, as after a restart of the container.
        let agent = fixture.start_within(&wrapper, "agent", &flags).await.unwrap();
        fixture.deploy(name, "1.0.0", &json!({})).await;
        fixture.until_ready(name).await;
        let mode = std::fs::metadata(&private).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700, "values and the token are private");
        drop(agent);
    }
    assert_eq!(of_volume(), before);
    std::fs::remove_dir_all(&private).unwrap();
}
