//! The body of a reply for hyper: counts its pieces until they are written, and ends after the last is.

use super::connection::RequestGuard;
use super::drain::InFlightRequest;
use super::reply::ReplyBody;
use super::write_progress::{Progress, TrackedChunk};
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Up to this size a body is sent with its end in one HTTP/2 frame.
const SMALL: u64 = 16 * 1024;

/// The body of one reply.
#[derive(Debug)]
pub(super) struct TrackedBody {
    body: ReplyBody,
    progress: Arc<Progress>,
    small: bool,
    ended: bool,
    /// The connection is in use until all of the body is written.
    _busy: RequestGuard,
    /// The request is in flight until then, for the graceful shutdown.
    _in_flight: Option<InFlightRequest>,
}

impl TrackedBody {
    /// To be called within the task of its HTTP/2 stream.
    pub(super) fn new(body: ReplyBody, busy: RequestGuard, in_flight: Option<InFlightRequest>) -> Self {
        let small = body.size_hint().upper().is_some_and(|most| most <= SMALL);
        Self { body, progress: Progress::of_stream(), small, ended: false, _busy: busy, _in_flight: in_flight }
    }
}

impl Body for TrackedBody {
    type Data = TrackedChunk;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<TrackedChunk>, Infallible>>> {
        let this = self.get_mut();
        if !this.ended {
            if let Some(Ok(frame)) = ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                return Poll::Ready(Some(Ok(frame.map_data(|bytes| this.progress.piece(bytes)))));
            }
            this.ended = true;
        }
        // hyper ends the task of an HTTP/2 stream with the body; bytes unwritten by then could not be reset.
        this.progress.poll_written(cx).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && (self.small || self.progress.is_written())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
