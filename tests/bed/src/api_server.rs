//! A second API server of a control plane, which a test stops and starts while the first one shows what happens.

use std::time::Duration;

use anyhow::Result;

use crate::cluster::Cluster;
use crate::ports::free_ports;
use crate::process::Process;
use crate::test_bed::TestBed;
use crate::{probe, programs};

const NAME: &str = "second-api-server";
/// A few seconds on an idle machine.
const START_DEADLINE: Duration = Duration::from_mins(1);

/// An API server with the objects and the credentials of a control plane.
#[derive(Debug)]
pub struct ApiServer {
    bed: TestBed,
    cluster: Cluster,
    port: u16,
    process: Option<Process>,
}

impl ApiServer {
    /// Starts it, and waits until it is ready.
    pub async fn start(bed: &TestBed) -> Result<Self> {
        let [port] = free_ports()?;
        let mut server = Self {
            cluster: Cluster {
                url: format!("https://127.0.0.1:{port}"),
                ..Cluster::clone(bed)
            },
            bed: bed.clone(),
            port,
            process: None,
        };
        server.restart().await?;
        Ok(server)
    }

    /// The control plane at the address of this API server.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Kills it: connections break, and new ones are refused.
    pub async fn kill(&mut self) -> Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Starts it again at the same address, and waits until it is ready.
    pub async fn restart(&mut self) -> Result<()> {
        let Cluster {
            tools,
            directory,
            etcd,
            ..
        } = &self.cluster;
        let command = programs::api_server(tools, directory, etcd, self.port);
        let log = self.cluster.log(NAME);
        let mut process = Process::start(NAME, self.bed.in_group(command), &log)?;
        let client = probe::client(Some(&self.cluster.ca()?))?;
        let url = format!("{}/readyz", self.cluster.url);
        process.until(probe::ready(&client, &url, START_DEADLINE)).await?;
        self.process = Some(process);
        Ok(())
    }
}
