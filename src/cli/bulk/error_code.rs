//! What a picture's failure is called in the report: the code that the API answers with.

use crate::bulk::{Failure, Unworked};
use crate::codec::DecodeError;
use crate::engine::EngineError;
use crate::http::error::ErrorCode;
use crate::pipeline::PipelineError;
use crate::telemetry::with_causes;

/// What the pipeline's error comes to.
pub(super) fn unworked(error: &PipelineError) -> Unworked {
    let code = match error {
        PipelineError::Decode(error) | PipelineError::AuxImage { error, .. } => match error {
            DecodeError::Empty | DecodeError::Corrupt(_) => ErrorCode::InvalidImage,
            DecodeError::Unsupported { .. } => ErrorCode::UnsupportedMediaType,
            DecodeError::TooManyBytes { .. }
            | DecodeError::TooManyPixels { .. }
            | DecodeError::TooManyMegapixels { .. } => ErrorCode::PayloadTooLarge,
        },
        PipelineError::OutputTooLarge(_) => ErrorCode::OutputTooLarge,
        PipelineError::NoSubject(_) => ErrorCode::NoSubjectDetected,
        PipelineError::NoFace => ErrorCode::NoFaceDetected,
        PipelineError::NoAlpha => ErrorCode::InvalidParameter,
        PipelineError::Encode(_) => ErrorCode::InternalError,
        PipelineError::Engine(error) => match error {
            EngineError::Device(_) | EngineError::Panicked(_) => ErrorCode::InternalError,
            EngineError::DeadlineExceeded => ErrorCode::Unavailable,
            EngineError::QueueFull { .. } => ErrorCode::RateLimitExceeded,
            // No other picture would fare better.
            EngineError::Stopped | EngineError::Failed(_) => return Unworked::Broken(with_causes(error)),
        },
    };
    Unworked::Refused(Failure { code: code.name(), message: with_causes(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::Code;

    #[test]
    fn the_codes_of_storage_are_codes_of_the_api() {
        for code in Code::ALL {
            assert!(ErrorCode::ALL.iter().any(|known| known.name() == code.name()), "{}", code.name());
        }
    }

    #[test]
    fn a_broken_file_is_the_files_fault_and_a_network_that_does_not_load_everybodys() {
        let refused = unworked(&PipelineError::Decode(DecodeError::Empty));
        assert!(matches!(refused, Unworked::Refused(Failure { code: "invalid_image", .. })), "{refused:?}");
        let broken = unworked(&PipelineError::Engine(EngineError::Failed("no memory".into())));
        assert!(matches!(broken, Unworked::Broken(_)), "{broken:?}");
    }
}
