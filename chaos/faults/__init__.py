"""One file a fault; `build_fault` turns a line of a scenario's method into one."""
