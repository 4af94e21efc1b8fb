//! Cuts out one photo with the library.
//!
//! ```sh
//! cargo run --release --example cut_out -- photo.jpg cutout.png
//! ```

use backdrop::Cutter;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(photo), Some(cutout), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: cut_out PHOTO CUTOUT".into());
    };
    let output = Cutter::of("remove", &[("max_dim", "2000")])?.cut_out(std::fs::read(photo)?)?;
    std::fs::write(&cutout, &output.image.bytes)?;
    println!("{cutout}: {} bytes, model {}, subject {:?}", output.image.bytes.len(), output.model, output.subject);
    Ok(())
}
