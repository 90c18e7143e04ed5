//! What `resolve` and `versions` have in common: their arguments, and one request for each chart of a HelmOp.

use helmops_core::{admit::ValidHelmOp, bundle::RequestedCharts};
use helmops_model::chart::request::ChartRequest;

use super::{
    candidates::SHOWN,
    fetcher::{FetchArgs, FetchFailure, Fetcher, HelmOpFetcher, Session, no_interest},
    subject::{Subject, SubjectArgs, ca_certificates},
};
use crate::{
    failure::Failure,
    output::OutputArgs,
    terminal::{Console, progress},
};

/// The arguments of commands that list the versions of the charts of a HelmOp.
#[derive(Clone, Debug, clap::Args)]
pub struct ListingArgs {
    /// Which HelmOp.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Show all versions
    #[arg(long)]
    pub all: bool,
    /// How they are printed.
    #[command(flatten)]
    pub output: OutputArgs,
    /// How requests are sent.
    #[command(flatten)]
    pub fetch: FetchArgs,
}

impl ListingArgs {
    /// How many versions are shown; `None` for all.
    pub fn limit(&self) -> Option<usize> {
        (!self.all).then_some(SHOWN)
    }

    /// Sends a request for each chart, one after the other, and shows what a person waits for.
    ///
    /// # Errors
    /// If the requests cannot be sent at all. The failures of charts are in the list.
    pub async fn of_each_chart<T>(
        &self,
        subject: &Subject,
        valid: &ValidHelmOp<'_>,
        charts: &RequestedCharts<'_, '_>,
        console: &mut Console<'_>,
        request: impl AsyncFn(&mut HelmOpFetcher<'_>, &ChartRequest<'_>) -> Result<T, FetchFailure>,
    ) -> Result<Vec<Result<T, FetchFailure>>, Failure> {
        let fetcher = Fetcher::new(&self.fetch)?;
        let session = Session {
            client: &subject.client,
            ca_certificates: &ca_certificates(subject.bundle.as_ref(), &subject.live_ca_bundle),
            interest: &no_interest,
        };
        let requests = async {
            let mut fetcher = fetcher.helmop(session, valid);
            let mut results = Vec::new();
            for chart in charts.as_slice() {
                results.push(request(&mut fetcher, chart.request).await);
            }
            results
        };
        Ok(progress::during(console, &progress_text(charts), requests).await)
    }
}

/// What a person waits for.
fn progress_text(charts: &RequestedCharts<'_, '_>) -> String {
    match charts.as_slice() {
        [one] => format!("Reading the versions of {}", one.lookup.repo),
        charts => format!("Reading the versions of {} charts", charts.len()),
    }
}
