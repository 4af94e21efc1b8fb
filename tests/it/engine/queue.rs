//! The engine's queue: admission, batching, lanes, deadlines, memory, shutdown.

use crate::engine::support::{
    Gated, assert_answers, assert_answers_all, begun, config, engine, masks_of, picture, queued, queued_in,
    queued_together, slot, soon,
};
use backdrop::engine::{Engine, EngineConfig, EngineError, EngineState, Lane, Tenant};
use backdrop::model::SegmentError;
use backdrop::recipe::Network;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[tokio::test]
async fn an_idle_engine_answers_a_single_picture_at_once() {
    let (engine, _) = engine(&config(4, 8), |ids| Ok(masks_of(ids)));
    let slot = slot(&engine).await;
    assert_answers(engine.segment(&Network::default(), &slot, vec![picture(7)], Lane::Interactive, soon()).await, 7);
}

#[tokio::test]
async fn pictures_that_arrive_while_the_device_is_busy_form_one_batch() {
    let mut gated = Gated::start(&config(64, 8));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
    let mut later = Vec::new();
    for id in 1..=10 {
        later.push((id, queued(&gated.engine, id, Lane::Interactive).await));
    }
    gated.answer();
    assert_answers(first.await, 0);
    assert_eq!(gated.batch().await, [1, 2, 3, 4, 5, 6, 7, 8], "no more than max_batch");
    gated.answer();
    assert_eq!(gated.batch().await, [9, 10]);
    gated.answer();
    for (id, answer) in later {
        assert_answers(answer.await, id);
    }
}

#[tokio::test]
async fn pictures_of_one_ticket_are_never_split() {
    let mut gated = Gated::start(&config(64, 4));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
    let three = queued_together(&gated.engine, &[1, 2, 3], Lane::Interactive).await;
    let two = queued_together(&gated.engine, &[4, 5], Lane::Interactive).await;
    let one = queued(&gated.engine, 6, Lane::Interactive).await;
    let bulk = queued_together(&gated.engine, &[7, 8], Lane::Bulk).await;
    gated.answer();
    assert_answers(first.await, 0);
    assert_eq!(gated.batch().await, [1, 2, 3], "one place is free, two are needed, and the order is kept");
    gated.answer();
    assert_eq!(gated.batch().await, [4, 5, 6]);
    gated.answer();
    assert_eq!(gated.batch().await, [7, 8]);
    gated.answer();
    assert_answers_all(three.await, &[1, 2, 3]);
    assert_answers_all(two.await, &[4, 5]);
    assert_answers(one.await, 6);
    assert_answers_all(bulk.await, &[7, 8]);
}

#[tokio::test]
async fn a_ticket_larger_than_a_batch_runs_alone_in_several_batches() {
    let mut gated = Gated::start(&config(64, 2));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
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
    assert_answers(first.await, 0);
    assert_answers(small.await, 1);
    assert_answers_all(large.await, &[2, 3, 4, 5, 6]);
    assert_answers(last.await, 7);
}

#[tokio::test]
async fn two_pictures_of_one_ticket_run_in_batches_of_one() {
    let (engine, _) = engine(&config(4, 1), |ids| {
        assert_eq!(ids.len(), 1);
        Ok(masks_of(ids))
    });
    let slot = slot(&engine).await;
    let both = vec![picture(7), picture(8)];
    assert_answers_all(engine.segment(&Network::default(), &slot, both, Lane::Interactive, soon()).await, &[7, 8]);
    assert_answers_all(engine.segment(&Network::default(), &slot, Vec::new(), Lane::Interactive, soon()).await, &[]);
}

