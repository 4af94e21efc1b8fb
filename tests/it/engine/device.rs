//! Failures of the device: errors, panics, failed loads; idle unloading.

use crate::engine::support::{
    Counts, GRID, Gated, assert_answers, assert_answers_all, config, engine, factory, masks_of, picture, queued,
    queued_together, slot, soon,
};
use crate::support::segmenter::FakeSegmenter;
use backdrop::engine::{Engine, EngineConfig, EngineError, EngineState, Lane, Segmented, Tenant, WeightsInfo};
use backdrop::model::SegmentError;
use backdrop::recipe::Network;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

async fn segment(engine: &Engine, id: u8) -> Result<Segmented, EngineError> {
    let slot = engine.admit(Tenant::default(), 1, soon()).await?;
    engine.segment(&Network::default(), &slot, vec![picture(id)], Lane::Interactive, soon()).await
}

async fn state(engine: &Engine, wanted: EngineState) {
    let mut states = engine.state();
    let reached = tokio::time::timeout(Duration::from_secs(60), states.wait_for(|state| *state == wanted)).await;
    assert!(reached.is_ok(), "it never became {wanted:?}");
}

#[tokio::test]
async fn each_picture_of_a_failed_batch_is_retried_once_and_has_its_own_error() {
    let mut gated = Gated::busy(&config(16, 8)).await;
    let bad = queued(&gated.engine, 1, Lane::Interactive).await;
    let good = queued(&gated.engine, 2, Lane::Interactive).await;
    gated.answer();
    assert_eq!(gated.batch().await, [1, 2]);
    gated.order(|_| Err(SegmentError::Device("together".into())));
    assert_eq!(gated.batch().await, [1]);
    gated.order(|_| Err(SegmentError::Device("alone".into())));
    assert_eq!(gated.batch().await, [2]);
    gated.answer();
    assert_eq!(bad.await.unwrap_err(), EngineError::Device("alone".into()));
    assert_answers(good.await, 2);
    assert!(gated.is_quiet());
    assert_eq!(gated.counts.made.load(Ordering::SeqCst), 1, "the network was replaced");
}

#[tokio::test]
async fn pictures_of_one_ticket_are_retried_together_and_fail_together() {
    let mut gated = Gated::busy(&config(16, 8)).await;
    let bad = queued_together(&gated.engine, &[1, 2], Lane::Interactive).await;
    let good = queued_together(&gated.engine, &[3, 4], Lane::Interactive).await;
    gated.answer();
    assert_eq!(gated.batch().await, [1, 2, 3, 4]);
    gated.order(|_| Err(SegmentError::Device("together".into())));
    assert_eq!(gated.batch().await, [1, 2]);
    gated.order(|ids| Ok(masks_of(&ids[..1]))); // one mask for two pictures
    assert_eq!(gated.batch().await, [3, 4]);
    gated.answer();
    assert!(matches!(bad.await, Err(EngineError::Device(_))));
    assert_answers_all(good.await, &[3, 4]);
}

#[tokio::test]
async fn a_picture_that_always_panics_fails_alone() {
    let mut gated = Gated::busy(&config(16, 8)).await;
    let mut answers = Vec::new();
    for id in [1, 13, 3] {
        answers.push(queued(&gated.engine, id, Lane::Interactive).await);
    }
    gated.answer();
    assert_eq!(gated.batch().await, [1, 13, 3]);
    gated.order(|_| panic!("poison"));
    assert_eq!(gated.batch().await, [1]);
    gated.answer();
    assert_eq!(gated.batch().await, [13]);
    gated.order(|_| panic!("poison"));
    assert_eq!(gated.batch().await, [3]);
    gated.answer();
    let [one, thirteen, three] = answers.try_into().ok().unwrap();
    assert_answers(one.await, 1);
    assert!(matches!(thirteen.await, Err(EngineError::Device(reason)) if reason.contains("poison")));
    assert_answers(three.await, 3);
    let (made, dropped) = (gated.counts.made.load(Ordering::SeqCst), gated.counts.dropped.load(Ordering::SeqCst));
    assert!(made >= 2 && made == dropped + 1, "a network that panicked is not used again");
}

