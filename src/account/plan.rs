//! Account plans, and the plan that a request needs by its fields.
//!
//! The plans themselves, [`Plan`], are part of the stored account (`store/records/plan.rs`). Two rules depend on a field's
//! value, because its other value is the default of every plan: `detect=high_recall` and `engine=product-v1`. All other
//! rules depend on the presence of a field: a Plus-tier field that is sent switched off is refused, not ignored.

use crate::recipe::{CutEngine, Detect, Fields, Value};
pub use crate::store::Plan;

/// The smallest plan that `fields` need at the endpoint with this path, and the first field that needs it; `None` for the
/// free plan. The values must have been validated: an invalid one needs no plan here.
///
/// Pass the fields merged with the fields of the preset: a stored field needs the plan that it needs when it is sent.
#[must_use]
pub fn required_plan<'a>(endpoint: &str, fields: &'a Fields) -> Option<(Plan, &'a str)> {
    let required = fields.iter().map(|(field, value)| (plan_for(endpoint, field, value), field));
    required.filter(|(plan, _)| *plan > Plan::Free).reduce(|first, next| if next.0 > first.0 { next } else { first })
}

fn plan_for(endpoint: &str, field: &str, value: &str) -> Plan {
    // `/remove-url` has its own rules in the specification; a batch of addresses is the same request several times.
    let by_address = matches!(endpoint, "/remove-url" | "/remove-batch-url");
    match field {
        "detect" if Detect::parse(value) == Some(Detect::HighRecall) => Plan::Paid,
        "engine" if CutEngine::parse(value) == Some(CutEngine::ProductV1) => Plan::Paid,
        "despill" | "watermark" | "preset" if by_address => Plan::Paid,
        "despill" | "watermark" | "watermark_opacity" if !by_address => Plan::Plus,
        _ => Plan::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::ENDPOINTS;
    use crate::recipe::tests::fields;

    /// The plan of one field, by endpoint.
    fn plan(endpoint: &str, field: &str, value: &str) -> Plan {
        let fields = fields(&[(field, value)]);
        let needs = required_plan(endpoint, &fields).unwrap_or((Plan::Free, field));
        assert_eq!(needs.1, field);
        needs.0
    }

    /// Every endpoint of the interface.
    const PATHS: &[&str] = &[
        "/remove",
        "/remove-url",
        "/remove-batch",
        "/remove-batch-url",
        "/mask",
        "/replace-bg",
        "/replace-bg-ai",
        "/studio-shot",
        "/smart-crop",
        "/shadow",
        "/sticker",
        "/headshot",
        "/upscale",
        "/face-restore",
        "/video/remove",
    ];

    const BY_ADDRESS: &[&str] = &["/remove-url", "/remove-batch-url"];

    #[test]
    fn every_field_of_every_endpoint_needs_the_plan_of_the_specification() {
        for endpoint in ENDPOINTS.iter() {
            let path = endpoint.path;
            assert!(PATHS.contains(&path), "{path} is not in the table of this test");
            for field in &endpoint.fields {
                let value = field.default.unwrap_or("x");
                let expected = match (field.name, BY_ADDRESS.contains(&path)) {
                    ("despill" | "watermark" | "preset", true) => Plan::Paid,
                    ("despill" | "watermark" | "watermark_opacity", false) => Plan::Plus,
                    _ => Plan::Free,
                };
                assert_eq!(plan(path, field.name, value), expected, "{path} {}={value}", field.name);
            }
        }
    }

    #[test]
    fn the_second_pass_and_the_second_engine_are_paid_everywhere_and_their_defaults_are_free() {
        for path in PATHS {
            assert_eq!(plan(path, "detect", "high_recall"), Plan::Paid, "{path}");
            assert_eq!(plan(path, "engine", "product-v1"), Plan::Paid, "{path}");
            assert_eq!(plan(path, "detect", "standard"), Plan::Free, "{path}");
            assert_eq!(plan(path, "decontaminate", "true"), Plan::Free, "{path}");
        }
    }

    #[test]
    fn a_plus_tier_field_counts_when_it_is_sent_even_switched_off() {
        for path in PATHS.iter().filter(|path| !BY_ADDRESS.contains(path)) {
            for (field, value) in
                [("despill", "false"), ("despill", "0"), ("watermark", "x"), ("watermark_opacity", "0")]
            {
                assert_eq!(plan(path, field, value), Plan::Plus, "{path} {field}={value}");
            }
            assert_eq!(plan(path, "preset", "preset_1"), Plan::Free, "{path}");
        }
    }

    #[test]
    fn url_endpoints_have_their_own_rules() {
        for path in BY_ADDRESS {
            for (field, value) in [("despill", "0"), ("watermark", "©"), ("preset", "shop")] {
                assert_eq!(plan(path, field, value), Plan::Paid, "{path} {field}={value}");
            }
            assert_eq!(plan(path, "watermark_opacity", "0.3"), Plan::Free, "{path}");
        }
    }

    #[test]
    fn the_first_field_of_the_highest_plan_is_reported() {
        let sent = [("edge", "hard"), ("detect", "high_recall"), ("watermark", "u"), ("despill", "1")];
        let needs = |path, sent: &[(&str, &str)]| {
            required_plan(path, &fields(sent)).map(|(plan, field)| (plan, field.to_owned()))
        };
        assert_eq!(needs("/remove", &sent), Some((Plan::Plus, "watermark".into())));
        assert_eq!(needs("/remove", &sent[..2]), Some((Plan::Paid, "detect".into())));
        assert_eq!(needs("/remove", &sent[..1]), None);
        assert_eq!(needs("/remove-url", &sent), Some((Plan::Paid, "detect".into())));
        assert_eq!(needs("/remove", &[]), None);
    }
}
