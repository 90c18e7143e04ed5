//! The response header by which clients leave a server that shuts down.

use axum::{
    extract::State,
    http::{HeaderValue, header::CONNECTION},
    response::Response,
};

use crate::Health;

/// Adds `Connection: close` to responses while the process is shutting down; a layer for `map_response_with_state`.
///
/// Clients such as an API server or an Ingress reuse their connections. If one is closed just when they send a request, the request
/// fails. With the header, they open a new connection for the next request, which reaches another replica.
pub async fn close_on_shutdown(State(health): State<Health>, mut response: Response) -> Response {
    if health.is_stopping() {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
