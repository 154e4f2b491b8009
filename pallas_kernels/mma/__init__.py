"""What the fused kernels share: a tile decoded in registers, and multiplied there."""
