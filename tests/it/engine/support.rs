//! Engines with a fake network whose masks follow a script, or wait for orders of the test.

use crate::support::segmenter::{FakeSegmenter, Masks, mask};
use backdrop::engine::{Engine, EngineConfig, EngineError, Lane, Segmented, SegmenterFactory, Slot, Tenant};
use backdrop::image::{Buffer, Frame, RawMask, Size};
use backdrop::recipe::Network;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The side of the masks.
pub(crate) const GRID: u32 = 4;

/// The number of networks that were created and dropped.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) made: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
}

/// Counts a network as dropped.
struct CountWhenDropped(Arc<Counts>);

impl Drop for CountWhenDropped {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// A mask that passes the self-test.
fn gradient() -> RawMask {
    mask(Size::new(GRID, GRID), |x, y| (y * GRID + x) as f32 / (GRID * GRID) as f32)
}

/// The mask of picture `id`, different for each.
pub(crate) fn mask_of(id: u8) -> RawMask {
    mask(Size::new(GRID, GRID), |_, _| f32::from(id) / 255.0)
}

pub(crate) fn masks_of(ids: &[u8]) -> Vec<RawMask> {
    ids.iter().map(|id| mask_of(*id)).collect()
}

pub(crate) fn picture(id: u8) -> Frame {
    Frame::new(Size::new(1, 1), Buffer::from(vec![id, 0, 0, 255]))
}

pub(crate) fn factory(
    counts: &Arc<Counts>,
    script: impl Fn(&[u8]) -> Masks + Send + Sync + 'static,
) -> SegmenterFactory {
    let (counts, script) = (Arc::clone(counts), Arc::new(script));
    Arc::new(move || {
        counts.made.fetch_add(1, Ordering::SeqCst);
        let (script, alive) = (Arc::clone(&script), CountWhenDropped(Arc::clone(&counts)));
        Ok(FakeSegmenter::boxed("fake-1", move |frames| {
            let _ = &alive;
            // Pictures of tests are single pixels; larger ones belong to the self-test.
            if frames[0].size() != Size::new(1, 1) {
                return Ok(frames.iter().map(|_| gradient()).collect());
            }
            let ids: Vec<u8> = frames.iter().map(|frame| frame.pixels()[0]).collect();
            script(&ids)
        }))
    })
}

pub(crate) fn config(max_requests_in_flight: usize, max_batch: usize) -> EngineConfig {
    EngineConfig { max_requests_in_flight, max_batch, cpu_workers: 2, ..EngineConfig::default() }
}

/// An engine whose network follows `script`.
pub(crate) fn engine(
    config: &EngineConfig,
    script: impl Fn(&[u8]) -> Masks + Send + Sync + 'static,
) -> (Engine, Arc<Counts>) {
    let counts = Arc::default();
    (Engine::start(config, factory(&counts, script)), counts)
}

/// How the device answers the batch that it has.
pub(crate) type Order = Box<dyn FnOnce(&[u8]) -> Masks + Send>;

/// An engine whose device reports every batch and waits for an order how to answer it.
pub(crate) struct Gated {
    pub(crate) engine: Engine,
    pub(crate) counts: Arc<Counts>,
    entered: UnboundedReceiver<Vec<u8>>,
    orders: mpsc::Sender<Order>,
    /// The answer to the picture of [`Self::busy`]; dropped, its ticket would be cancelled.
    first: Option<Pending<Result<Segmented, EngineError>>>,
}

impl Gated {
    pub(crate) fn start(config: &EngineConfig) -> Self {
        let (report, entered) = unbounded_channel();
        let (orders, inbox) = mpsc::channel::<Order>();
        let inbox = Mutex::new(inbox);
        let (engine, counts) = engine(config, move |ids| {
            report.send(ids.to_vec()).expect("the receiver is open");
            let order = inbox.lock().unwrap().recv().expect("the sender is open");
            order(ids)
        });
        Self { engine, counts, entered, orders, first: None }
    }

    /// Starts an engine whose device has picture 0.
    pub(crate) async fn busy(config: &EngineConfig) -> Self {
        let mut gated = Self::start(config);
        gated.first = Some(queued(&gated.engine, 0, Lane::Interactive).await);
        assert_eq!(gated.batch().await, [0]);
        gated
    }

    /// The next batch that reaches the device.
    pub(crate) async fn batch(&mut self) -> Vec<u8> {
        tokio::time::timeout(Duration::from_secs(60), self.entered.recv())
            .await
            .expect("a batch reaches the device")
            .unwrap()
    }

    /// Lets the device answer its batch with the masks of the pictures.
    pub(crate) fn answer(&self) {
        self.order(|ids| Ok(masks_of(ids)));
    }

    pub(crate) fn order(&self, order: impl FnOnce(&[u8]) -> Masks + Send + 'static) {
        self.orders.send(Box::new(order)).expect("the device runs");
    }

    /// Whether no batch has reached the device.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.entered.try_recv().is_err()
    }
}

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls `future` once, up to its first wait.
pub(crate) async fn begun<T>(future: impl Future<Output = T> + Send + 'static) -> Pending<T> {
    let mut future: Pending<T> = Box::pin(future);
    let pending = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await;
    assert!(pending, "the future was ready at once");
    future
}

/// A slot of the smallest size.
pub(crate) async fn slot(engine: &Engine) -> Slot {
    engine.admit(Tenant::default(), 1, soon()).await.expect("a slot")
}

/// Queues picture `id`.
pub(crate) async fn queued(engine: &Engine, id: u8, lane: Lane) -> Pending<Result<Segmented, EngineError>> {
    let slot = slot(engine).await;
    queued_in(engine, slot, id, lane, soon()).await
}

/// Queues pictures `ids` as one ticket.
pub(crate) async fn queued_together(
    engine: &Engine,
    ids: &[u8],
    lane: Lane,
) -> Pending<Result<Segmented, EngineError>> {
    let slot = slot(engine).await;
    let (engine, frames) = (engine.clone(), ids.iter().copied().map(picture).collect());
    begun(async move { engine.segment(&Network::default(), &slot, frames, lane, soon()).await }).await
}

pub(crate) async fn queued_in(
    engine: &Engine,
    slot: Slot,
    id: u8,
    lane: Lane,
    deadline: Instant,
) -> Pending<Result<Segmented, EngineError>> {
    let engine = engine.clone();
    begun(async move { engine.segment(&Network::default(), &slot, vec![picture(id)], lane, deadline).await }).await
}

/// Checks that the answer is picture `id` with its own mask.
pub(crate) fn assert_answers(answer: Result<Segmented, EngineError>, id: u8) {
    assert_answers_all(answer, &[id]);
}

/// Checks that the answer is pictures `ids`, each with its own mask.
pub(crate) fn assert_answers_all(answer: Result<Segmented, EngineError>, ids: &[u8]) {
    let Segmented { frames, masks, .. } = answer.expect("an answer");
    assert_eq!(frames.iter().map(|frame| frame.pixels()[0]).collect::<Vec<_>>(), ids);
    assert_eq!(masks, masks_of(ids));
}
