//! Every Prometheus metric of the daemon, declared once, behind a function: other code contains no name of a metric.
//!
//! Prefix `backdrop_`, base units, `_total` on counters. Before the first call of [`exporter`] nothing is recorded, and a call costs an
//! atomic load.

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;
use std::time::Duration;

const REQUESTS: &str = "backdrop_requests_total";
const REQUEST_DURATION: &str = "backdrop_request_duration_seconds";
const REQUESTS_IN_FLIGHT: &str = "backdrop_requests_in_flight";
const CONNECTIONS_CLOSED: &str = "backdrop_connections_closed_total";
const ERRORS: &str = "backdrop_errors_total";
const FETCH_FAILURES: &str = "backdrop_fetch_failures_total";
const STAGE_DURATION: &str = "backdrop_stage_duration_seconds";
const QUEUE_DEPTH: &str = "backdrop_queue_depth";
const QUEUE_DROPPED: &str = "backdrop_queue_dropped_total";
const BATCHES: &str = "backdrop_batches_total";
const BATCH_IMAGES: &str = "backdrop_batch_images_total";
const BATCH_SIZE: &str = "backdrop_batch_size";
const BATCHES_FAILED: &str = "backdrop_batches_failed_total";
const DEVICE_BYTES: &str = "backdrop_device_bytes_total";
const MATTING_FAILED: &str = "backdrop_device_matting_failed_total";
const NETWORK_FAILED: &str = "backdrop_device_network_failed_total";
const FELL_BACK: &str = "backdrop_device_fallback";
const DEVICE_BUSY: &str = "backdrop_device_busy_seconds_total";
const MODEL_IMAGES: &str = "backdrop_model_images_total";
const MODEL_LOADED: &str = "backdrop_model_loaded";
const MEGAPIXELS_IN_FLIGHT: &str = "backdrop_megapixels_in_flight";
const REPLY_BYTES: &str = "backdrop_reply_bytes_in_flight";
const CPU_JOBS_WAITING: &str = "backdrop_cpu_jobs_waiting";
const CPU_JOBS_RUNNING: &str = "backdrop_cpu_jobs_running";
const CPU_STALLED: &str = "backdrop_cpu_stalled";
const DECODE_JOBS_WAITING: &str = "backdrop_decode_jobs_waiting";
const DECODE_JOBS_RUNNING: &str = "backdrop_decode_jobs_running";
const DECODE_WORKERS_BUSY: &str = "backdrop_decode_workers_busy";
const DECODE_WORKERS_ENDED: &str = "backdrop_decode_workers_ended_total";
const JOBS: &str = "backdrop_jobs";
const JOBS_ENDED: &str = "backdrop_jobs_ended_total";
const BULK_OBJECTS: &str = "backdrop_bulk_objects";
const BULK_CHUNKS: &str = "backdrop_bulk_chunks";
const WEBHOOKS: &str = "backdrop_webhook_attempts_total";
const UPSTREAM_CALLS: &str = "backdrop_upstream_calls_total";
const UPSTREAM_DURATION: &str = "backdrop_upstream_duration_seconds";
const BACKDROP_LOOKUPS: &str = "backdrop_backdrop_lookups_total";

/// A stage of the pipeline, as `server-timing` names them too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Fetching a caller's URL.
    Fetch,
    /// Reading the header and the pixels.
    Decode,
    /// Waiting: for megapixels, for a CPU worker, for the device.
    Queue,
    /// The network.
    Segment,
    /// Face detection, face restoration and upscaling.
    Retouch,
    /// From mask to cutout.
    Matte,
    /// From cutout to finished picture.
    Compose,
    /// Writing the file.
    Encode,
}

impl Stage {
    /// `fetch`, `decode`, …
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Decode => "decode",
            Self::Queue => "queue",
            Self::Segment => "segment",
            Self::Retouch => "retouch",
            Self::Matte => "matte",
            Self::Compose => "compose",
            Self::Encode => "encode",
        }
    }
}

/// Why a queued request was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The caller disconnected.
    ClientGone,
    /// Its deadline passed.
    Deadline,
    /// All slots were taken.
    Full,
}

impl Dropped {
    const fn name(self) -> &'static str {
        match self {
            Self::ClientGone => "client_gone",
            Self::Deadline => "deadline",
            Self::Full => "full",
        }
    }
}

/// Why a decode worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerEnd {
    /// It had served its number of requests.
    Replaced,
    /// It ended on a picture.
    Crashed,
    /// It was killed at a picture's deadline.
    Late,
    /// Its answer was invalid, and it was killed.
    Broken,
    /// It ended while it was idle.
    Gone,
}

