"""Read arrays, frames, tensors and files into arrays of rows."""
