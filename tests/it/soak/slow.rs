//! Slow clients of the soak: a head that stops, a body in small pieces, and an answer that is read in small pieces.

use crate::soak::traffic::{Outcome, PATIENCE, Traffic};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rand::Rng;
use rand::rngs::StdRng;
use reqwest::Body;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// Bytes of a body sent at once.
const PIECE: usize = 8 * 1024;
/// Bytes that the system receives ahead of a slow reader. The daemon keeps 64 KB more in its socket, and waits with the rest of an
/// answer.
const RECEIVE_BUFFER: u32 = 4 * 1024;
/// Time between two reads, each of a few kilobytes.
const READ_PAUSE: Duration = Duration::from_millis(3);

impl Traffic {
    /// Sends the beginning of a request and waits.
    pub(super) async fn send_head_slowly(&self, dice: &mut StdRng) {
        let Ok(mut stream) = TcpStream::connect(self.address()).await else { return };
        let head = b"POST /remove HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nAuthorization: Bearer ";
        drop(stream.write_all(&head[..dice.random_range(1..head.len())]).await);
        sleep(Duration::from_millis(dice.random_range(0..1500))).await;
    }

    /// Sends a picture piece by piece, in up to two seconds, at times after a disconnect before its end.
    pub(super) async fn send_body_slowly(&self, name: &str, dice: &mut StdRng) {
        const PATH: &str = "/remove";
        let picture = &self.inputs.pictures[0];
        let pause = Duration::from_millis(dice.random_range(1..150));
        let request = || {
            let starts = (0..picture.len()).step_by(PIECE);
            let pieces: Vec<_> = starts.map(|at| picture.slice(at..picture.len().min(at + PIECE))).collect();
            let body = stream::iter(pieces).then(move |piece| async move {
                sleep(pause).await;
                Ok::<Bytes, io::Error>(piece)
            });
            let request = self.client.post(self.url(PATH)).header("idempotency-key", name);
            request.header("content-type", "image/jpeg").body(Body::wrap_stream(body))
        };
        self.disconnect_at_times(PATH, &[200], 1000, dice, request).await;
        if let Some((_, body)) = self.until_answered(PATH, &[200], request).await {
            self.count_picture(PATH, &body);
        }
    }

    /// Reads a picture of more than a megabyte slowly. After an incomplete read it is requested again.
    pub(super) async fn read_slowly(&self, name: &str, dice: &mut StdRng) {
        const PATH: &str = "/upscale?scale=2";
        let picture = &self.inputs.pictures[0];
        let reads = if dice.random_ratio(1, 2) { usize::MAX } else { dice.random_range(1..100) };
        let (began, key) = (Instant::now(), self.key());
        let request = Request::post(PATH)
            .header("host", self.address())
            .header("authorization", format!("Bearer {key}"))
            .header("idempotency-key", name)
            .header("content-type", "image/jpeg")
            .body(Full::new(picture.clone()))
            .expect("a request");
        let read = timeout(PATIENCE, slow_answer(self.address(), request, reads)).await;
        let outcome = match read.ok().flatten() {
            Some(answer) => self.classified(PATH, &[200], began, &key, Some(answer)),
            None => Outcome::Repeat,
        };
        let again = || {
            let request = self.client.post(self.url(PATH)).header("idempotency-key", name);
            request.header("content-type", "image/jpeg").body(picture.clone())
        };
        let answer = match outcome {
            Outcome::Planned(status, body) => Some((status, body)),
            Outcome::Repeat => self.until_answered(PATH, &[200], again).await,
            Outcome::Unplanned => None,
        };
        if let Some((_, body)) = answer {
            self.count_picture(PATH, &body);
        }
    }
}

/// Status and body of an answer that is read slowly; `None` if it is cut off or has not ended after `reads` reads.
async fn slow_answer(address: &str, request: Request<Full<Bytes>>, reads: usize) -> Option<(u16, Bytes)> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER).ok()?;
    let stream = socket.connect(address.parse().expect("an address")).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let (head, mut body) = sender.send_request(request).await.ok()?.into_parts();
    let mut bytes = BytesMut::new();
    for _ in 0..reads {
        let Some(frame) = body.frame().await else { return Some((head.status.as_u16(), bytes.freeze())) };
        if let Ok(data) = frame.ok()?.into_data() {
            bytes.extend_from_slice(&data);
        }
        sleep(READ_PAUSE).await;
    }
    None
}
