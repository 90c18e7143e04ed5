//! `reconcile`, `poll`, `suspend`, `resume`, `rollback` and `wait`.

use serde_json::{Value, json};

use crate::harness::until;
use crate::harness::whole::{Whole, whole};

#[tokio::test]
async fn a_helmop_is_awaited_rolled_back_and_restored() {
    let whole = whole().await;
    let name = Whole::name("rollback");
    let retries = json!({ "lifecycle": { "upgrade": { "retries": 1 } } });
    whole.helmop(&name, "0.1.0", &retries).await;
    let ready = whole.succeeds(&["wait", &name, "--for=version=0.1.0"]).await;
    assert!(
        ready.ends_with("version 0.1.0, 1 of 1 clusters ready\n"),
        "{ready}"
    );
    whole.helmop(&name, ">=0.2", &retries).await;
    whole.succeeds(&["wait", &name, "--for=version=1.0.0"]).await;

    let back = whole.succeeds(&["rollback", &name]).await;
    assert!(
        back.starts_with(&format!(
            "helmop {name}: spec.helm.version is \"0.1.0\" now, \">=0.2\" before\n"
        )),
        "{back}"
    );
    assert!(back.ends_with("version 0.1.0, 1 of 1 clusters ready\n"), "{back}");
    // Revision 2 of the release was the upgrade.
    let forth = whole
        .succeeds(&["rollback", &name, "--to", "2", "--dry-run"])
        .await;
    assert!(
        forth.contains("\"1.0.0\" now") && forth.contains("server dry run"),
        "{forth}"
    );
    let undone = whole.succeeds(&["rollback", &name, "--undo"]).await;
    assert!(undone.contains("\">=0.2\" now"), "{undone}");
    let stored = whole
        .kubectl()
        .get(&format!("helmop/{name}"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored["spec"]["helm"]["version"], ">=0.2");
    let error = whole.fails(&["rollback", &name, "--undo"], 1).await;
    assert!(error.contains("lacks the annotation"), "{error}");
    // The rule of the webhook, and its text.
    let error = whole.fails(&["rollback", &name, "--to", "banana"], 2).await;
    assert!(
        error.contains("spec.helm.version") && error.contains("banana"),
        "{error}"
    );
}

#[tokio::test]
async fn requests_are_awaited_until_they_are_handled() {
    let whole = whole().await;
    let name = Whole::name("requests");
    whole.helmop(&name, "0.1.0", &json!({})).await;
    whole.succeeds(&["wait", &name]).await;
    let deployment = whole.succeeds(&["reconcile", &name, "--force"]).await;
    assert!(
        deployment.ends_with("version 0.1.0, 1 of 1 clusters ready\n"),
        "{deployment}"
    );
    let bundle = whole
        .kubectl()
        .get(&format!("bundle/{name}"))
        .await
        .unwrap()
        .unwrap();
    assert!(
        bundle["spec"]["lifecycle"]["requests"]["force"].is_string(),
        "{bundle}"
    );
    let polled = whole.succeeds(&["poll", &name]).await;
    assert!(
        polled.ends_with("version 0.1.0 is the newest in the range\n"),
        "{polled}"
    );

    let late = whole
        .fails(&["wait", &name, "--for=version=9.0.0", "--timeout=1s"], 1)
        .await;
    assert!(late.contains("not reached within 1 s"), "{late}");
    let error = whole.fails(&["reconcile", &format!("{name}x")], 1).await;
    assert!(error.contains(&format!("did you mean \"{name}\"")), "{error}");
    let usage = whole.fails(&["reconcile"], 2).await;
    assert!(usage.contains("--all"), "{usage}");
}

#[tokio::test]
async fn a_suspended_helmop_deploys_nothing_until_it_is_resumed() {
    let whole = whole().await;
    let name = Whole::name("suspend");
    whole.helmop(&name, "0.1.0", &json!({})).await;
    whole.succeeds(&["wait", &name]).await;
    let resumed = whole.succeeds(&["resume", &name]).await;
    assert_eq!(resumed, format!("helmop {name}: not suspended\n"));
    // As `status -o name | xargs` has it.
    let printed = format!("helmop.fleet.cattle.io/{name}");
    let tried = ["suspend", &printed, "--dry-run=server", "-o", "json"];
    let tried: Value = serde_json::from_str(&whole.succeeds(&tried).await).unwrap();
    assert_eq!(tried["spec"]["lifecycle"]["suspend"], true, "{tried}");
    let suspended = whole.succeeds(&["suspend", &printed, "-o", "name"]).await;
    assert_eq!(suspended, format!("{printed}\n"));
    until(whole.kubectl(), &format!("helmop/{name}"), |found| {
        anyhow::ensure!(
            found["status"]["lifecycle"]["suspended"] == 1,
            "{}",
            found["status"]["lifecycle"]
        );
        Ok(())
    })
    .await;
    whole.succeeds(&["resume", &name]).await;
    whole.succeeds(&["wait", &name]).await;
}
