"""What users hand over becomes arrays of rows: arrays, frames, tensors, files."""
