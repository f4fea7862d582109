"""The program `conclave`: where it is, and how it is called."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Union

from .errors import ConclaveError
from .signals import ends_in_order, held

PathLike = Union[str, "os.PathLike[str]"]

VARIABLE = "CONCLAVE_BINARY"
_PATIENCE = 30  # seconds that an interrupted program has to end in order


def find(binary: Optional[PathLike] = None) -> str:
    """The path of the program: the argument, else that of the environment, else the one of PATH.

    Raises
    ------
    ConclaveError
        Where there is none.
    """
    for given, whose in ((binary, "binary"), (os.environ.get(VARIABLE), VARIABLE)):
        if given:
            found = shutil.which(os.fspath(given))
            if found is None:
                raise ConclaveError(f"{whose}: {os.fspath(given)} is no program; name the file `conclave`")
            return os.path.abspath(found)
    found = shutil.which("conclave")
    if found is None:
        raise ConclaveError("the program `conclave` is not found; build it with `go build ./cmd/conclave` in a clone "
                            f"of Conclave, and name it by binary=, by {VARIABLE} or on PATH")
    return found


def call(program: str, arguments: Sequence[str], *, show: bool = False, accept: Sequence[int] = (),
         renamed: Optional[Mapping[str, str]] = None, inherits: Sequence[int] = ()) -> str:
    """Run the program, and return its standard output.

    Parameters
    ----------
    show : bool
        Whether its standard error is passed on line by line, as it comes.
    accept : list of int
        Exit codes that are no error where there is an answer.
    renamed : dict, optional
        Texts of what it says, such as paths, with what is said in their place.
    inherits : list of int
        Descriptors that it can read too.

    Raises
    ------
    ConclaveError
        With the program's own message, where it ends with another exit code.
    """
    with ends_in_order(), held() as let_signals_come:
        try:
            process = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, encoding="utf-8", errors="replace", env=_environment(),
                                       pass_fds=tuple(inherits))
        except OSError as error:
            raise ConclaveError(f"{program}: cannot be started ({error.strerror}); build it on this machine") from None
        except ValueError:
            raise ConclaveError("a path or a condition is no text that a program can be given; correct it") from None
        answer: List[str] = []
        assert process.stdout is not None and process.stderr is not None
        reader = threading.Thread(target=lambda out: answer.append(out.read()), args=(process.stdout,), daemon=True)
        said: List[str] = []
        try:
            let_signals_come()
            reader.start()
            for line in process.stderr:
                for text, instead in (renamed or {}).items():
                    line = line.replace(text, instead)
                said.append(line)
                if show:
                    sys.stderr.write(line)
                    sys.stderr.flush()
            code = process.wait()
        except BaseException:
            _end(process)
            raise
        finally:
            process.stderr.close()
            if reader.ident is not None:
                reader.join(_PATIENCE)
            process.stdout.close()
    if code and (code not in accept or not "".join(answer)):
        raise ConclaveError(_message(said) or f"{Path(program).name} {arguments[0]} ended with exit code {code}")
    return "".join(answer)


def _end(process: "subprocess.Popen[str]") -> None:
    """End the program, in order where it does so in time and nobody is more impatient."""
    process.send_signal(signal.SIGINT)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _environment() -> Dict[str, str]:
    """Without settings of the program, which would change what was asked for."""
    return {k: v for k, v in os.environ.items() if not k.startswith("CONCLAVE_")}


def _message(said: Sequence[str]) -> str:
    """The error at the end of what the program said; it may have several lines."""
    name = "conclave: "
    at = max((i for i, line in enumerate(said) if line.startswith(name)), default=0)
    return "".join(said[at:]).strip().replace(name, "", 1) if said else ""
