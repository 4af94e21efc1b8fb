//! The metadata of a weights file: name, version, network and licence.

use super::architecture::{Architecture, Network};
use super::error::{MAX_LABEL_BYTES, WeightsError};
use crate::model::Factor;

/// The metadata of a weights file.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Name of the model, as reported to callers: 1 to 64 printable ASCII characters.
    pub name: String,
    /// Increases with every change of the values. 1 to 64 printable ASCII characters.
    pub version: String,
    /// The network.
    pub network: Network,
    /// Licence of the values.
    pub licence: String,
}

impl Card {
    /// Checks name and version, which replies carry in the header `x-service-model`.
    pub(super) fn validate(&self) -> Result<(), WeightsError> {
        for (field, text) in [("name", &self.name), ("version", &self.version)] {
            let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            if text.is_empty() || text.len() > MAX_LABEL_BYTES || !is_printable {
                let found = text.chars().take(MAX_LABEL_BYTES).collect();
                return Err(WeightsError::Label { field, found });
            }
        }
        Ok(())
    }

    /// Side of the square input of a segmentation network.
    ///
    /// # Errors
    /// When the weights are for another network.
    pub fn input_side(&self) -> Result<usize, WeightsError> {
        let (Network::Fgnet { input_side } | Network::Guided { input_side }) = self.network else {
            return Err(self.is_not(Architecture::Fgnet));
        };
        Ok(input_side)
    }

    /// The factor of an upscaling network.
    ///
    /// # Errors
    /// When the weights are for another network.
    pub fn factor(&self) -> Result<Factor, WeightsError> {
        let Network::Upscale { factor } = self.network else { return Err(self.is_not(Architecture::Upscale)) };
        Ok(factor)
    }

    /// The minimum score of a face, for a face detection network.
    ///
    /// # Errors
    /// When the weights are for another network.
    pub fn threshold(&self) -> Result<f32, WeightsError> {
        let Network::Face { threshold } = self.network else { return Err(self.is_not(Architecture::Face)) };
        Ok(threshold)
    }

    /// Checks that the weights are for `wanted`.
    ///
    /// # Errors
    /// When they are for another network.
    pub fn require(&self, wanted: Architecture) -> Result<(), WeightsError> {
        if self.network.architecture() == wanted { Ok(()) } else { Err(self.is_not(wanted)) }
    }

    fn is_not(&self, expected: Architecture) -> WeightsError {
        let found = self.network.architecture().to_string();
        WeightsError::Architecture { found, expected: expected.to_string() }
    }
}
