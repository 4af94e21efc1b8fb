//! The engine's queue: admission, batching, lanes, deadlines, memory, shutdown.

use crate::engine::support::{
    Gated, assert_answers, assert_answers_all, begun, config, engine, masks_of, queued, queued_in, queued_together,
    slot, soon,
};
use backdrop::engine::{Engine, EngineConfig, EngineError, EngineState, Lane, Tenant};
use backdrop::model::SegmentError;
use std::time::{Duration, Instant};

#[tokio::test]
async fn pictures_that_arrive_while_the_device_is_busy_form_one_batch() {
    let mut gated = Gated::busy(&config(64, 8)).await;
    let mut later = Vec::new();
    for id in 1..=10 {
        later.push((id, queued(&gated.engine, id, Lane::Interactive).await));
    }
    gated.answer();
    assert_eq!(gated.batch().await, [1, 2, 3, 4, 5, 6, 7, 8], "no more than max_batch");
    gated.answer();
    assert_eq!(gated.batch().await, [9, 10]);
    gated.answer();
    for (id, answer) in later {
        assert_answers(answer.await, id);
    }
}

#[tokio::test]
async fn a_ticket_larger_than_a_batch_runs_alone_in_several_batches() {
    let mut gated = Gated::busy(&config(64, 2)).await;
    let small = queued(&gated.engine, 1, Lane::Interactive).await;
    let large = queued_together(&gated.engine, &[2, 3, 4, 5, 6], Lane::Interactive).await;
    let last = queued(&gated.engine, 7, Lane::Interactive).await;
    gated.answer();
    assert_eq!(gated.batch().await, [1], "the large one does not fit beside it");
    gated.answer();
    for run in [&[2, 3][..], &[4, 5], &[6]] {
        assert_eq!(gated.batch().await, run, "no batch is larger than max_batch");
        gated.answer();
    }
    assert_eq!(gated.batch().await, [7]);
    gated.answer();
    assert_answers(small.await, 1);
    assert_answers_all(large.await, &[2, 3, 4, 5, 6]);
    assert_answers(last.await, 7);
}

#[tokio::test]
async fn a_slot_is_held_until_its_ticket_is_answered() {
    let mut gated = Gated::start(&config(1, 1));
    let all = |engine: Engine| async move { engine.admit(Tenant::default(), 64_000_000, soon()).await };
    let slot = all(gated.engine.clone()).await.unwrap();
    let answer = queued_in(&gated.engine, slot, 1, Lane::Interactive, soon()).await;
    assert_eq!(gated.batch().await, [1]);
    drop(answer); // cancelled while the device works
    let waiting = begun(all(gated.engine.clone())).await;
    gated.answer();
    waiting.await.expect("the slot is released");
}

#[tokio::test]
async fn a_cancelled_ticket_never_reaches_the_device() {
    let mut gated = Gated::busy(&config(8, 1)).await;
    let cancelled = queued(&gated.engine, 1, Lane::Interactive).await;
    let kept = queued(&gated.engine, 2, Lane::Interactive).await;
    drop(cancelled);
    gated.answer();
    assert_eq!(gated.batch().await, [2]);
    gated.answer();
    assert_answers(kept.await, 2);
}

#[tokio::test]
async fn waiting_for_the_device_ends_at_the_deadline() {
    let gated = Gated::busy(&config(8, 1)).await;
    let slot = slot(&gated.engine).await;
    let deadline = Instant::now() + Duration::from_millis(20);
    let late = queued_in(&gated.engine, slot, 1, Lane::Interactive, deadline).await;
    assert_eq!(late.await.unwrap_err(), EngineError::DeadlineExceeded); // while the device is still held
    gated.answer();
}

