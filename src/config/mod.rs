//! The configuration: flag over environment variable over TOML file over default, with all mistakes reported at once.
//!
//! Each section's struct is in the module that uses it. `backdrop.toml.example` lists every setting with its default.

mod load;
mod merge;
mod settings;

pub use load::load;
pub use merge::Problems;
pub use settings::Config;