impl WorkerEnd {
    const fn name(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Crashed => "crashed",
            Self::Late => "deadline",
            Self::Broken => "broken",
            Self::Gone => "gone",
        }
    }
}

/// The progress of all bulk runs in the database together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkProgress {
    /// Objects with a report row.
    pub finished: u64,
    /// Objects without a report row.
    pub left: u64,
    /// Chunks that wait for a worker.
    pub queued: u64,
    /// Chunks that workers process.
    pub claimed: u64,
}

/// A request was answered with `status`.
pub fn request_finished(endpoint: &'static str, status: u16, took: Duration) {
    counter!(REQUESTS, "endpoint" => endpoint, "code" => status.to_string()).increment(1);
    histogram!(REQUEST_DURATION, "endpoint" => endpoint).record(took);
}

/// A request was answered with the error `code`.
pub fn error_answered(code: &'static str) {
    counter!(ERRORS, "code" => code).increment(1);
}

/// A connection was closed by a limit: `address_limit` (its address has too many) or `evicted` (idle, for a new one).
pub fn connection_closed(reason: &'static str) {
    counter!(CONNECTIONS_CLOSED, "reason" => reason).increment(1);
}

/// A source URL could not be fetched.
pub fn fetch_failed(reason: &'static str) {
    counter!(FETCH_FAILURES, "reason" => reason).increment(1);
}

/// A picture of a request took its place.
pub fn place_taken() {
    gauge!(REQUESTS_IN_FLIGHT).increment(1.0);
}

/// A picture of a request released its place.
pub fn place_returned() {
    gauge!(REQUESTS_IN_FLIGHT).decrement(1.0);
}

/// A stage of a request finished.
pub fn stage_finished(stage: Stage, took: Duration) {
    histogram!(STAGE_DURATION, "stage" => stage.name()).record(took);
}

/// `pictures` entered the device's queue.
pub fn queue_entered(lane: &'static str, pictures: usize) {
    gauge!(QUEUE_DEPTH, "lane" => lane).increment(pictures as f64);
}

/// `pictures` left the device's queue.
pub fn queue_left(lane: &'static str, pictures: usize) {
    gauge!(QUEUE_DEPTH, "lane" => lane).decrement(pictures as f64);
}

/// A queued request was dropped.
pub fn queue_dropped(reason: Dropped) {
    counter!(QUEUE_DROPPED, "reason" => reason.name()).increment(1);
}

/// A batch of `images` was sent to the device.
pub fn batch_formed(images: usize) {
    counter!(BATCHES).increment(1);
    counter!(BATCH_IMAGES).increment(images as u64);
    histogram!(BATCH_SIZE).record(images as f64);
}

/// A batch failed and was retried ticket by ticket.
pub fn batch_failed() {
    counter!(BATCHES_FAILED).increment(1);
}

/// Bytes were moved to a GPU (`up`) or from it (`down`).
pub fn device_bytes(up: u64, down: u64) {
    counter!(DEVICE_BYTES, "direction" => "up").increment(up);
    counter!(DEVICE_BYTES, "direction" => "down").increment(down);
}

/// A network failed on the device, and ran on the CPU instead.
pub fn network_failed() {
    counter!(NETWORK_FAILED).increment(1);
}

/// Matting or composing failed on the device, and the picture was matted and composed on the CPU.
pub fn matting_failed() {
    counter!(MATTING_FAILED).increment(1);
}

/// Whether the CPU is used instead of a GPU that failed.
pub fn device_fell_back(fell_back: bool) {
    gauge!(FELL_BACK).set(f64::from(u8::from(fell_back)));
}

/// The network of `model` ran on `images` pictures for `took`.
pub fn device_busy(model: &str, images: usize, took: Duration) {
    // A counter of whole numbers cannot hold seconds; a gauge that only grows can.
    gauge!(DEVICE_BUSY, "model" => model.to_owned()).increment(took.as_secs_f64());
    counter!(MODEL_IMAGES, "model" => model.to_owned()).increment(images as u64);
}

/// Whether the network is in memory.
pub fn model_loaded(loaded: bool) {
    gauge!(MODEL_LOADED).set(f64::from(u8::from(loaded)));
}

/// Megapixels were reserved.
pub fn megapixels_taken(megapixels: f64) {
    gauge!(MEGAPIXELS_IN_FLIGHT).increment(megapixels);
}