#[tokio::test]
async fn a_full_engine_refuses_at_once_with_retry_after() {
    let (engine, _) = engine(&config(2, 1), |ids| Ok(masks_of(ids)));
    let place = || engine.admission().place("acme");
    let (first, _second) = (place().unwrap(), place().unwrap());
    let Err(EngineError::QueueFull { retry_after }) = place() else { panic!("it was admitted") };
    assert!((Duration::from_secs(1)..=Duration::from_secs(60)).contains(&retry_after));
    assert_eq!(retry_after.subsec_nanos(), 0, "the header has whole seconds");
    drop(first);
    assert!(place().is_ok());
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
    let mut gated = Gated::start(&config(8, 1));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
    let cancelled = queued(&gated.engine, 1, Lane::Interactive).await;
    let kept = queued(&gated.engine, 2, Lane::Interactive).await;
    drop(cancelled);
    gated.answer();
    assert_answers(first.await, 0);
    assert_eq!(gated.batch().await, [2]);
    gated.answer();
    assert_answers(kept.await, 2);
}

#[tokio::test]
async fn an_expired_ticket_is_answered_without_work() {
    let mut gated = Gated::start(&config(8, 1));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
    let slot = slot(&gated.engine).await;
    let expired =
        gated.engine.segment(&Network::default(), &slot, vec![picture(1)], Lane::Interactive, Instant::now()).await;
    assert_eq!(expired.unwrap_err(), EngineError::DeadlineExceeded);
    gated.answer();
    assert_answers(first.await, 0);
    let last = queued(&gated.engine, 2, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [2]);
    gated.answer();
    assert_answers(last.await, 2);
}

#[tokio::test]
async fn waiting_for_the_device_ends_at_the_deadline() {
    let mut gated = Gated::start(&config(8, 1));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
    let slot = slot(&gated.engine).await;
    let deadline = Instant::now() + Duration::from_millis(20);
    let late = queued_in(&gated.engine, slot, 1, Lane::Interactive, deadline).await;
    assert_eq!(late.await.unwrap_err(), EngineError::DeadlineExceeded); // while the device is still held
    gated.answer();
    assert_answers(first.await, 0);
}

