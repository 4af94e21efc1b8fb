//! A minimal HTTP/1.1 client with one keep-alive connection, for load tests.

use super::summary::Sample;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::str::FromStr;
use std::time::Instant;
use tokio::net::TcpStream;

const BOUNDARY: &str = "backdrop-bench-5f2c9e1ab7";

/// The URL to send to.
#[derive(Clone, Debug)]
pub(super) struct Target {
    authority: String,
    path: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: http::Uri = text.parse().map_err(|error| format!("{error}"))?;
        let Some(authority) = uri.authority().filter(|_| uri.scheme_str() == Some("http")) else {
            return Err("expected http://HOST:PORT".to_owned());
        };
        let path = if uri.path() == "/" { "/remove" } else { uri.path() };
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self { authority: format!("{}:{port}", authority.host()), path: path.to_owned() })
    }
}

/// Builds a multipart body with one file and no options.
pub(super) fn form(file: &[u8]) -> Bytes {
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"photo\"\r\n\
         content-type: application/octet-stream\r\n\r\n"
    );
    [head.as_bytes(), file, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat().into()
}

/// One worker's connection.
pub(super) struct Client {
    target: Target,
    authorization: String,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(super) fn new(target: &Target, key: &str) -> Self {
        Self { target: target.clone(), authorization: format!("Bearer {key}"), connection: None }
    }

    /// Sends one request and reads the whole response. After a failure the next request opens a new connection.
    pub(super) async fn send(&mut self, body: &Bytes) -> Sample {
        let started = Instant::now();
        match self.exchange(body).await {
            Ok((status, stages)) => Sample { outcome: status.as_str().to_owned(), took: started.elapsed(), stages },
            Err(reason) => {
                self.connection = None;
                Sample { outcome: reason, took: started.elapsed(), stages: Vec::new() }
            }
        }
    }

    async fn exchange(&mut self, body: &Bytes) -> Result<(StatusCode, Vec<(String, f64)>), String> {
        if self.connection.as_ref().is_none_or(SendRequest::is_closed) {
            let stream = TcpStream::connect(&self.target.authority).await.map_err(|error| error.to_string())?;
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
            // Ends when the sender is dropped; its errors are also the request's.
            tokio::spawn(connection);
            self.connection = Some(sender);
        }
        let connection = self.connection.as_mut().ok_or("no connection")?;
        let request = Request::post(&self.target.path)
            .header(header::HOST, &self.target.authority)
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::CONTENT_TYPE, format!("multipart/form-data; boundary={BOUNDARY}"))
            .body(Full::new(body.clone()))
            .map_err(|error| error.to_string())?;
        connection.ready().await.map_err(|error| error.to_string())?;
        let response = connection.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let timing = response.headers().get("server-timing").and_then(|value| value.to_str().ok()).map(stages);
        response.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok((status, timing.unwrap_or_default()))
    }
}

/// Names and milliseconds of a `server-timing` header.
fn stages(header: &str) -> Vec<(String, f64)> {
    let stage = |entry: &str| {
        let (name, parameters) = entry.trim().split_once(';')?;
        let duration = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("dur="))?;
        Some((name.to_owned(), duration.parse().ok()?))
    };
    header.split(',').filter_map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_timing_is_parsed_without_entries_that_have_no_duration() {
        assert_eq!(
            stages("decode;dur=1.5, cache, segment;desc=x;dur=20"),
            [("decode".into(), 1.5), ("segment".into(), 20.0)]
        );
    }

    #[test]
    fn a_target_has_a_host_and_defaults_to_port_80_and_remove() {
        let target: Target = "http://localhost".parse().unwrap();
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("localhost:80", "/remove"));
        let target: Target = "http://[::1]:8080/mask".parse().unwrap();
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("[::1]:8080", "/mask"));
        assert!("https://localhost".parse::<Target>().is_err());
        assert!("localhost:8080".parse::<Target>().is_err());
    }
}