/// Megapixels were released.
pub fn megapixels_returned(megapixels: f64) {
    gauge!(MEGAPIXELS_IN_FLIGHT).decrement(megapixels);
}

/// A finished picture entered the reply buffer.
pub fn reply_bytes_taken(bytes: usize) {
    gauge!(REPLY_BYTES).increment(bytes as f64);
}

/// A finished picture was sent or dropped.
pub fn reply_bytes_returned(bytes: usize) {
    gauge!(REPLY_BYTES).decrement(bytes as f64);
}

/// A CPU task waits for a worker (+1), or no longer (-1).
pub fn cpu_jobs_waiting(change: f64) {
    gauge!(CPU_JOBS_WAITING).increment(change);
}

/// A worker began a CPU task (+1), or ended it (-1).
pub fn cpu_jobs_running(change: f64) {
    gauge!(CPU_JOBS_RUNNING).increment(change);
}

/// Whether the pool of CPU workers has stalled.
pub fn cpu_stalled(stalled: bool) {
    gauge!(CPU_STALLED).set(f64::from(u8::from(stalled)));
}

/// A task for a decode worker waits for a thread (+1), or no longer (-1).
pub fn decode_jobs_waiting(change: f64) {
    gauge!(DECODE_JOBS_WAITING).increment(change);
}

/// A thread began to wait for a decode worker (+1), or no longer does (-1).
pub fn decode_jobs_running(change: f64) {
    gauge!(DECODE_JOBS_RUNNING).increment(change);
}

/// A decode worker began a picture (+1), or ended it (-1).
pub fn decode_workers_busy(change: f64) {
    gauge!(DECODE_WORKERS_BUSY).increment(change);
}

/// A decode worker ended.
pub fn decode_worker_ended(end: WorkerEnd) {
    counter!(DECODE_WORKERS_ENDED, "reason" => end.name()).increment(1);
}

/// Jobs in the queue, and jobs that this process runs.
pub fn jobs_unfinished(queued: u64, processing: usize) {
    gauge!(JOBS, "state" => "queued").set(queued as f64);
    gauge!(JOBS, "state" => "processing").set(processing as f64);
}

/// The progress of all bulk runs was read.
pub fn bulk_progress(progress: BulkProgress) {
    let BulkProgress { finished, left, queued, claimed } = progress;
    for (state, objects) in [("finished", finished), ("left", left)] {
        gauge!(BULK_OBJECTS, "state" => state).set(objects as f64);
    }
    for (state, chunks) in [("queued", queued), ("claimed", claimed)] {
        gauge!(BULK_CHUNKS, "state" => state).set(chunks as f64);
    }
}

/// A job ended: `done` or `error`.
pub fn job_ended(state: &'static str) {
    counter!(JOBS_ENDED, "state" => state).increment(1);
}

/// A webhook delivery was attempted: `delivered`, `failed` or `gone`.
pub fn webhook_tried(outcome: &'static str) {
    counter!(WEBHOOKS, "outcome" => outcome).increment(1);
}

/// A call to an image API for a backdrop ended, retries included: `drawn`, `cancelled`, or the failure. `took` is `None`
/// where no request was sent.
pub fn upstream_finished(model: &'static str, outcome: &'static str, took: Option<Duration>) {
    counter!(UPSTREAM_CALLS, "model" => model, "outcome" => outcome).increment(1);
    if let Some(took) = took {
        histogram!(UPSTREAM_DURATION, "model" => model).record(took);
    }
}

/// A lookup in the backdrop cache: `hit`, `miss`, `shared` (another request is generating it), `damaged`, or `failed`.
pub fn backdrop_looked_up(outcome: &'static str) {
    counter!(BACKDROP_LOOKUPS, "outcome" => outcome).increment(1);
}

/// Installs the recorder on the first call and returns its exporter; there is one per process.
#[must_use]
pub fn exporter() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(install).clone()
}

fn install() -> PrometheusHandle {
    // The default deadline of a request is two minutes after its upload.
    const SECONDS: [f64; 17] =
        [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_duration_seconds".to_owned()), &SECONDS)
        .and_then(|builder| {
            builder
                .set_buckets_for_metric(Matcher::Full(BATCH_SIZE.to_owned()), &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
        })
        .expect("the bucket lists are not empty")
        .install_recorder()
        .expect("nothing else in this process installs a recorder");
    describe();
    let upkeep = handle.clone();
    // Histograms accumulate samples until they are rendered or drained, and the daemon may never be scraped.
    let maintenance = std::thread::Builder::new().name("metrics-upkeep".to_owned()).spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(5));
            upkeep.run_upkeep();
        }
    });
    if let Err(error) = maintenance {
        ::tracing::warn!(%error, "histograms are drained only when metrics are scraped");
    }
    handle
}

