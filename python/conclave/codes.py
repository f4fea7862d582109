"""Lists of codes: the first column of a CSV file, or a code a line. They are read as the program reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from .errors import ConclaveError
from .schema import Column

_MOST_BYTES, _MOST_CODES, _LONGEST = 64 << 20, 1 << 20, 64
_HEADER = "code"
# What the program takes for space; str.strip has some more.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


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
    """All codes of a list.

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
        raise ConclaveError(f"{path}: the file has more than {_MOST_BYTES >> 20} MiB; keep the codes alone")
    out: List[str] = []
    for line, field in _first_fields(raw[3:] if raw.startswith(b"\xef\xbb\xbf") else raw):
        try:
            code = field.encode("latin-1").decode("utf-8").strip(_SPACE)
        except UnicodeDecodeError:
            raise ConclaveError(f"{path}: line {line} is not UTF-8; save the file as UTF-8") from None
        if not code or not out and code.lower() == _HEADER:
            continue
        if len(code.encode("utf-8")) > _LONGEST or "\r" in code or "\n" in code:
            raise ConclaveError(f"{path}: line {line} does not begin with a code of at most {_LONGEST} bytes; put the "
                                "codes in the first column")
        if len(out) == _MOST_CODES:
            raise ConclaveError(f"{path}: there are more than {_MOST_CODES} codes; keep those of the prefixes")
        out.append(code)
    if not out:
        raise ConclaveError(f"{path}: there is no code; put the codes in the first column")
    return out


def _first_fields(raw: bytes) -> Iterator[Tuple[int, str]]:
    """The line and the first field of each row, a character for each byte. A quote within a field is a part of it."""
    text = raw.decode("latin-1")
    found = re.search("[,;\t]", text[:4096].split("\n", 1)[0])
    separator = found.group() if found else ","
    lines = [line[:-1] if line.endswith("\r") else line for line in text.split("\n")]
    at = 0
    while at < len(lines):
        begin = at
        if lines[at] and '"' not in lines[at]:
            yield begin + 1, lines[at].split(separator, 1)[0]
        elif lines[at]:
            field, at = _first_field(lines, at, separator)
            yield begin + 1, field
        at += 1


def _first_field(lines: List[str], at: int, separator: str) -> Tuple[str, int]:
    """The first field of a row that begins in a line, and the line in which the row ends."""
    fields: List[str] = []
    line, place = lines[at], 0
    while True:
        if not line.startswith('"', place):
            end = line.find(separator, place)
            fields.append(line[place : end if end >= 0 else len(line)])
            if end < 0:
                return fields[0], at
            place = end + 1
            continue
        value, place = "", place + 1
        while True:
            end = line.find('"', place)
            if end < 0:  # it goes on in the next line
                value += line[place:]
                if at + 1 == len(lines):
                    return [*fields, value][0], at
                at, place = at + 1, 0
                line, value = lines[at], value + "\n"
                continue
            value, place = value + line[place:end], end + 1
            if place == len(line):
                return [*fields, value][0], at
            if line.startswith(separator, place):
                place += 1
                break
            value += '"'
            place += line.startswith('"', place)
        fields.append(value)
