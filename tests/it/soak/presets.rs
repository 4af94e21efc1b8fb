//! Presets of the soak: saved, overwritten and deleted. Each belongs to one client, so that its expected parameters are known.

use crate::soak::traffic::Traffic;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Traffic {
    /// Saves a preset, or overwrites or deletes the stored one.
    pub(super) async fn change_preset(&self, name: String, dice: &mut StdRng) {
        let is_stored = self.answered().presets.contains_key(&name);
        if is_stored && dice.random_ratio(1, 3) {
            return self.delete_preset(&name).await;
        }
        let params = json!({ "format": "webp", "quality": dice.random_range(1..=100_u8) });
        let mut body = json!({ "name": name, "endpoint": "/remove", "params": params });
        let mut applied: &[u16] = &[409];
        if is_stored {
            // Overwrites the stored preset, however often it is sent.
            body["id"] = name.as_str().into();
            applied = &[];
        }
        let request = || self.client.post(self.url("/presets")).json(&body);
        let Some((status, answer)) = self.until_applied("a preset", &[200], applied, request).await else { return };
        if status == 200 {
            let saved: Value = serde_json::from_slice(&answer).expect("JSON");
            if saved["name"] != name.as_str() || saved["params"] != params {
                self.unplanned("a preset", status, &answer);
            }
        }
        self.answered().presets.insert(name, params);
    }

    async fn delete_preset(&self, name: &str) {
        let request = || self.client.delete(self.url("/presets")).json(&json!({ "id": name }));
        if self.until_applied("a deleted preset", &[200], &[404], request).await.is_some() {
            self.answered().presets.remove(name);
        }
    }

    /// The parameters of all stored presets, by name.
    pub(super) async fn stored_presets(&self) -> BTreeMap<String, Value> {
        let (mut stored, mut path) = (BTreeMap::new(), "/presets".to_owned());
        loop {
            let page = self.get(&path).await.expect("an answer");
            for preset in page["presets"].as_array().expect("a list") {
                stored.insert(preset["name"].as_str().expect("a name").to_owned(), preset["params"].clone());
            }
            let Some(cursor) = page["next_cursor"].as_str() else { return stored };
            path = format!("/presets?cursor={cursor}");
        }
    }
}
