//! The body of a reply as hyper takes it: its pieces are counted until they are written, and it ends behind the last.

use super::connection::Busy;
use super::drain::UnderWay;
use super::response::ReplyBody;
use super::write_progress::{Piece, Progress};
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A body that is handed over at once with its end, one HTTP/2 frame: not worth a frame of its own for its end.
const SMALL: u64 = 16 * 1024;

/// The body of one reply.
#[derive(Debug)]
pub(super) struct Delivery {
    body: ReplyBody,
    progress: Arc<Progress>,
    small: bool,
    ended: bool,
    /// The connection is in use until all of it was written.
    _busy: Busy,
    /// So is the request, where the shutdown waits for it.
    _under_way: Option<UnderWay>,
}

impl Delivery {
    /// Within the task of its stream.
    pub(super) fn new(body: ReplyBody, busy: Busy, under_way: Option<UnderWay>) -> Self {
        let small = body.size_hint().upper().is_some_and(|most| most <= SMALL);
        Self { body, progress: Progress::of_stream(), small, ended: false, _busy: busy, _under_way: under_way }
    }
}

impl Body for Delivery {
    type Data = Piece;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, Infallible>>> {
        let this = self.get_mut();
        if !this.ended {
            if let Some(Ok(frame)) = ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                return Poll::Ready(Some(Ok(frame.map_data(|bytes| this.progress.piece(bytes)))));
            }
            this.ended = true;
        }
        // hyper ends the task of an HTTP/2 stream with the body; what is not written by then could not be reset.
        this.progress.poll_written(cx).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && (self.small || self.progress.is_written())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
