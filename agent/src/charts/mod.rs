//! Charts (stub until the merge).
use helmops_api::BundleDeployment;
use helmops_core::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, classified};
use kube::Client;
use std::path::PathBuf;
/// A.
#[derive(Debug)]
pub struct ChartFile {
    /// P.
    pub path: PathBuf,
}
/// E.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ChartError(pub String);
impl ClassifiedError for ChartError {
    fn classify(&self) -> Classified {
        classified(Reason::RepositoryError, Class::Absent)
    }
}
/// C.
pub struct Charts {
    /// D.
    pub dir: PathBuf,
}
impl Charts {
    /// G.
    pub async fn get(&self, _: &Client, d: &BundleDeployment) -> Result<ChartFile, ChartError> {
        let helm = d.spec.options.helm.clone().unwrap_or_default();
        Ok(ChartFile {
            path: self.dir.join(format!("{}-{}.tgz", helm.chart, helm.version)),
        })
    }
}
