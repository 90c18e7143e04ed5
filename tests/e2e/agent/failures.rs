//! How failures of charts, of the API server and of hooks are reported.

use helmops_helm::outcome::Class;
use helmops_helm::request::{Action, Identity, Uninstall};
use helmops_helm::settings::Apply;
use helmops_helm::{Failure, FailureReason};
use helmops_release::record::{Propagation, Status};
use tokio_util::sync::CancellationToken;

use super::engine::{AGENT, CONFIG_MAP, ENDLESS_HOOK, Engine, SHORT, install, upgrade};

/// Installs a chart with these files, which must fail.
async fn refused(engine: &Engine, files: &[(&str, &str)]) -> Failure {
    let chart = engine.chart("1.0.0", files).await;
    engine.run(Action::Install(install(&chart))).await.unwrap_err()
}

#[tokio::test]
async fn an_invalid_chart_leaves_no_record() {
    let engine = Engine::start("agent-invalid").await;
    let schema = r#"{"properties":{"msg":{"type":"integer"}}}"#;
    let template = |text: &'static str| vec![("templates/x.yaml", text)];
    let cases = [
        (
            template("a: {{ .Values.x.y.z }}\n"),
            FailureReason::TemplateFailed,
        ),
        (template("{{ fail \"set x\" }}\n"), FailureReason::TemplateFailed),
        (template("{{ if }}\n"), FailureReason::TemplateFailed),
        (template("kind: A\n b: [\n"), FailureReason::ManifestInvalid),
        (template("a: b\n"), FailureReason::ManifestInvalid),
        (
            template("apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: a}\n"),
            FailureReason::UnknownKind,
        ),
        (
            vec![
                ("templates/x.yaml", CONFIG_MAP),
                (
                    "Chart.yaml",
                    "apiVersion: v2\nname: web\nversion: 1.0.0\nkubeVersion: '>=99'\n",
                ),
            ],
            FailureReason::KubeVersion,
        ),
        (
            vec![
                ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
                ("values.schema.json", schema),
            ],
            FailureReason::ValuesInvalid,
        ),
    ];
    for (files, reason) in cases {
        let failure = refused(&engine, &files).await;
        assert_eq!(failure.reason, reason, "{files:?}: {failure}");
        assert_eq!(engine.records().await, Vec::<String>::new(), "{files:?}");
    }
}

#[tokio::test]
async fn a_cluster_scoped_object_is_refused_in_a_namespace() {
    let engine = Engine::start("agent-scope").await;
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\n";
    let chart = engine.chart("1.0.0", &[("templates/role.yaml", role)]).await;
    let mut install = install(&chart);
    install.deploy.post_render.namespace = Some(engine.namespace.name().to_owned());
    let failure = engine.run(Action::Install(install)).await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::ObjectsRefused);
    let message = "invalid cluster scoped object [name=x kind=ClusterRole apiVersion=rbac.authorization.k8s.io/v1] found";
    assert!(failure.message.starts_with(message), "{failure}");
    assert!(failure.message.contains("set defaultNamespace"), "{failure}");
}

#[tokio::test]
async fn an_unknown_field_is_refused_by_the_api_server() {
    let engine = Engine::start("agent-field").await;
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80, typo: 1}]}\n";
    let failure = refused(&engine, &[("templates/service.yaml", service)]).await;
    assert_eq!(failure.reason, FailureReason::UnknownField, "{failure}");
    assert_eq!(failure.class(), Class::Chart);
    let object = failure.object.unwrap();
    assert_eq!((&*object.kind, &*object.name), ("Service", "web"));
    assert!(failure.message.contains("typo"), "{}", failure.message);
    let record = engine.record(1).await.unwrap();
    assert_eq!(record.info.status, Status::Failed);
}

/// With client-side apply no request has the parameter `fieldValidation`, so the API server drops the field and warns.
#[tokio::test]
async fn an_unknown_field_is_a_warning_with_client_side_apply() {
    let engine = Engine::start("agent-warning").await;
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80, typo: 1}]}\n";
    let chart = engine
        .chart("1.0.0", &[("templates/service.yaml", service)])
        .await;
    let mut install = install(&chart);
    install.settings.apply = Apply::Client;
    let success = engine.run(Action::Install(install)).await.unwrap();
    assert_eq!(success.warnings, ["unknown field \"spec.ports[0].typo\""]);
}

