"""Run the Python of a page, block by block; `python docs/execute.py` draws the pictures of the tutorial again."""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "tutorial.md"


def blocks(page: Path) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def execute(page: Path, folder: Path, changes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The names that are left after running all blocks in a folder; `changes` are made to the text first."""
    names: dict[str, Any] = {"__name__": "tutorial"}
    with contextlib.chdir(folder):
        for number, block in enumerate(blocks(page), start=1):
            for old, new in (changes or {}).items():
                block = block.replace(old, new)
            exec(compile(block, f"{page.name}, block {number}", "exec"), names)
    return names


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    with tempfile.TemporaryDirectory() as temporary:
        execute(PAGE, Path(temporary))
        for picture in Path(temporary).glob("*.png"):
            shutil.copy(picture, PAGE.parent / "pictures" / f"tutorial_{picture.name}")
            print(f"wrote docs/pictures/tutorial_{picture.name}")
