//! The command lines of the control plane's programs.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::credentials;
use crate::tools::Tools;

/// The programs collect garbage less often than by default, since CPU time is what tests wait for, unless they use much memory.
const GARBAGE_COLLECTION: [(&str, &str); 2] = [("GOGC", "400"), ("GOMEMLIMIT", "1GiB")];

/// etcd on two ports of 127.0.0.1.
pub fn etcd(tools: &Tools, directory: &Path, port: u16, peer_port: u16) -> Command {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    let mut command = Command::new(tools.etcd());
    command
        .envs(GARBAGE_COLLECTION)
        .args(["--name=testbed", "--log-level=warn"])
        // Test data needs no fsync, and a cluster of one member needs no long election timeout.
        .args([
            "--unsafe-no-fsync",
            "--heartbeat-interval=50",
            "--election-timeout=250",
        ])
        .arg("--data-dir")
        .arg(data(directory))
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=testbed={peer}"));
    command
}

/// The folder of its data.
pub(crate) fn data(directory: &Path) -> PathBuf {
    directory.join("etcd")
}

/// kube-apiserver on a port of 127.0.0.1, with the [`credentials`] in the folder.
pub fn api_server(tools: &Tools, directory: &Path, etcd: &str, port: u16) -> Command {
    let mut command = Command::new(tools.kube_apiserver());
    command
        .envs(GARBAGE_COLLECTION)
        .arg(format!("--etcd-servers={etcd}"))
        .arg(format!("--secure-port={port}"))
        // Without an address to advertise it looks for a default route, which a sandbox does not have.
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .args([
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
        ])
        .args(["--authorization-mode=RBAC"])
        .arg("--token-auth-file")
        .arg(directory.join(credentials::TOKENS))
        .arg("--tls-cert-file")
        .arg(directory.join(credentials::SERVING_CERTIFICATE))
        .arg("--tls-private-key-file")
        .arg(directory.join(credentials::SERVING_KEY))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg("--service-account-key-file")
        .arg(directory.join(credentials::TOKEN_PUBLIC_KEY))
        .arg("--service-account-signing-key-file")
        .arg(directory.join(credentials::TOKEN_KEY));
    command
}

/// Removes the limits for tests.
pub(crate) fn collect_garbage_by_default(command: &mut Command) {
    for (name, _) in GARBAGE_COLLECTION {
        command.env_remove(name);
    }
}

/// Megabytes: no test writes more. By default the log is rotated after 100 MB.
const AUDIT_LOG_SIZE: u32 = 4096;

/// Makes kube-apiserver write an audit log to a file, according to the policy.
pub(crate) fn audit(api_server: &mut Command, policy: &Path, log: &Path) {
    api_server.arg("--audit-policy-file").arg(policy);
    api_server.arg("--audit-log-path").arg(log);
    api_server.arg(format!("--audit-log-maxsize={AUDIT_LOG_SIZE}"));
}

/// kube-controller-manager, without a port.
pub fn controller_manager(tools: &Tools, directory: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(tools.kube_controller_manager());
    command
        .envs(GARBAGE_COLLECTION)
        .args([
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
        ])
        // By default 20 requests a second: hundreds of pods would take half a minute.
        .args(["--kube-api-qps=1000", "--kube-api-burst=1000"])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--service-account-private-key-file")
        .arg(directory.join(credentials::TOKEN_KEY))
        .arg("--root-ca-file")
        .arg(directory.join(credentials::CA));
    command
}
