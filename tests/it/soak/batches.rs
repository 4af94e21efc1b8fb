//! Batches of the soak: files and addresses, good and hostile, and disconnects.

use crate::soak::traffic::{PATIENCE, PAUSE, Traffic};
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use reqwest::RequestBuilder;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::time::Instant;
use tokio::time::sleep;

/// The status of a good row.
const GOOD: &[u16] = &[200];

impl Traffic {
    /// A batch of two good files and a hostile one.
    pub(super) async fn cut_out_files(&self, name: &str, dice: &mut StdRng) {
        const PATH: &str = "/remove-batch";
        let (pictures, hostile) = (&self.inputs.pictures, self.inputs.hostile.choose(dice).expect("some"));
        let files = [&pictures[2], &hostile.file, &pictures[0]];
        let request = || {
            let form = files.iter().fold(Form::new(), |form, file| {
                form.part("files", Part::stream(Bytes::clone(file)).file_name("photo.jpg"))
            });
            self.client.post(self.url(PATH)).header("idempotency-key", name).multipart(form)
        };
        self.disconnect_at_times(PATH, &[200], 1000, dice, request).await;
        self.batch(PATH, &[GOOD, hostile.planned, GOOD], request).await;
    }

    /// A batch of a good address and two that fail.
    pub(super) async fn cut_out_urls(&self, name: &str, dice: &mut StdRng) {
        const PATH: &str = "/remove-batch-url";
        let urls = ["/good", "/missing", "/hangup"].map(|path| self.inputs.origin.url(path));
        let urls = json!({ "urls": urls });
        let request = || self.client.post(self.url(PATH)).header("idempotency-key", name).json(&urls);
        self.disconnect_at_times(PATH, &[200], 1000, dice, request).await;
        self.batch(PATH, &[GOOD, &[424], &[424]], request).await;
    }

    /// Sends a batch until its rows have the `planned` statuses, and counts the good ones.
    async fn batch(&self, what: &str, planned: &[&[u16]], request: impl Fn() -> RequestBuilder) {
        let began = Instant::now();
        loop {
            let at = Instant::now();
            let Some(body) = self.json(what, &[200], &request).await else { return };
            let rows = body["results"].as_array().expect("rows");
            let status = |row: &Value| row["status"].as_u64().and_then(|status| u16::try_from(status).ok());
            let statuses: Vec<u16> = rows.iter().map(|row| status(row).expect("a status")).collect();
            let are_planned = statuses.len() == planned.len()
                && statuses.iter().zip(planned).all(|(status, planned)| planned.contains(status));
            if are_planned {
                self.answered().pictures += planned.iter().filter(|planned| **planned == GOOD).count() as u64;
                return;
            }
            let is_busy = |status: u16| status == 429 || status == 503 && self.was_disk_full_since(at);
            let again = statuses.iter().any(|status| is_busy(*status));
            if !again || began.elapsed() > PATIENCE {
                self.answered().unplanned.push(format!("{what}: {body}"));
                return;
            }
            sleep(PAUSE).await;
        }
    }
}
