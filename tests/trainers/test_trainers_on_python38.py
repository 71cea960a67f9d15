import subprocess
from pathlib import Path

from parts import need_python38

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (ROOT / "potato_ray" / "trainers").glob("*.py"))


def test_every_module_is_imported_by_python_38_without_any_package() -> None:
    names = ", ".join(f"potato_ray.trainers.{name}" for name in MODULES if name != "__init__")
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"import {names}\n"
        "from potato_ray.trainers import params, registry\n"
        "trainer = registry.get_trainer('sklearn-text')\n"
        "print(params.check_params(trainer, {'min_instances': True})[0].message)\n"
    )
    done = subprocess.run(
        [need_python38(), "-I", "-S", "-B", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "sklearn-text: min_instances must be a whole number, not True.\n"