#[tokio::test]
async fn a_conflict_names_the_object_the_field_and_the_manager() {
    let engine = Engine::start("agent-conflict").await;
    let chart = engine.simple_chart().await;
    engine.installed(&chart).await;
    let edit = [
        "patch",
        "configmap",
        "web-config",
        "--type=merge",
        "--field-manager=by-hand",
        "--patch={\"data\":{\"msg\":\"mine\"}}",
    ];
    engine.run_kubectl(&edit).await;
    let mut upgrade = upgrade(&chart);
    upgrade.deploy.values = vec![br#"{"msg":"other"}"#.to_vec()];
    let failure = engine.run(Action::Upgrade(upgrade)).await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::Conflict);
    assert_eq!((failure.class(), failure.is_captured()), (Class::Cluster, false));
    let object = failure.object.unwrap();
    assert_eq!((&*object.kind, &*object.name), ("ConfigMap", "web-config"));
    let conflicts: Vec<_> = failure
        .conflicts
        .iter()
        .map(|field| (&*field.manager, &*field.path))
        .collect();
    assert_eq!(conflicts, [("by-hand", ".data.msg")]);
    assert_eq!(engine.record(1).await.unwrap().info.status, Status::Deployed);
    assert_eq!(engine.record(2).await.unwrap().info.status, Status::Failed);
}

#[tokio::test]
async fn an_object_of_others_is_not_touched() {
    let engine = Engine::start("agent-foreign").await;
    engine.run_kubectl(&["create", "configmap", "web-config"]).await;
    let failure = refused(&engine, &[("templates/config.yaml", CONFIG_MAP)]).await;
    assert_eq!(failure.reason, FailureReason::NotOwned);
    assert!(failure.is_captured());
    assert_eq!(failure.object.unwrap().name, "web-config");
    assert_eq!(engine.records().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_failed_hook_is_no_timeout() {
    let engine = Engine::start("agent-hook-failed").await;
    // The controller of Jobs ends it, without a pod that has run.
    let hook = ENDLESS_HOOK.replace(
        "spec:\n  template:",
        "spec:\n  activeDeadlineSeconds: 1\n  template:",
    );
    let failure = refused(&engine, &[("templates/hook.yaml", &*hook)]).await;
    assert_eq!(failure.reason, FailureReason::HookFailed, "{failure}");
    assert_eq!(failure.class(), Class::Hook);
    assert_eq!(engine.record(1).await.unwrap().info.status, Status::Failed);
}

#[tokio::test]
async fn a_hook_has_a_timeout_and_a_failed_installation_is_repeated_as_one() {
    let engine = Engine::start("agent-hook-timeout").await;
    let files = [
        ("templates/hook.yaml", ENDLESS_HOOK),
        ("templates/config.yaml", CONFIG_MAP),
    ];
    let chart = engine.chart("1.0.0", &files).await;
    let mut request = engine.request(Action::Install(install(&chart)));
    request.hook_timeout = SHORT;
    let failure = engine
        .run_request(request, &CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(failure.reason, FailureReason::HookTimeout, "{failure}");
    assert!(failure.message.contains("Job/"), "{failure}");
    assert!(engine.object("configmap/web-config").await.is_none());
    let again = engine.run(Action::Install(install(&chart))).await.unwrap_err();
    assert_eq!(again.reason, FailureReason::InProgress);
    let fixed = engine
        .chart("1.0.1", &[("templates/config.yaml", CONFIG_MAP)])
        .await;
    let mut install = install(&fixed);
    install.replaces = true;
    let success = engine.run(Action::Install(install)).await.unwrap();
    assert_eq!(success.revision, Some(2));
}

#[tokio::test]
async fn an_impersonated_account_needs_permissions() {
    let engine = Engine::start("agent-forbidden").await;
    let chart = engine.simple_chart().await;
    let mut request = engine.request(Action::Install(install(&chart)));
    request.identity = Identity::ServiceAccount {
        namespace: AGENT.to_owned(),
        name: "deployer".to_owned(),
    };
    let stop = CancellationToken::new();
    let failure = engine.run_request(request, &stop).await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::Forbidden, "{failure}");
    let account = format!("system:serviceaccount:{AGENT}:deployer");
    assert!(failure.message.contains(&account), "{failure}");
    // What cannot be deleted is reported as well.
    engine.installed(&chart).await;
    engine
        .run_kubectl(&[
            "create",
            "role",
            "reader",
            "--verb=get,list,update",
            "--resource=secrets,configmaps",
        ])
        .await;
    let binding = [
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        &format!("--serviceaccount={AGENT}:deployer"),
    ];
    engine.run_kubectl(&binding).await;
    let mut request = engine.request(Action::Uninstall(Uninstall {
        keeps_history: false,
        description: String::new(),
        runs_hooks: true,
        propagation: Propagation::default(),
    }));
    request.identity = Identity::ServiceAccount {
        namespace: AGENT.to_owned(),
        name: "deployer".to_owned(),
    };
    let failure = engine.run_request(request, &stop).await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::Forbidden, "{failure}");
    assert!(failure.message.contains("cannot delete resource"), "{failure}");
    assert_eq!(engine.record(1).await.unwrap().info.status, Status::Uninstalling);
}

#[tokio::test]
async fn an_api_server_that_does_not_respond_is_a_passing_failure() {
    let mut engine = Engine::start("agent-unreachable").await;
    let chart = engine.simple_chart().await;
    let kubeconfig = std::fs::read_to_string(&engine.kubeconfig).unwrap();
    let port = kubeconfig.split("https://127.0.0.1:").nth(1).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    engine.kubeconfig = engine.files.path().join("unreachable");
    std::fs::write(&engine.kubeconfig, kubeconfig.replace(&port, "1")).unwrap();
    let failure = engine.run(Action::Install(install(&chart))).await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::Unreachable, "{failure}");
    assert_eq!(failure.class(), Class::Passing);
}

