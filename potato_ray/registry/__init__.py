"""The registry: runs, queue, predictions and reservations in `<task_dir>/project.sqlite`."""
