"""The `face` network: labels, samples, training, export and measurements. Run the programs from `weights/train`."""
