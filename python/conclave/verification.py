"""Checks what a run gave out: rows, model, certificate, ledger and signatures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Tuple

from . import program
from .errors import ConclaveError


@dataclass(frozen=True)
class Check:
    """One check: proven, unsigned (it holds, by a signature of nobody that was named), stated, missing or failed."""

    what: str
    state: str
    says: str
    by: str = ""


@dataclass(frozen=True)
class Verification:
    """All checks of a run.

    Attributes
    ----------
    verdict : str
        The worst of them: proven, unsigned, missing or failed.
    """

    run: str
    verdict: str
    checks: Tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether all checks passed. Without an authority the author of the files may have made the signatures."""
        return self.verdict in ("proven", "unsigned")

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return "\n".join(f"{c.state:9} {c.what}: {c.says}" + (f" ({c.by})" if c.by else "") for c in self.checks)


def verify(path: program.PathLike, *, authority: Optional[program.PathLike] = None,
           binary: Optional[program.PathLike] = None) -> Verification:
    """Check an output folder, or a bundle of one, with `conclave verify`. That needs the program.

    Parameters
    ----------
    path : path
        The output folder of a run, a bundle (.zip), or what `fit` was given as `out`.
    authority : path, optional
        The certificate of the authority (PEM) that the sites gave you. A local run signs itself.

    Raises
    ------
    ConclaveError
        Where there is no program, or no run in the folder. What does not hold is no error: see `holds`.
    """
    given = Path(path)
    if (given / "result").is_dir() and not (given / "certificate.json").exists():
        given = given / "result"
    arguments = ["verify", str(given), "--format", "json"]
    if authority is not None:
        arguments += ["--authority", str(authority)]
    path = program.find(binary)
    answer = program.call(path, arguments, accept=(1, 3))
    try:
        found = json.loads(answer)
        checks = tuple(Check(c["what"], c["state"], c["says"], c.get("by", "")) for c in found["checks"])
        return Verification(found.get("run", ""), found["verdict"], checks)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConclaveError(f"{path} gave no answer to `conclave verify`; name the program `conclave`") from None
