//! Lists that are read once, page by page.

use std::{fmt::Debug, future::Future};

use futures::{Stream, stream};
use kube::{api::ListParams, core::ObjectList};

use crate::client::{ApiError, bounded};

/// Objects per page: mostly metadata, of some kilobytes.
const PAGE: u32 = 100;

/// The pages of a list, each within the time of a call. `read` requests one with these parameters; their limit is that of a page.
pub fn pages<K, R>(
    params: ListParams,
    read: impl Fn(ListParams) -> R,
) -> impl Stream<Item = Result<Vec<K>, ApiError>>
where
    K: Clone + Debug,
    R: Future<Output = kube::Result<ObjectList<K>>>,
{
    let page = params.limit.unwrap_or(PAGE);
    let first = Some(params.limit(page));
    stream::try_unfold((first, read), async |(params, read)| {
        let Some(mut params) = params else {
            return Ok(None);
        };
        let page = bounded(read(params.clone())).await?;
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        let next = params.continue_token.is_some().then_some(params);
        Ok(Some((page.items, (next, read))))
    })
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use kube::core::{ListMeta, TypeMeta};

    use super::*;

    #[tokio::test]
    async fn all_pages_are_read_with_the_parameters_of_the_list() {
        let read = |params: ListParams| async move {
            assert_eq!(params.label_selector.as_deref(), Some("a=b"));
            let first = params.continue_token.map_or(0, |token| token.parse().unwrap());
            let next: u32 = first + params.limit.unwrap();
            let continue_ = Some(if next < 250 {
                next.to_string()
            } else {
                String::new()
            });
            Ok(ObjectList {
                types: TypeMeta::default(),
                metadata: ListMeta {
                    continue_,
                    ..ListMeta::default()
                },
                items: (first..next.min(250)).collect(),
            })
        };
        let all: Vec<Vec<u32>> = pages(ListParams::default().labels("a=b"), read)
            .try_collect()
            .await
            .unwrap();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 50]);
        assert_eq!(all.concat(), (0..250).collect::<Vec<_>>());
    }
}
