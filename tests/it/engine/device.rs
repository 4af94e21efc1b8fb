//! Failures of the device: errors, panics, invalid masks, failed loads and self-tests; idle unloading.

use crate::engine::support::{
    Counts, GRID, Gated, assert_answers, assert_answers_all, config, engine, factory, masks_of, picture, queued,
    queued_together, slot, soon,
};
use crate::support::segmenter;
use backdrop::engine::{Engine, EngineConfig, EngineError, EngineState, Lane, Segmented, Tenant, WeightsInfo};
use backdrop::image::{RawMask, Size};
use backdrop::model::device::{ActiveDevice, DeviceChoice, Gpu};
use backdrop::model::weights::Weights;
use backdrop::model::{Retoucher, SegmentError, Segmenter};
use backdrop::recipe::Network;
use std::fmt;
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
async fn a_failed_batch_is_retried_picture_by_picture() {
    let mut gated = Gated::start(&config(16, 8));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
    let mut answers = Vec::new();
    for id in 1..=3 {
        answers.push(queued(&gated.engine, id, Lane::Interactive).await);
    }
    gated.answer();
    assert_answers(first.await, 0);
    assert_eq!(gated.batch().await, [1, 2, 3]);
    gated.order(|_| Err(SegmentError::Device("out of memory".into())));
    for id in 1..=3 {
        assert_eq!(gated.batch().await, [id]);
        gated.answer();
    }
    for (id, answer) in (1..=3).zip(answers) {
        assert_answers(answer.await, id);
    }
    assert_eq!(gated.counts.made.load(Ordering::SeqCst), 1, "the network was replaced");
}

#[tokio::test]
async fn each_picture_of_a_failed_batch_is_retried_once_and_has_its_own_error() {
    let mut gated = Gated::start(&config(16, 8));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
    let bad = queued(&gated.engine, 1, Lane::Interactive).await;
    let good = queued(&gated.engine, 2, Lane::Interactive).await;
    gated.answer();
    assert_answers(first.await, 0);
    assert_eq!(gated.batch().await, [1, 2]);
    gated.order(|_| Err(SegmentError::Device("together".into())));
    assert_eq!(gated.batch().await, [1]);
    gated.order(|_| Err(SegmentError::Device("alone".into())));
    assert_eq!(gated.batch().await, [2]);
    gated.answer();
    assert_eq!(bad.await.unwrap_err(), EngineError::Device("alone".into()));
    assert_answers(good.await, 2);
    assert!(gated.is_quiet());
}

#[tokio::test]
async fn pictures_of_one_ticket_are_retried_together_and_fail_together() {
    let mut gated = Gated::start(&config(16, 8));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
    let bad = queued_together(&gated.engine, &[1, 2], Lane::Interactive).await;
    let good = queued_together(&gated.engine, &[3, 4], Lane::Interactive).await;
    gated.answer();
    assert_answers(first.await, 0);
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
async fn a_panic_on_the_device_fails_its_batch_only() {
    let (engine, counts) = engine(&config(16, 8), |ids| {
        assert!(!ids.contains(&13), "thirteen");
        Ok(masks_of(ids))
    });
    let Err(EngineError::Device(reason)) = segment(&engine, 13).await else { panic!("it was answered") };
    assert!(reason.contains("thirteen"), "{reason}");
    assert!(engine.is_alive());
    assert_answers(segment(&engine, 14).await, 14);
    let (made, dropped) = (counts.made.load(Ordering::SeqCst), counts.dropped.load(Ordering::SeqCst));
    assert_eq!(made, dropped + 1, "a network that panicked is not used again");
    assert!(made >= 2);
}

#[tokio::test]
async fn a_picture_that_always_panics_fails_alone() {
    let mut gated = Gated::start(&config(16, 8));
    let first = queued(&gated.engine, 0, Lane::Interactive).await;
    assert_eq!(gated.batch().await, [0]);
    let mut answers = Vec::new();
    for id in [1, 13, 3] {
        answers.push(queued(&gated.engine, id, Lane::Interactive).await);
    }
    gated.answer();
    assert_answers(first.await, 0);
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
    assert!(matches!(thirteen.await, Err(EngineError::Device(_))));
    assert_answers(three.await, 3);
}

#[tokio::test]
async fn an_invalid_mask_is_a_device_error() {
    let bad = |id: u8| {
        let (mut size, mut values) = (Size::new(4, 4), vec![0.4; 16]);
        match id {
            1 => values[5] = f32::NAN,
            2 => values[0] = f32::INFINITY,
            3 => values[3] = 7.0,
            4 => drop(values.pop()),
            5 => size = Size::new(2, 8),
            _ => return Ok(vec![]),
        }
        Ok(vec![RawMask::new(size, values)?])
    };
    let (engine, _) = engine(&config(16, 8), move |ids| if ids[0] < 7 { bad(ids[0]) } else { Ok(masks_of(ids)) });
    for id in 1..=6 {
        assert!(matches!(segment(&engine, id).await, Err(EngineError::Device(_))), "answer {id} was accepted");
    }
    assert_answers(segment(&engine, 7).await, 7);
}

#[tokio::test]
async fn an_empty_mask_is_valid_after_the_self_test() {
    let (engine, _) = engine(&config(16, 8), |ids| Ok(masks_of(ids)));
    assert_answers(segment(&engine, 0).await, 0); // mask_of(0) is zero everywhere
}

#[tokio::test]
async fn a_device_that_fails_its_self_test_never_serves() {
    for value in [0.0, 1.0, f32::NAN] {
        let engine = Engine::start(
            &config(4, 4),
            segmenter::factory("constant", move |frames| {
                frames.iter().map(|_| Ok(RawMask::new(Size::new(4, 4), vec![value; 16])?)).collect()
            }),
        );
        assert!(matches!(engine.ready().await, Err(EngineError::Failed(reason)) if reason.contains("self-test")));
        assert_eq!(*engine.state().borrow(), EngineState::Failed);
        assert!(matches!(segment(&engine, 1).await, Err(EngineError::Failed(_))));
    }
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
                _ => inner(),
            }
        }),
    );
    let Err(EngineError::Failed(reason)) = engine.ready().await else { panic!("it is ready") };
    assert!(reason.contains("no adapter"), "{reason}");
    assert!(matches!(segment(&engine, 1).await, Err(EngineError::Failed(_))));
    assert_eq!(tries.load(Ordering::SeqCst), 1, "it was retried at once");
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_answers(segment(&engine, 2).await, 2);
    assert_eq!(*engine.state().borrow(), EngineState::Ready);
}

