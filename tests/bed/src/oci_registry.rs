//! A real OCI registry, with charts that Helm pushes.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LINK};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::helm::Helm;
use crate::private_ca::PrivateCa;
use crate::probe;
use crate::process::Process;
use crate::test_bed::TestBed;
use crate::wait::eventually;

/// The registry listens within a second; the machine may be busy.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// User name and password of a registry that requires a login.
pub const LOGIN: (&str, &str) = ("reader", "geheim");
/// The media type of the manifests that Helm pushes.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The same in the format of htpasswd files.
const HTPASSWD: &str = "reader:$2b$04$abcdefghijklmnopqrstuuPWRtT5yx7FBi4dcf6ROhboeNunUrLQ.\n";

/// A registry on a free port of 127.0.0.1; it stops when dropped, or with its control plane.
pub struct OciRegistry {
    /// Host and port.
    pub host: String,
    helm: Helm,
    tls: Option<PrivateCa>,
    has_login: bool,
    _folder: TempDir,
    _process: Process,
}

impl OciRegistry {
    /// A registry over plain HTTP without a login.
    pub async fn open(bed: &TestBed) -> Result<Self> {
        Self::start(bed, None, false, "").await
    }

    /// A registry over TLS that requires [`LOGIN`].
    pub async fn private(bed: &TestBed) -> Result<Self> {
        Self::start(bed, Some(PrivateCa::new("registry")?), true, "").await
    }

    /// A registry over plain HTTP that announces pushes to a URL, with a bearer token.
    pub async fn notifying(bed: &TestBed, url: &str, token: &str) -> Result<Self> {
        let endpoint = format!(
            "{{name: helmops, url: '{url}', headers: {{Authorization: ['Bearer {token}']}}, timeout: 10s, threshold: 3, backoff: 1s}}"
        );
        let notifications = format!("notifications: {{endpoints: [{endpoint}]}}\n");
        Self::start(bed, None, false, &notifications).await
    }

    async fn start(
        bed: &TestBed,
        tls: Option<PrivateCa>,
        has_login: bool,
        notifications: &str,
    ) -> Result<Self> {
        let folder = TempDir::with_prefix_in("registry-", &bed.directory)?;
        if let Some(ca) = &tls {
            let issued = ca.issue(&["127.0.0.1"])?;
            std::fs::write(folder.path().join("ca.pem"), ca.pem())?;
            std::fs::write(folder.path().join("tls.crt"), issued.certificate)?;
            std::fs::write(folder.path().join("tls.key"), issued.key)?;
        }
        std::fs::write(folder.path().join("htpasswd"), HTPASSWD)?;
        let program = bed.tools.registry();
        let (process, [port]) = Process::start_on_ports(
            "registry",
            &folder.path().join("log"),
            |[port]| {
                let mut command = bed.command(&program);
                let config = folder.path().join("config.yaml");
                // Without the file the registry ends immediately, so an error is noticed.
                let content = configuration(folder.path(), port, tls.is_some(), has_login) + notifications;
                let _ = std::fs::write(&config, content);
                command.arg("serve").arg(config);
                command
            },
            async |[port]| {
                eventually("the registry", READY_DEADLINE, async || {
                    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
                    Ok(())
                })
                .await
            },
        )
        .await?;
        Ok(Self {
            host: format!("127.0.0.1:{port}"),
            helm: Helm::new(&bed.tools, folder.path()),
            tls,
            has_login,
            _folder: folder,
            _process: process,
        })
    }

    /// The CA of its certificate, PEM.
    pub fn ca(&self) -> Option<&str> {
        self.tls.as_ref().map(PrivateCa::pem)
    }

    /// Pushes a version of a chart to `oci://<host>/charts/<chart>`.
    pub async fn push(&self, chart: &str, version: &str) -> Result<()> {
        self.helm.package(chart, version, ".").await?;
        let archive = format!("{chart}-{version}.tgz");
        let url = format!("oci://{}/charts", self.host);
        let arguments = [&["push", &archive, &url], &*self.connection_flags()].concat();
        self.helm.run(&arguments).await.map(drop)
    }

    /// Adds tags for a version that was pushed to a registry without a login and TLS. Returns the `Link` header of the list with a
    /// thousand tags per page.
    pub async fn tag(
        &self,
        chart: &str,
        version: &str,
        tags: impl Iterator<Item = String>,
    ) -> Result<Option<String>> {
        let client = probe::client(None)?;
        let of = |path: &str| format!("http://{}/v2/charts/{chart}/{path}", self.host);
        let manifest = client
            .get(of(&format!("manifests/{version}")))
            .header(ACCEPT, MANIFEST)
            .send();
        let manifest = manifest.await?.error_for_status()?.bytes().await?;
        for tag in tags {
            let put = client
                .put(of(&format!("manifests/{tag}")))
                .header(CONTENT_TYPE, MANIFEST);
            put.body(manifest.clone()).send().await?.error_for_status()?;
        }
        let list = client
            .get(of("tags/list?n=1000"))
            .send()
            .await?
            .error_for_status()?;
        let link = list.headers().get(LINK).and_then(|link| link.to_str().ok());
        Ok(link.map(ToOwned::to_owned))
    }

    /// The version that Helm itself resolves for a chart and the range `version`.
    ///
    /// # Errors
    /// If it finds none.
    pub async fn resolve_with_helm(&self, chart: &str, version: &str) -> Result<String> {
        let url = format!("oci://{}/charts/{chart}", self.host);
        let arguments = [&[&*url, "--version", version], &*self.connection_flags()].concat();
        self.helm.resolve(&arguments).await
    }

    /// Helm's flags for this registry. Helm runs in the folder that contains the CA certificate.
    fn connection_flags(&self) -> Vec<&'static str> {
        let mut flags = match self.tls {
            Some(_) => vec!["--ca-file", "ca.pem"],
            None => vec!["--plain-http"],
        };
        if self.has_login {
            flags.extend(["--username", LOGIN.0, "--password", LOGIN.1]);
        }
        flags
    }
}

fn configuration(folder: &Path, port: u16, tls: bool, login: bool) -> String {
    let folder = folder.display();
    let tls = if tls {
        format!("{{certificate: {folder}/tls.crt, key: {folder}/tls.key}}")
    } else {
        "{}".to_owned()
    };
    let auth = if login {
        format!("{{htpasswd: {{realm: charts, path: {folder}/htpasswd}}}}")
    } else {
        "{}".to_owned()
    };
    format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\nhttp: {{addr: '127.0.0.1:{port}', tls: {tls}}}\nauth: {auth}\n"
    )
}
