"""What a call does to the machine besides taking time: sensors, never used inside timed blocks."""
