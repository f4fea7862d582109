"""What a run needs is written to its folder: run.yaml, a schema that is no file yet, lists of codes beside it."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

import numpy as np

from .conditions import cell_text
from .errors import HALF, ConclaveError
from .program import PathLike
from .yaml_text import yaml_text

_LABELLED = "the schema names a label of its own; leave label= out, or change the schema"
# The name of a list of codes in the text of a schema.
_LIST = re.compile(r"""\bcodes["']?\s*:\s*("[^"\n]+"|'[^'\n]+'|[^,}\n#]+)""")


class Folder:
    """A new or empty folder, which the owner alone can read; None is one for temporary files."""

    def __init__(self, out: Optional[PathLike]):
        self._written: List[Path] = []
        self._temporary = out is None
        if out is None:
            self.path = Path(tempfile.mkdtemp(prefix="conclave-"))
            return
        self.path = Path(os.path.abspath(os.fspath(out)))
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise ConclaveError(f"{self.path} is not an empty folder; name another one by out=")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, name: str, content: Union[str, bytes]) -> None:
        """Write a new file that its owner alone can read."""
        path = self.path / name
        if isinstance(content, str):
            content = _encoded(name, content)
        if path.exists():
            raise ConclaveError(f"{path} exists already; give the list of codes another name")
        self._written.append(path)
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
                f.write(content)
        except OSError as error:
            raise ConclaveError(f"{path}: cannot be written ({error.strerror}); name another out=") from None

    def write_unnamed(self, name: str, content: str) -> Optional[int]:
        """Write what nobody finds on the disk once this process and its program have ended, however they end.

        The file has lost its name before anything is in it. The name is a link to the descriptor that is returned, for
        who inherits that. Where the system has no such links it is a file as others, and None.
        """
        raw = _encoded(name, content)
        self.write(name, "")
        path = self.path / name
        descriptor = os.open(path, os.O_RDWR)
        if not os.path.exists(f"/proc/self/fd/{descriptor}"):
            os.close(descriptor)
            self.remove(name)
            self.write(name, raw)
            return None
        try:
            path.unlink()
            with os.fdopen(os.dup(descriptor), "wb") as f:
                f.write(raw)
            path.symlink_to(f"/proc/self/fd/{descriptor}")
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise ConclaveError(f"{path}: cannot be written ({error.strerror}); name another out=") from None
            raise
        return descriptor

    def write_yaml(self, name: str, document: Mapping[str, Any]) -> None:
        self.write(name, yaml_text(document))

    def remove(self, name: str) -> None:
        """Remove a file that was written, where it is still there."""
        path = self.path / name
        if path in self._written and os.path.lexists(path):
            path.unlink()

    def clear_without_result(self) -> None:
        """Leave the folder as it was where the run made nothing, so that it can be tried again."""
        if (self.path / "result").exists():
            return
        for path in self._written:
            self.remove(path.name)
        if self._temporary:
            self.path.rmdir()


def _encoded(name: str, text: str) -> bytes:
    if HALF.search(text):
        raise ConclaveError(f"{name}: it has half a character (a lone surrogate); correct the text or the name")
    return text.encode("utf-8")


def schema_file(schema: Union[Mapping[str, Any], PathLike], label: Optional[str], folder: Folder) -> str:
    """The path of the schema, which is written to the folder where it is no file as it is."""
    if isinstance(schema, Mapping):
        if label is not None and schema.get("label", label) != label:
            raise ConclaveError(_LABELLED)
        whole = {**schema, **({} if label is None else {"label": label})}
        if isinstance(whole.get("columns"), (list, tuple)):
            lists: Dict[str, Path] = {}
            whole["columns"] = [_column(c, lists) if isinstance(c, Mapping) else c for c in whole["columns"]]
            for path in lists.values():
                if not path.is_file():
                    warnings.warn(f"{path}: the list of codes is not there: the synthetic rows hold prefixes in place "
                                  "of codes; put it there to have codes", stacklevel=3)
            _copy(lists.values(), folder)
        text = yaml_text(whole)
    elif isinstance(schema, str) and _is_text(schema):
        text = _labelled(schema, label)
        _copy(_lists(text, Path.cwd()), folder)
    elif isinstance(schema, (str, os.PathLike)):
        source = Path(os.path.abspath(os.fspath(schema)))
        if label is None:
            return str(source)
        try:
            text = _labelled(source.read_text("utf-8-sig"), label)
        except (OSError, UnicodeDecodeError) as error:
            raise ConclaveError(f"{source}: cannot read the schema ({error}); check the path") from None
        _copy(_lists(text, source.parent), folder)
    else:
        raise ConclaveError(f"the schema is a {type(schema).__name__}; pass a dict, the path of a schema.yaml (a model "
                            "folder has one) or the text of one")
    folder.write("schema.yaml", text)
    return str(folder.path / "schema.yaml")


def _is_text(schema: str) -> bool:
    """Whether it is the text of a schema, and no path."""
    return "\n" in schema or bool(re.search(r"^\s*\{|:(\s|$)", schema)) and not os.path.exists(schema)


def _labelled(text: str, label: Optional[str]) -> str:
    """The text of a schema with a label."""
    if label is None:
        return text
    if re.search(r"^label\s*:", text, re.MULTILINE):
        raise ConclaveError(_LABELLED)
    if text.lstrip().startswith("{"):
        raise ConclaveError("the schema is written in braces; write its label there, and leave label= out")
    return yaml_text({"label": label}) + text


def _column(of: Mapping[str, Any], lists: Dict[str, Path]) -> Dict[str, Any]:
    """A column of a dict as a file has it: categories as cells are written, a list of codes by its name."""
    out = dict(of)
    if isinstance(of.get("categories"), (list, tuple, np.ndarray)):
        out["categories"] = [cell_text(v) if isinstance(v, (bool, np.bool_)) else v for v in of["categories"]]
    if isinstance(of.get("codes"), (str, os.PathLike)) and os.fspath(of["codes"]):
        path = Path(os.path.abspath(os.fspath(of["codes"])))
        if lists.setdefault(path.name, path) != path:
            raise ConclaveError(f"{path} and {lists[path.name]} have one name; rename one of the lists of codes")
        out["codes"] = path.name
    return out


def _lists(text: str, folder: Path) -> List[Path]:
    """The lists of codes that the text of a schema names, beside it."""
    names = [match.strip().strip("\"'") for match in _LIST.findall(text)]
    return [folder / name for name in dict.fromkeys(names) if name == Path(name).name]


def _copy(lists: Iterable[Path], folder: Folder) -> None:
    """Copy lists of codes, where they are there, beside the schema that is written."""
    for path in lists:
        if not path.is_file():
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConclaveError(f"{path}: cannot read the list of codes ({error.strerror}); check the file") from None
        folder.write(path.name, content)
