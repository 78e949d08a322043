"""Point indexes in the table: declaring them, filling them while chunksets are written, and asking them first."""
