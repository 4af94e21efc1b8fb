"""Training of the retouching networks: `upscale` (super-resolution by 2 and 4) and `restore` (face restoration)."""
