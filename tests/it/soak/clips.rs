//! Clips of the soak: from their upload, at times after a disconnect, to their result, their cancellation and their deletion.

use crate::soak::inputs::CLIP_SECONDS;
use crate::soak::traffic::{PATIENCE, PAUSE, Traffic};
use rand::Rng;
use rand::rngs::StdRng;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::{Duration, Instant};
use tokio::time::sleep;

impl Traffic {
    /// Creates a job; its path.
    async fn create_clip(&self, name: &str, dice: &mut StdRng) -> Option<String> {
        const PATH: &str = "/video/remove";
        let request = || {
            let form = Form::new().part("file", Part::stream(self.inputs.clip.clone()).file_name("clip.mp4"));
            self.client.post(self.url(PATH)).header("idempotency-key", name).multipart(form)
        };
        self.disconnect_at_times(PATH, &[202], 300, dice, request).await;
        let job = self.json(PATH, &[202], request).await?;
        Some(job["status_url"].as_str().expect("an address").to_owned())
    }

    /// Cuts a clip out, compares its result with the first clip's, and at times deletes the job.
    pub(super) async fn cut_clip(&self, name: &str, dice: &mut StdRng) {
        let began = Instant::now();
        let Some(path) = self.create_clip(name, dice).await else { return };
        // The job may wait behind the jobs of other clients.
        while began.elapsed() < 3 * PATIENCE {
            let Some(job) = self.get(&path).await else { return };
            match job["status"].as_str() {
                Some("queued" | "processing") => sleep(PAUSE).await,
                Some("done") => {
                    assert_eq!(job["output_seconds"], f64::from(CLIP_SECONDS), "{job}");
                    if self.compare_result(&path, &job).await {
                        self.answered().seconds += u64::from(CLIP_SECONDS);
                        if dice.random_ratio(1, 2) {
                            self.delete_job(&path).await;
                        }
                        return;
                    }
                    sleep(PAUSE).await;
                }
                _ if self.was_disk_full_since(began) => {
                    self.answered().failed_clips += 1;
                    return;
                }
                _ => {
                    self.answered().unplanned.push(format!("{path}: {job}"));
                    return;
                }
            }
        }
        self.answered().unplanned.push(format!("{path}: not finished in six minutes"));
    }

    /// Compares the result of a finished job. False if the result has expired since.
    async fn compare_result(&self, path: &str, job: &Value) -> bool {
        // Results are kept for an hour, which has passed when the clock was set forward.
        if job["result_expired"] == true {
            return true;
        }
        let address = job["result_url"].as_str().expect("an address");
        let result = self.until_answered("a result", &[200, 403, 404, 410], || self.client.get(address)).await;
        let result = match result {
            Some((200, result)) => result,
            Some(_) => return false,
            None => return true,
        };
        let mut answered = self.answered();
        answered.clips += 1;
        let first = answered.cut_clip.get_or_insert_with(|| result.clone());
        if *first != result {
            answered.unplanned.push(format!("{path}: another result than that of the first clip"));
        }
        true
    }

    /// Cancels a job in any state and deletes it.
    pub(super) async fn cancel_clip(&self, name: &str, dice: &mut StdRng) {
        let began = Instant::now();
        let Some(path) = self.create_clip(name, dice).await else { return };
        sleep(Duration::from_millis(dice.random_range(0..2000))).await;
        let attempts = Cell::new(0);
        let request = || {
            attempts.set(attempts.get() + 1);
            self.client.delete(self.url(&path))
        };
        let removed = self.until_applied("a cancelled clip", &[200], &[404], request).await;
        let Some((status, body)) = removed else { return };
        let job = serde_json::from_slice::<Value>(&body).expect("JSON");
        if status == 200 && job["error"]["code"] == "cancelled" {
            self.answered().cancelled_clips += 1;
            return self.delete_job(&path).await;
        }
        // The job had ended and is deleted. It was billed, unless it failed on a full disk or an attempt whose answer was lost had
        // cancelled it.
        let mut answered = self.answered();
        let is_billed = status == 200 && attempts.get() == 1 && !self.was_disk_full_since(began);
        let seconds = if is_billed { &mut answered.seconds } else { &mut answered.uncertain_seconds };
        *seconds += u64::from(CLIP_SECONDS);
    }

    /// Deletes a job that has ended; only bulk runs are paused.
    async fn delete_job(&self, path: &str) {
        let pause = || self.client.patch(self.url(path)).json(&json!({ "state": "paused" }));
        self.until_answered("a paused clip", &[409], pause).await;
        let delete = || self.client.delete(self.url(path));
        if self.until_applied("a deleted job", &[200], &[404], delete).await.is_some() {
            self.until_answered("a job that was deleted", &[404], || self.client.get(self.url(path))).await;
        }
    }
}
