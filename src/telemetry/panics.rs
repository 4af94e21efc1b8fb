//! The message of a caught panic.

use std::any::Any;

/// The text a panic was raised with, or `no message` when its payload is not a string.
#[must_use]
pub fn panic_message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::panic_message;
    use std::any::Any;

    #[test]
    fn string_payloads_are_returned_and_others_are_not() {
        let message = |payload: Box<dyn Any + Send>| panic_message(&*payload).to_owned();
        assert_eq!(message(Box::new("static")), "static");
        assert_eq!(message(Box::new(String::from("formatted"))), "formatted");
        assert_eq!(message(Box::new(7_u8)), "no message");
    }
}
