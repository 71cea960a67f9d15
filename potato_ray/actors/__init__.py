"""The Ray side: controller, tasks and the embedded cluster. Only this package imports Ray."""

from potato_ray.actors.switches import set_switches

set_switches()