#[tokio::test]
async fn bulk_fills_the_places_that_interactive_leaves() {
    let mut gated = Gated::start(&config(64, 4));
    let mut answers = vec![queued(&gated.engine, 0, Lane::Interactive).await];
    assert_eq!(gated.batch().await, [0]);
    for (id, lane) in [(101, Lane::Bulk), (102, Lane::Bulk), (1, Lane::Interactive), (2, Lane::Interactive)] {
        answers.push(queued(&gated.engine, id, lane).await);
    }
    for (id, lane) in [(103, Lane::Bulk), (3, Lane::Interactive)] {
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
async fn bulk_that_waited_more_than_a_second_precedes_interactive() {
    let mut gated = Gated::start(&config(64, 1));
    let mut answers = vec![queued(&gated.engine, 0, Lane::Interactive).await];
    assert_eq!(gated.batch().await, [0]);
    answers.push(queued(&gated.engine, 100, Lane::Bulk).await);
    // The lane uses the system clock: this second has to pass.
    tokio::time::sleep(Duration::from_millis(1050)).await;
    answers.push(queued(&gated.engine, 1, Lane::Interactive).await);
    gated.answer();
    assert_eq!(gated.batch().await, [100]);
    gated.answer();
    assert_eq!(gated.batch().await, [1]);
    gated.answer();
    for answer in answers {
        answer.await.unwrap();
    }
}

#[tokio::test]
async fn accounts_take_turns_for_megapixels_and_for_workers() {
    let [many, one] = ["acme", "other"].map(Tenant::of);
    let config = EngineConfig { max_megapixels_in_flight: 20, cpu_workers: 1, ..config(16, 8) };
    let (engine, _) = engine(&config, |ids| Ok(masks_of(ids)));
    let admit = |tenant: Tenant| {
        let engine = engine.clone();
        async move { engine.admit(tenant, 15_000_000, soon()).await }
    };
    let first = admit(many).await.unwrap();
    let [second, third] = [begun(admit(many)).await, begun(admit(many)).await];
    let other = begun(admit(one)).await;
    drop(first);
    drop(second.await.unwrap());
    drop(other.await.unwrap());
    drop(third.await.unwrap());

    let (open, gate) = std::sync::mpsc::channel::<()>();
    let order = Arc::new(Mutex::new(Vec::new()));
    let blocking = begun({
        let engine = engine.clone();
        async move { engine.cpu(many, move || gate.recv().unwrap()).await }
    });
    let blocking = blocking.await;
    let mut waiting = Vec::new();
    for tenant in [many, many, many, one] {
        let (engine, order) = (engine.clone(), Arc::clone(&order));
        waiting.push(begun(async move { engine.cpu(tenant, move || order.lock().unwrap().push(tenant)).await }).await);
    }
    open.send(()).unwrap();
    blocking.await.unwrap();
    for done in futures_util::future::join_all(waiting).await {
        done.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [many, one, many, many]);
}

#[tokio::test]
async fn a_small_picture_waits_neither_for_the_memory_nor_for_the_workers_of_large_ones() {
    let [large, small] = ["acme", "other"].map(Tenant::of);
    let config = EngineConfig { max_megapixels_in_flight: 64, cpu_workers: 1, ..config(16, 8) };
    let (engine, _) = engine(&config, |ids| Ok(masks_of(ids)));
    let slot = engine.admit(large, 67_000_000, soon()).await.unwrap();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let working = {
        let engine = engine.clone();
        begun(async move { engine.cpu_in(&slot, move || gate.recv().unwrap()).await }).await
    };
    let mut second = {
        let engine = engine.clone();
        begun(async move { engine.admit(large, 67_000_000, soon()).await }).await
    };
    let slot = engine.admit(small, 1_000_000, soon()).await.unwrap();
    assert_eq!(engine.cpu_in(&slot, || 7).await, Ok(7));
    let waits = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
    assert!(waits.is_err(), "one large picture at a time");
    open.send(()).unwrap();
    working.await.unwrap();
    second.await.expect("the first has ended");
}

#[tokio::test]
async fn work_waiting_for_blocked_workers_is_a_stall_until_they_finish() {
    let config = EngineConfig { cpu_workers: 1, stalled_after: Duration::from_millis(1), ..config(8, 8) };
    let (engine, _) = engine(&config, |ids| Ok(masks_of(ids)));
    assert!(!engine.is_stalled(), "nothing to do");
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let (entered, mut started) = tokio::sync::mpsc::unbounded_channel();
    let stuck = {
        let engine = engine.clone();
        tokio::spawn(async move {
            let work = move || {
                entered.send(()).unwrap();
                gate.recv().unwrap();
            };
            engine.cpu(Tenant::default(), work).await
        })
    };
    started.recv().await.unwrap();
    tokio::time::sleep(config.stalled_after * 2).await;
    assert!(!engine.is_stalled(), "nothing waits");
    let waiting = {
        let engine = engine.clone();
        begun(async move { engine.cpu(Tenant::default(), || ()).await }).await
    };
    let stalled = async {
        while !engine.is_stalled() {
            tokio::time::sleep(config.stalled_after).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), stalled).await.expect("a stall");
    open.send(()).unwrap();
    stuck.await.unwrap().unwrap();
    waiting.await.unwrap();
    assert!(!engine.is_stalled(), "work finishes again");
}

#[tokio::test]
async fn cancelled_work_holds_its_pixel_budget_until_it_ends() {
    let config = EngineConfig { max_megapixels_in_flight: 10, ..config(8, 8) };
    let (engine, _) = engine(&config, |ids| Ok(masks_of(ids)));
    let slot = engine.admit(Tenant::default(), 10_000_000, soon()).await.unwrap();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let (entered, mut started) = tokio::sync::mpsc::unbounded_channel();
    let decoding = {
        let (engine, slot) = (engine.clone(), slot.clone());
        tokio::spawn(async move {
            engine
                .cpu(Tenant::default(), move || {
                    entered.send(()).unwrap();
                    gate.recv().unwrap();
                    drop(slot);
                })
                .await
        })
    };
    started.recv().await.unwrap();
    decoding.abort();
    assert!(decoding.await.unwrap_err().is_cancelled());
    drop(slot);
    let waiting = {
        let engine = engine.clone();
        begun(async move { engine.admit(Tenant::default(), 2_000_000, soon()).await }).await
    };
    open.send(()).unwrap();
    waiting.await.expect("the work has ended");
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
