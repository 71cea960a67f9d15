"""The Ray side: controller, tasks and the embedded cluster. Only this package imports Ray."""