#[tokio::test]
async fn a_factory_that_panics_is_a_failed_load() {
    let engine = Engine::start(&config(8, 8), Arc::new(|| panic!("no weights")));
    assert!(matches!(engine.ready().await, Err(EngineError::Failed(reason)) if reason.contains("no weights")));
    assert!(engine.is_alive());
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
    drop(slot);
    state(&engine, EngineState::Unloaded).await;
    assert_eq!(counts.made.load(Ordering::SeqCst), counts.dropped.load(Ordering::SeqCst));
    assert_eq!(engine.buffers().kept_bytes(), 0);
    assert!(EngineState::Unloaded.is_serving());

    let made = counts.made.load(Ordering::SeqCst);
    assert_answers(segment(&engine, 2).await, 2);
    assert!(counts.made.load(Ordering::SeqCst) > made);
}

#[tokio::test]
async fn a_network_in_use_is_not_unloaded() {
    let config = EngineConfig { idle_unload: Some(Duration::from_millis(10)), ..config(8, 8) };
    let (engine, counts) = engine(&config, |ids| Ok(masks_of(ids)));
    let slot = slot(&engine).await; // a request that is still decoding
    // It may have been unloaded before the slot was taken; from this answer on it is loaded.
    assert_answers(engine.segment(&Network::default(), &slot, vec![picture(1)], Lane::Interactive, soon()).await, 1);
    let dropped = counts.dropped.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(counts.dropped.load(Ordering::SeqCst), dropped);
    drop(slot);
    state(&engine, EngineState::Unloaded).await;
}

/// A GPU that fails its self-test.
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken adapter")
    }
}

impl Gpu for Broken {
    fn segmenter(&self, _: &Weights, _: usize) -> Result<Box<dyn Segmenter>, SegmentError> {
        Err(SegmentError::Unusable("broken adapter failed its self-test".to_owned()))
    }

    fn retoucher(&self) -> Arc<dyn Retoucher> {
        unreachable!("this test uses no auxiliary network")
    }
}

fn engine_on_a_broken_gpu(choice: &DeviceChoice) -> Engine {
    let device = ActiveDevice::new(choice, Some(Arc::new(Broken)));
    Engine::start(&config(4, 1), Arc::new(move || device.segmenter(&Weights::embedded(), 1)))
}

#[tokio::test]
async fn auto_serves_on_the_cpu_when_the_gpu_fails_its_self_test() {
    let engine = engine_on_a_broken_gpu(&DeviceChoice::Auto);
    engine.ready().await.expect("the CPU takes over");
    assert_eq!(*engine.state().borrow(), EngineState::Ready);
    assert!(engine.device().starts_with("CPU ("), "{}", engine.device());
    assert_eq!(segment(&engine, 1).await.expect("the CPU computes").masks.len(), 1);
}

#[tokio::test]
async fn an_explicit_gpu_that_fails_its_self_test_never_serves() {
    for choice in [DeviceChoice::Gpu, DeviceChoice::Named("broken".to_owned())] {
        let engine = engine_on_a_broken_gpu(&choice);
        let Err(EngineError::Failed(reason)) = engine.ready().await else { panic!("{choice}: it is ready") };
        assert_eq!(reason, "the device cannot be used: broken adapter failed its self-test", "{choice}");
        assert_eq!(*engine.state().borrow(), EngineState::Failed);
    }
}
