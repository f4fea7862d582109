"""Lists of codes: the first column of a CSV file, or a code a line. They are read as the program reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, Tuple

from .errors import HALF, ConclaveError
from .schema import Column

_MOST_BYTES, _MOST_CODES, _LONGEST = 64 << 20, 1 << 20, 64
_DELIMITERS = ",;\t|"
# What the program takes for space; str.strip has some more.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_MANY = f"there are more than {_MOST_CODES} codes; keep only those of the schema's prefixes"


def codes_under(column: Column, path: Path) -> List[List[str]]:
    """The codes under each prefix of a column, by a list.

    Raises
    ------
    ConclaveError
        Where it is no such list, or has no code of a prefix.
    """
    under: List[Dict[str, None]] = [{} for _ in column.categories]
    places = {prefix: i for i, prefix in enumerate(column.categories)}
    lengths = sorted({len(prefix) for prefix in places}, reverse=True)
    for code in read(path):
        at = next((places[code[:n]] for n in lengths if code[:n] in places), None)
        if at is not None:
            under[at][code] = None
    if not all(under):
        raise ConclaveError(f'{path}: a prefix of column "{column.name}" has no code in it; add one')
    return [list(codes) for codes in under]


def read(path: Path) -> List[str]:
    """All codes of a list; a first one that is a header is left out.

    Raises
    ------
    ConclaveError
        With the line of what is no code.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConclaveError(f"{path}: cannot read the list of codes ({error.strerror}); check the file") from None
    if len(raw) > _MOST_BYTES:
        raise ConclaveError(f"{path}: the file has more than {_MOST_BYTES >> 20} MiB; keep only the codes")
    try:
        out = _all(raw[3:] if raw.startswith(b"\xef\xbb\xbf") else raw)
    except ValueError as error:
        raise ConclaveError(f"{path}: {error}") from None
    if not out:
        raise ConclaveError(f"{path}: there is no code; put the codes in the first column")
    return out


def _all(raw: bytes) -> List[str]:
    """The codes of a list. A ValueError says what is wrong with it."""
    text = raw.decode("latin-1")  # a character for each byte: other columns may be in any encoding
    out: List[str] = []
    line, at, among = 1, 0, _DELIMITERS
    while at < len(text):
        begin, quoted = at, text[at] == '"'
        field, at, among = _record(text, begin, among)
        if at < 0:
            raise ValueError(f"line {line} has broken quotes; double the quotes in a cell that begins with one")
        code = _trimmed(field)
        if code:
            _check(code, quoted, line)
            if len(out) > _MOST_CODES:  # with a header
                raise ValueError(_MANY)
            out.append(code)
        line += text.count("\n", begin, at)
    out = out[_is_header(out) :]
    if len(out) > _MOST_CODES:
        raise ValueError(_MANY)
    return out


def _trimmed(field: str) -> str:
    """The text of bytes. Those that are not UTF-8 are halves of characters in it."""
    return field.encode("latin-1").decode("utf-8", "surrogateescape").strip(_SPACE)


def _check(code: str, quoted: bool, line: int) -> None:
    size = len(code.encode("utf-8", "surrogateescape"))
    if HALF.search(code):
        raise ValueError(f"line {line} is not UTF-8; save the file as UTF-8")
    if size <= _LONGEST and not quoted and any(d in code for d in _DELIMITERS):
        raise ValueError(f"line {line} has another delimiter than the first line; write all lines alike, or the code "
                         "in quotes")
    if size > _LONGEST or _CONTROL.search(code):
        raise ValueError(f"line {line} does not begin with a code of at most {_LONGEST} bytes; put the codes in the "
                         "first column")


def _record(text: str, at: int, among: str) -> Tuple[str, int, str]:
    """The first cell of a record, where the next one begins (-1 where quotes are broken), and the delimiter.

    Of several delimiters it is the one behind that cell, or a comma; a line without a code leaves them.
    """
    first, at = _cell(text, at, among)
    if 0 <= at < len(text) and text[at] != "\n":
        among = text[at]
    elif len(among) > 1 and _trimmed(first):
        among = ","
    while 0 <= at < len(text) and text[at] != "\n":
        at = _cell(text, at + 1, among)[1]
    return first, at + (0 <= at < len(text)), among


def _cell(text: str, at: int, among: str) -> Tuple[str, int]:
    """The cell that begins at a place, and where it ends: at a delimiter, a line end or the text's end.

    -1 where something stands behind closing quotes, or none close.
    """
    if not text.startswith('"', at):
        end = _ENDS[among].search(text, at)
        stop = end.start() if end else len(text)
        return text[at:stop], stop
    begin = at = at + 1
    while True:
        at = text.find('"', at)
        if at < 0:
            return "", -1
        if not text.startswith('"', at + 1):
            break
        at += 2
    cell, at = text[begin:at].replace('""', '"'), at + 1
    if text.startswith("\r\n", at) or text[at : at + 2] == "\r":
        at += 1
    return cell, at if at == len(text) or text[at] in among + "\n" else -1


_ENDS = {among: re.compile(f"[{among}\n]") for among in (_DELIMITERS, *_DELIMITERS)}


def _is_header(codes: List[str]) -> bool:
    """Whether the first one is the name of the column.

    It is code, codes, or begins with ICD, ATC or OPS, in any case; or has at least three characters and no digit,
    before codes that all have one.
    """
    if not codes:
        return False
    name = codes[0].replace("\u0130", "i").lower()
    if name in ("code", "codes") or name.startswith(("icd", "atc", "ops")):
        return True
    return len(codes) > 1 and len(name) >= 3 and all(
        bool(_DIGIT.search(code)) == (i > 0) for i, code in enumerate(codes))


_DIGIT = re.compile("[0-9]")
