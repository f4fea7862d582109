"""The quick start does what it says."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_quick_start(program, tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "python" / "README.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "[1000 rows x 4 columns]" in out and "epsilon 1; files: unsigned" in out and "creatinine" in out
