//! Single pictures of the soak: every endpoint, drop-in routes, addresses, generated backdrops, hostile files.

use crate::soak::inputs::{DROP_INS, ENDPOINTS, ORIGIN, PROMPTS, REMBG};
use crate::soak::traffic::Traffic;
use bytes::Bytes;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use reqwest::RequestBuilder;
use reqwest::multipart::{Form, Part};
use serde_json::json;
use std::time::Instant;

impl Traffic {
    /// A form with a file under `name`.
    fn form(&self, path: &str, name: &'static str, file: &Bytes, fields: &[(&str, &str)]) -> RequestBuilder {
        let form = fields.iter().fold(Form::new().part(name, Part::stream(file.clone())), |form, (name, value)| {
            form.text((*name).to_owned(), (*value).to_owned())
        });
        self.client.post(self.url(path)).multipart(form)
    }

    /// Cuts a picture out under its idempotency key, at times after a disconnect.
    pub(super) async fn cut_out(&self, name: &str, dice: &mut StdRng) {
        let (path, fields) = ENDPOINTS.choose(dice).expect("some");
        let file = self.inputs.pictures.choose(dice).expect("some");
        let request = || self.form(path, "file", file, fields).header("idempotency-key", name);
        self.disconnect_at_times(path, &[200], 300, dice, request).await;
        let began = Instant::now();
        if let Some((_, body)) = self.until_answered(path, &[200], request).await {
            self.count_picture(path, &body);
            self.answered().latencies.push(began.elapsed().as_millis() as u64);
        }
    }

    pub(super) async fn restore_face(&self, name: &str) {
        const PATH: &str = "/face-restore";
        let request = || self.form(PATH, "file", &self.inputs.face, &[]).header("idempotency-key", name);
        if let Some((_, body)) = self.until_answered(PATH, &[200], request).await {
            self.count_picture(PATH, &body);
        }
    }

    /// Sends a picture in the wire format of another service, at times a hostile one or an address.
    pub(super) async fn drop_in(&self, name: &str, dice: &mut StdRng) {
        if dice.random_ratio(1, 6) {
            return self.drop_in_url(name, dice).await;
        }
        let &(path, file_name, fields, begins) = DROP_INS.choose(dice).expect("some");
        if dice.random_ratio(1, 6) {
            let hostile = self.inputs.hostile.choose(dice).expect("some");
            let request = || self.form(path, file_name, &hostile.file, fields);
            // These services have one status for all errors of a picture.
            self.until_answered(path, &[400], request).await;
            return;
        }
        let file = self.inputs.pictures.choose(dice).expect("some");
        let request = || self.form(path, file_name, file, fields).header("idempotency-key", name);
        self.disconnect_at_times(path, &[200], 300, dice, request).await;
        if let Some((_, body)) = self.until_answered(path, &[200], request).await {
            if !body.starts_with(begins) {
                self.unplanned(path, 200, &body);
            }
            self.answered().pictures += 1;
        }
    }

    /// Sends an address to rembg's route.
    async fn drop_in_url(&self, name: &str, dice: &mut StdRng) {
        let (path, planned) = ORIGIN.choose(dice).expect("some");
        let planned: &[u16] = if planned.contains(&200) { &[200] } else { &[400] };
        let url = self.url(&format!("{REMBG}?url={}", self.inputs.origin.url(path)));
        let request = || self.client.get(&url).header("idempotency-key", name);
        if let Some((200, body)) = self.until_answered(path, planned, request).await {
            self.count_picture(path, &body);
        }
    }

    pub(super) async fn cut_out_url(&self, name: &str, dice: &mut StdRng) {
        let (path, planned) = ORIGIN.choose(dice).expect("some");
        let body = json!({ "url": self.inputs.origin.url(path) });
        let request = || self.client.post(self.url("/remove-url")).header("idempotency-key", name).json(&body);
        if let Some((200, body)) = self.until_answered(path, planned, request).await {
            self.count_picture(path, &body);
        }
    }

    /// Generates a backdrop, which is not billed.
    pub(super) async fn generate_backdrop(&self, dice: &mut StdRng) {
        const PATH: &str = "/replace-bg-ai";
        let fields = [("prompt", *PROMPTS.choose(dice).expect("some"))];
        let request = || self.form(PATH, "file", &self.inputs.pictures[0], &fields);
        if let Some((_, body)) = self.until_answered(PATH, &[200], request).await {
            self.require_picture(PATH, &body);
            self.answered().backdrops += 1;
        }
    }

    /// Sends a file that must be refused.
    pub(super) async fn send_hostile(&self, dice: &mut StdRng) {
        let hostile = self.inputs.hostile.choose(dice).expect("some");
        let request = || self.form("/remove", "file", &hostile.file, &[]);
        self.until_answered("a hostile picture", hostile.planned, request).await;
    }
}
