//! A network that does what a test tells it, and an engine around it.

use backdrop::engine::{Engine, EngineConfig, EngineError, Lane, Segmented, SegmenterFactory, Slot};
use backdrop::image::{Buffer, Frame, RawMask, Size};
use backdrop::model::{SegmentError, Segmenter};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The side of the fake network's grid.
pub(crate) const GRID: u32 = 4;

/// What a test's pictures are answered with; they are known by the red of their first pixel.
pub(crate) type Script = dyn Fn(&[u8]) -> Result<Vec<RawMask>, SegmentError> + Send + Sync;

/// How many networks were made, and how many are still there.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) made: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
}

struct Fake {
    script: Arc<Script>,
    counts: Arc<Counts>,
}

impl Segmenter for Fake {
    fn model(&self) -> &str {
        "fake-1"
    }

    fn device(&self) -> String {
        "none".to_owned()
    }

    fn segment(&mut self, frames: &[&Frame]) -> Result<Vec<RawMask>, SegmentError> {
        // A test's pictures are single pixels; what is larger is the self-test.
        if frames[0].size() != Size::new(1, 1) {
            return Ok(frames.iter().map(|_| gradient()).collect());
        }
        let ids: Vec<u8> = frames.iter().map(|frame| frame.pixels()[0]).collect();
        (self.script)(&ids)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.counts.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// A mask that the self-test believes.
pub(crate) fn gradient() -> RawMask {
    let area = GRID * GRID;
    mask((0..area).map(|at| at as f32 / area as f32).collect())
}

/// The mask of picture `id`: tells whose it is.
pub(crate) fn mask_of(id: u8) -> RawMask {
    mask(vec![f32::from(id) / 255.0; (GRID * GRID) as usize])
}

fn mask(values: Vec<f32>) -> RawMask {
    RawMask::new(Size::new(GRID, GRID), values).expect("probabilities")
}

pub(crate) fn masks_of(ids: &[u8]) -> Vec<RawMask> {
    ids.iter().map(|id| mask_of(*id)).collect()
}

pub(crate) fn picture(id: u8) -> Frame {
    Frame::new(Size::new(1, 1), Buffer::from(vec![id, 0, 0, 255]))
}

pub(crate) fn factory(
    counts: &Arc<Counts>,
    script: impl Fn(&[u8]) -> Result<Vec<RawMask>, SegmentError> + Send + Sync + 'static,
) -> SegmenterFactory {
    let (counts, script) = (Arc::clone(counts), Arc::new(script) as Arc<Script>);
    Arc::new(move || {
        counts.made.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Fake { script: Arc::clone(&script), counts: Arc::clone(&counts) }))
    })
}

pub(crate) fn config(max_requests_in_flight: usize, max_batch: usize) -> EngineConfig {
    EngineConfig { max_requests_in_flight, max_batch, cpu_workers: 2, ..EngineConfig::default() }
}

/// An engine whose network follows `script`.
pub(crate) fn engine(
    config: &EngineConfig,
    script: impl Fn(&[u8]) -> Result<Vec<RawMask>, SegmentError> + Send + Sync + 'static,
) -> (Engine, Arc<Counts>) {
    let counts = Arc::default();
    (Engine::start(config, factory(&counts, script)), counts)
}

/// What the device is told to do with the batch it holds.
pub(crate) type Order = Box<dyn FnOnce(&[u8]) -> Result<Vec<RawMask>, SegmentError> + Send>;

/// An engine whose device stops in every batch, reports it, and waits for an order.
pub(crate) struct Gated {
    pub(crate) engine: Engine,
    pub(crate) counts: Arc<Counts>,
    entered: UnboundedReceiver<Vec<u8>>,
    orders: mpsc::Sender<Order>,
}

impl Gated {
    pub(crate) fn start(config: &EngineConfig) -> Self {
        let (report, entered) = unbounded_channel();
        let (orders, inbox) = mpsc::channel::<Order>();
        let inbox = Mutex::new(inbox);
        let (engine, counts) = engine(config, move |ids| {
            report.send(ids.to_vec()).expect("the test listens");
            let order = inbox.lock().unwrap().recv().expect("the test gives orders");
            order(ids)
        });
        Self { engine, counts, entered, orders }
    }

    /// The next batch that reaches the device.
    pub(crate) async fn batch(&mut self) -> Vec<u8> {
        tokio::time::timeout(Duration::from_secs(20), self.entered.recv()).await.expect("a batch in time").unwrap()
    }

    /// Has the device answer the batch it holds.
    pub(crate) fn answer(&self) {
        self.order(|ids| Ok(masks_of(ids)));
    }

    pub(crate) fn order(&self, order: impl FnOnce(&[u8]) -> Result<Vec<RawMask>, SegmentError> + Send + 'static) {
        self.orders.send(Box::new(order)).expect("the device listens");
    }

    /// No batch is at the device and none comes.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.entered.try_recv().is_err()
    }
}

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls `future` once: whatever it does before it first waits has then happened.
pub(crate) async fn begun<T>(future: impl Future<Output = T> + Send + 'static) -> Pending<T> {
    let mut future: Pending<T> = Box::pin(future);
    let pending = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await;
    assert!(pending, "it was done at once");
    future
}

/// Picture `id` in the engine's queue.
pub(crate) async fn queued(engine: &Engine, id: u8, lane: Lane) -> Pending<Result<Segmented, EngineError>> {
    let slot = engine.admit().expect("a free slot");
    queued_in(engine, slot, id, lane, soon()).await
}

/// Pictures `ids` in the engine's queue, as one ticket.
pub(crate) async fn queued_together(
    engine: &Engine,
    ids: &[u8],
    lane: Lane,
) -> Pending<Result<Segmented, EngineError>> {
    let slot = engine.admit().expect("a free slot");
    let (engine, frames) = (engine.clone(), ids.iter().copied().map(picture).collect());
    begun(async move { engine.segment(&slot, frames, lane, soon()).await }).await
}

pub(crate) async fn queued_in(
    engine: &Engine,
    slot: Slot,
    id: u8,
    lane: Lane,
    deadline: Instant,
) -> Pending<Result<Segmented, EngineError>> {
    let engine = engine.clone();
    begun(async move { engine.segment(&slot, vec![picture(id)], lane, deadline).await }).await
}

/// What came back is picture `id` with the mask of picture `id`.
pub(crate) fn assert_answers(answer: Result<Segmented, EngineError>, id: u8) {
    assert_answers_all(answer, &[id]);
}

/// What came back are pictures `ids`, each with its own mask.
pub(crate) fn assert_answers_all(answer: Result<Segmented, EngineError>, ids: &[u8]) {
    let Segmented { frames, masks, .. } = answer.expect("an answer");
    assert_eq!(frames.iter().map(|frame| frame.pixels()[0]).collect::<Vec<_>>(), ids);
    assert_eq!(masks, masks_of(ids));
}