#[tokio::test]
async fn an_archive_that_is_no_chart_is_refused() {
    let engine = Engine::start("agent-archive").await;
    let archive = engine.files.path().join("text.tgz");
    std::fs::write(&archive, "text").unwrap();
    let failure = engine.run(Action::Install(install(&archive))).await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::ChartInvalid, "{failure}");
}

#[tokio::test]
async fn a_response_of_the_api_server_decides_on_the_reason() {
    let missing = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: no-such-namespace}\n";
    let engine = Engine::start("agent-missing").await;
    let failure = refused(&engine, &[("templates/a.yaml", missing)]).await;
    assert_eq!(failure.reason, FailureReason::NamespaceMissing, "{failure}");

    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        format!("{:04x}", state >> 16)
    });
    let noise: String = noise.take(600_000).collect();
    let engine = Engine::start("agent-large").await;
    let failure = refused(&engine, &[("files/noise", &noise)]).await;
    assert_eq!(failure.reason, FailureReason::ReleaseTooLarge, "{failure}");

    // Something in it keeps the namespace.
    let engine = Engine::start("agent-ending").await;
    engine.run_kubectl(&["create", "configmap", "held"]).await;
    let patch = |finalizers: &str| format!("--patch={{\"metadata\":{{\"finalizers\":{finalizers}}}}}");
    let held = patch("[\"example.com/held\"]");
    let add = ["patch", "configmap", "held", "--type=merge", &held];
    engine.run_kubectl(&add).await;
    let namespace = engine.namespace.name();
    engine
        .run_kubectl(&["delete", "namespace", namespace, "--wait=false"])
        .await;
    let failure = refused(&engine, &[("templates/config.yaml", CONFIG_MAP)]).await;
    assert_eq!(failure.reason, FailureReason::NamespaceTerminating, "{failure}");
    let released = patch("null");
    engine
        .run_kubectl(&["patch", "configmap", "held", "--type=merge", &released])
        .await;
}
