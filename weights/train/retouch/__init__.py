"""Training of the two networks that retouch pictures: `upscale` makes them larger, `restore` repairs faces."""
