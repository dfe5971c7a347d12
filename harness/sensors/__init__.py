"""What a call does to the machine, besides taking time: sensors, each one source of figures. None runs inside a timed block."""