fn describe() {
    describe_counter!(REQUESTS, "Requests answered, by endpoint and status.");
    describe_histogram!(REQUEST_DURATION, "From the head of a request to that of its reply, uploads included.");
    describe_counter!(FETCH_FAILURES, "Source URLs that could not be fetched, by reason.");
    describe_gauge!(REQUESTS_IN_FLIGHT, "Slots taken.");
    describe_counter!(CONNECTIONS_CLOSED, "Connections closed by a limit, by reason.");
    describe_counter!(ERRORS, "Errors answered, by code.");
    describe_histogram!(STAGE_DURATION, "Time in each stage of the pipeline.");
    describe_gauge!(QUEUE_DEPTH, "Pictures in the queue of the device, by lane.");
    describe_counter!(QUEUE_DROPPED, "Queued requests that were dropped, by reason.");
    describe_counter!(BATCHES, "Batches sent to the device.");
    describe_counter!(BATCH_IMAGES, "Pictures in these batches.");
    describe_histogram!(BATCH_SIZE, "Pictures in a batch.");
    describe_counter!(BATCHES_FAILED, "Batches that failed and were retried ticket by ticket.");
    describe_counter!(DEVICE_BYTES, "Bytes of pictures and masks moved to a GPU and from it, by direction.");
    describe_counter!(
        MATTING_FAILED,
        "Pictures whose matting or composing failed on the device and was done on the CPU."
    );
    describe_counter!(
        NETWORK_FAILED,
        "Batches, tiles and faces whose network failed on the device and ran on the CPU."
    );
    describe_gauge!(FELL_BACK, "1 while the CPU stands in for a GPU that failed.");
    describe_gauge!(DEVICE_BUSY, "Time that the device was busy.");
    describe_gauge!(MODEL_LOADED, "1 while the network is in memory.");
    describe_gauge!(MEGAPIXELS_IN_FLIGHT, "Megapixels that are decoded or about to be.");
    describe_gauge!(REPLY_BYTES, "Bytes of finished pictures that their callers have not read yet.");
    describe_gauge!(CPU_JOBS_WAITING, "CPU tasks that wait for a worker.");
    describe_gauge!(CPU_JOBS_RUNNING, "CPU tasks in progress.");
    describe_gauge!(DECODE_JOBS_WAITING, "Tasks for decode workers that have yet to begin.");
    describe_gauge!(DECODE_JOBS_RUNNING, "Tasks for decode workers in progress.");
    describe_gauge!(
        CPU_STALLED,
        "1 while CPU tasks wait and no worker has begun or ended any for engine.stalled_after."
    );
    describe_gauge!(DECODE_WORKERS_BUSY, "Decode workers with a picture.");
    describe_counter!(DECODE_WORKERS_ENDED, "Decode workers that ended, by reason.");
    describe_gauge!(JOBS, "Jobs queued or being processed, by state.");
    describe_gauge!(BULK_OBJECTS, "Objects of the bulk runs in the database, by state.");
    describe_gauge!(BULK_CHUNKS, "Chunks of the bulk runs in the database that are not done, by state.");
    describe_counter!(JOBS_ENDED, "Jobs that ended, by state.");
    describe_counter!(UPSTREAM_CALLS, "Calls to image APIs for backdrops, by model and outcome.");
    describe_histogram!(UPSTREAM_DURATION, "Duration of calls to image APIs that sent a request, by model.");
    describe_counter!(BACKDROP_LOOKUPS, "Lookups in the backdrop cache, by outcome.");
    describe_counter!(WEBHOOKS, "Attempts to deliver webhooks, by outcome.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_metrics_are_rendered() {
        let exporter = exporter();
        batch_formed(3);
        stage_finished(Stage::Decode, Duration::from_millis(3));
        queue_dropped(Dropped::Full);
        let text = exporter.render();
        for line in [
            "# TYPE backdrop_batches_total counter",
            "backdrop_batch_size_bucket{le=\"4\"}",
            "backdrop_stage_duration_seconds_bucket{stage=\"decode\",le=\"0.005\"}",
            "backdrop_stage_duration_seconds_bucket{stage=\"decode\",le=\"300\"}",
            "backdrop_queue_dropped_total{reason=\"full\"}",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