#[tokio::test]
async fn bulk_fills_the_places_that_interactive_leaves() {
    let mut gated = Gated::busy(&config(64, 4)).await;
    let mut answers = Vec::new();
    let (bulk, interactive) = (Lane::Bulk, Lane::Interactive);
    for (id, lane) in [(101, bulk), (102, bulk), (1, interactive), (2, interactive), (103, bulk), (3, interactive)] {
        answers.push(queued(&gated.engine, id, lane).await);
    }
    gated.answer();
    assert_eq!(gated.batch().await, [1, 2, 3, 101]);
    gated.answer();
    assert_eq!(gated.batch().await, [102, 103]);
    gated.answer();
    for answer in answers {
        answer.await.unwrap();
    }
}

#[tokio::test]
async fn a_small_picture_waits_neither_for_the_memory_nor_for_the_workers_of_large_ones() {
    let [large, small] = ["acme", "other"].map(Tenant::of);
    let stalled_after = Duration::ZERO;
    let config = EngineConfig { max_megapixels_in_flight: 64, cpu_workers: 1, stalled_after, ..config(16, 8) };
    let (engine, _) = engine(&config, |ids| Ok(masks_of(ids)));
    let slot = engine.admit(large, 67_000_000, soon()).await.unwrap();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let working = {
        let engine = engine.clone();
        let both = async move {
            tokio::join!(engine.cpu_in(&slot, move || gate.recv().unwrap()), engine.cpu_in(&slot, || ()))
        };
        begun(both).await
    };
    // One large picture at a time.
    let second = {
        let engine = engine.clone();
        begun(async move { engine.admit(large, 67_000_000, soon()).await }).await
    };
    let slot = engine.admit(small, 1_000_000, soon()).await.unwrap();
    assert_eq!(engine.cpu_in(&slot, || 7).await, Ok(7));
    assert!(engine.is_stalled(), "work on a large picture waits");
    open.send(()).unwrap();
    assert_eq!(working.await, (Ok(()), Ok(())));
    assert!(!engine.is_stalled());
    second.await.expect("the first has ended");
}

#[tokio::test]
async fn shutdown_refuses_new_requests_and_finishes_those_in_flight() {
    let mut gated = Gated::start(&config(8, 1));
    let first = queued(&gated.engine, 1, Lane::Interactive).await;
    let second = queued(&gated.engine, 2, Lane::Bulk).await;
    let early = slot(&gated.engine).await; // admitted, not yet in the queue
    assert_eq!(gated.batch().await, [1]);

    let engine = gated.engine.clone();
    let shutdown = begun(async move { engine.shutdown().await }).await;
    assert_eq!(*gated.engine.state().borrow(), EngineState::Draining);
    assert_eq!(gated.engine.admit(Tenant::default(), 1, soon()).await.unwrap_err(), EngineError::Stopped);
    let third = queued_in(&gated.engine, early, 3, Lane::Interactive, soon()).await;

    gated.answer();
    assert_answers(first.await, 1);
    for (id, answer) in [(3, third), (2, second)] {
        assert_eq!(gated.batch().await, [id]);
        gated.answer();
        assert_answers(answer.await, id);
    }
    shutdown.await;
    assert!(!gated.engine.is_alive());
    assert_eq!(*gated.engine.state().borrow(), EngineState::Draining);
    assert_eq!(gated.engine.admit(Tenant::default(), 1, soon()).await.unwrap_err(), EngineError::Stopped);
    assert_eq!(gated.counts.dropped.load(std::sync::atomic::Ordering::SeqCst), 1, "the network was dropped");
}

#[tokio::test]
async fn dropping_the_engine_finishes_what_is_queued() {
    let mut gated = Gated::start(&config(8, 1));
    let answer = queued(&gated.engine, 1, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [1]);
    let last = queued(&gated.engine, 2, Lane::Interactive).await;
    // The futures hold the engine only while they queue; only the tickets remain.
    drop(std::mem::replace(&mut gated.engine, engine(&config(1, 1), |_| Err(SegmentError::Device("none".into()))).0));
    gated.answer();
    assert_answers(answer.await, 1);
    assert_eq!(gated.batch().await, [2]);
    gated.answer();
    assert_answers(last.await, 2);
}