#[tokio::test]
async fn an_empty_mask_is_valid_after_the_self_test() {
    let (engine, _) = engine(&config(16, 8), |ids| Ok(masks_of(ids)));
    assert_answers(segment(&engine, 0).await, 0); // mask_of(0) is zero everywhere
}

#[tokio::test]
async fn requests_wait_for_the_network_to_load() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let inner = factory(&Arc::default(), |ids| Ok(masks_of(ids)));
    let engine = Engine::start(
        &config(8, 8),
        Arc::new(move || {
            gate.lock().unwrap().recv().unwrap();
            inner()
        }),
    );
    assert_eq!(*engine.state().borrow(), EngineState::Loading);
    assert_eq!(engine.model(), "");
    engine.announce("fake-0", 9, WeightsInfo::default());
    assert_eq!((engine.model(), engine.side()), ("fake-0".to_owned(), Some(9)), "announced before it is loaded");
    let waits = queued(&engine, 1, Lane::Interactive).await;
    let slot = slot(&engine).await;
    let late = engine
        .segment(&Network::default(), &slot, vec![picture(2)], Lane::Interactive, std::time::Instant::now())
        .await;
    assert_eq!(late.unwrap_err(), EngineError::DeadlineExceeded);
    open.send(()).unwrap();
    assert_answers(waits.await, 1);
    assert_eq!(*engine.state().borrow(), EngineState::Ready);
    assert_eq!((engine.model(), engine.device()), ("fake-1".to_owned(), "none".to_owned()));
    assert_eq!(engine.side(), Some(GRID), "the side of the loaded network");
}

#[tokio::test]
async fn a_failed_load_is_reported_and_retried_with_a_later_request() {
    let tries = Arc::new(AtomicUsize::new(0));
    let inner = factory(&Arc::default(), |ids| Ok(masks_of(ids)));
    let engine = Engine::start(
        &config(8, 8),
        Arc::new({
            let tries = Arc::clone(&tries);
            move || match tries.fetch_add(1, Ordering::SeqCst) {
                0 => Err(SegmentError::Device("no adapter".into())),
                1 => panic!("no weights"),
                2 => Ok(FakeSegmenter::boxed("constant", |frames| Ok(masks_of(&vec![9; frames.len()])))),
                _ => inner(),
            }
        }),
    );
    assert!(matches!(engine.ready().await, Err(EngineError::Failed(_))));
    for (tried, expected) in [(1, "no adapter"), (2, "no weights"), (3, "the self-test failed")] {
        for _ in 0..2 {
            let Err(EngineError::Failed(reason)) = segment(&engine, 1).await else { panic!("try {tried} serves") };
            assert!(reason.contains(expected), "{reason}");
        }
        assert_eq!(tries.load(Ordering::SeqCst), tried, "it was retried at once");
        assert_eq!(*engine.state().borrow(), EngineState::Failed);
        tokio::time::sleep(Duration::from_millis(1050)).await;
    }
    assert_answers(segment(&engine, 2).await, 2);
    assert_eq!(*engine.state().borrow(), EngineState::Ready);
}

#[tokio::test]
async fn an_idle_network_is_unloaded_and_loaded_again_by_the_next_request() {
    let counts = Arc::<Counts>::default();
    let config = EngineConfig { idle_unload: Some(Duration::from_millis(30)), ..config(8, 8) };
    let engine = Engine::start(&config, factory(&counts, |ids| Ok(masks_of(ids))));
    let slot = slot(&engine).await;
    assert_answers(engine.segment(&Network::default(), &slot, vec![picture(1)], Lane::Interactive, soon()).await, 1);
    drop(engine.buffers().take(1000));
    assert_eq!(engine.buffers().kept_bytes(), 1000);
    let dropped = counts.dropped.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(counts.dropped.load(Ordering::SeqCst), dropped, "a network in use was unloaded");
    drop(slot);
    state(&engine, EngineState::Unloaded).await;
    assert_eq!(counts.made.load(Ordering::SeqCst), counts.dropped.load(Ordering::SeqCst));
    assert_eq!(engine.buffers().kept_bytes(), 0);
    assert!(EngineState::Unloaded.is_serving());

    let made = counts.made.load(Ordering::SeqCst);
    assert_answers(segment(&engine, 2).await, 2);
    assert!(counts.made.load(Ordering::SeqCst) > made);
}
