//! Module http.
