//! Tests of the file on a disk that fails and loses power. Fuzz targets use the disk, too.

pub(super) mod faulty_disk;
#[cfg(test)]
mod power_loss;
#[cfg(test)]
mod storage_fault;
