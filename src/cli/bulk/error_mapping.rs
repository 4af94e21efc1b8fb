//! Maps pipeline errors to the API's error codes, for the report.

use crate::bulk::{Failure, ProcessError};
use crate::codec::DecodeError;
use crate::engine::EngineError;
use crate::http::ErrorCode;
use crate::pipeline::PipelineError;
use crate::telemetry::with_causes;

/// Classifies a pipeline error: this picture's, or one that ends the run.
pub(super) fn process_error(error: &PipelineError) -> ProcessError {
    let code = match error {
        PipelineError::Decode(error) | PipelineError::AuxImage { error, .. } => match error {
            DecodeError::Empty | DecodeError::Corrupt(_) => ErrorCode::InvalidImage,
            DecodeError::Unsupported { .. } => ErrorCode::UnsupportedMediaType,
            DecodeError::TooManyBytes { .. }
            | DecodeError::TooManyPixels { .. }
            | DecodeError::TooManyMegapixels { .. } => ErrorCode::PayloadTooLarge,
            DecodeError::Worker(_) => ErrorCode::InternalError,
        },
        PipelineError::OutputTooLarge(_) => ErrorCode::OutputTooLarge,
        PipelineError::NoSubject(_) => ErrorCode::NoSubjectDetected,
        PipelineError::NoFace => ErrorCode::NoFaceDetected,
        PipelineError::NoAlpha | PipelineError::Guidance(_) => ErrorCode::InvalidParameter,
        PipelineError::Encode(_) => ErrorCode::InternalError,
        PipelineError::Engine(error) => match error {
            EngineError::Device(_) | EngineError::Panicked(_) => ErrorCode::InternalError,
            EngineError::DeadlineExceeded => ErrorCode::Unavailable,
            EngineError::QueueFull { .. } => ErrorCode::RateLimitExceeded,
            // All other pictures would fail too.
            EngineError::Stopped | EngineError::Failed(_) => return ProcessError::Fatal(with_causes(error)),
        },
    };
    ProcessError::Rejected(Failure { code: code.name(), message: with_causes(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::Code;

    #[test]
    fn storage_error_codes_are_api_error_codes() {
        for code in Code::ALL {
            assert!(ErrorCode::ALL.iter().any(|known| known.name() == code.name()), "{}", code.name());
        }
    }

    #[test]
    fn a_damaged_file_is_rejected_and_a_network_that_does_not_load_is_fatal() {
        let rejected = process_error(&PipelineError::Decode(DecodeError::Empty));
        assert!(matches!(rejected, ProcessError::Rejected(Failure { code: "invalid_image", .. })), "{rejected:?}");
        let fatal = process_error(&PipelineError::Engine(EngineError::Failed("no memory".into())));
        assert!(matches!(fatal, ProcessError::Fatal(_)), "{fatal:?}");
    }
}
