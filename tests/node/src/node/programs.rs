//! The command line of each program of the node.

use std::path::Path;

use helmops_bed::cluster::Cluster;
use helmops_bed::programs;
use tokio::process::Command;

/// A program of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Containerd,
    Kubelet,
    KubeProxy,
    /// Enforces network policies.
    KubeRouter,
}

impl Program {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::KubeRouter => "kube-router",
        }
    }

    pub fn command(self, state: &Path, cluster: &Cluster) -> Command {
        let Cluster { tools, etcd, .. } = cluster;
        let kubeconfig = |name: &str| format!("--kubeconfig={}/{name}.kubeconfig", state.display());
        let config = |name: &str| format!("--config={}/{name}", state.display());
        let mut command = match self {
            Self::Etcd => programs::etcd(tools, state, 2379, 2380),
            Self::ApiServer => programs::api_server(tools, state, etcd, 6443),
            Self::ControllerManager => programs::controller_manager(tools, state, &cluster.kubeconfig),
            Self::Scheduler | Self::Containerd | Self::Kubelet | Self::KubeProxy | Self::KubeRouter => {
                Command::new(self.name())
            }
        };
        match self {
            Self::Etcd | Self::ControllerManager => {}
            // The last value of a flag counts; modes of authorization are added.
            Self::ApiServer => {
                command.args(["--bind-address=0.0.0.0", "--advertise-address=10.89.0.2"]);
                command.args([
                    "--endpoint-reconciler-type=lease",
                    "--service-cluster-ip-range=10.96.0.0/16",
                ]);
                command.args([
                    "--authorization-mode=Node",
                    "--enable-admission-plugins=NodeRestriction",
                ]);
                command.args([
                    "--allow-privileged=true",
                    "--kubelet-preferred-address-types=InternalIP",
                ]);
            }
            Self::Scheduler => {
                command.args(["--leader-elect=false", "--bind-address=127.0.0.1"]);
                command.arg(kubeconfig("kube-scheduler"));
            }
            Self::Containerd => {
                command.arg(config("containerd.toml"));
            }
            Self::Kubelet => {
                command.arg(config("kubelet.yaml")).arg(kubeconfig("kubelet"));
                command.args(["--hostname-override=node1", "--node-ip=10.89.0.2"]);
                command.arg(format!("--root-dir={}/kubelet", state.display()));
                command.arg(format!("--cert-dir={}/kubelet/pki", state.display()));
            }
            Self::KubeProxy => {
                command.arg(config("kube-proxy.yaml"));
            }
            Self::KubeRouter => {
                command.args(["--run-firewall=true", "--run-router=false"]);
                command.args(["--run-service-proxy=false", "--run-loadbalancer=false"]);
                command.args([
                    "--hostname-override=node1",
                    "--service-cluster-ip-range=10.96.0.0/16",
                ]);
                command.arg(kubeconfig("admin"));
            }
        }
        command
    }
}
