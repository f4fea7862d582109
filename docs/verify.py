#!/usr/bin/env python3
"""Checks the output folder of a run without Conclave: verify.py DIR ca.crt

Exit code 0: all checks passed. 1: a check failed, and a line says which. It does not check what releases cost
(mechanisms, accountant, epsilon_spent): see privacy-accounting.md.
"""
import base64, calendar, datetime, hashlib, json, os, sys
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

FIELDS = """seq day type dataset run round planned kind budget plan masked facts unit neighbouring roster events queries
answered entries epsilon_spent release_sha256 manifest_sha256 by fence previous hash""".split()


def need(holds, what):
    if not holds:
        sys.exit("FAILED: " + what)


def sha(raw):
    return hashlib.sha256(raw).hexdigest()


def once(pairs):  # JSON parsers disagree about repeated keys
    need(len(dict(pairs)) == len(pairs), "a JSON file has the same key twice")
    return dict(pairs)


def read(name):
    with open(os.path.join(sys.argv[1], *name.split("/")), "rb") as f:
        return f.read()


def check(key, value, text, digest=None):  # raises an exception unless value is the key's signature of text
    if isinstance(key, rsa.RSAPublicKey):
        key.verify(value, text, padding.PKCS1v15(), digest or hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(value, text, ec.ECDSA(digest or hashes.SHA256()))
    else:
        key.verify(value, text)  # Ed25519


def moments(cert):  # the first and the last second of its validity, since 1970
    ends = [getattr(cert, n + "_utc", None) or getattr(cert, n) for n in ("not_valid_before", "not_valid_after")]
    return [calendar.timegm(t.timetuple()) for t in ends]


def extension(cert, kind):
    return cert.extensions.get_extension_for_class(kind).value


def issued(cert, issuer, below):  # whether issuer may have `below` authorities under it, and signed cert
    if cert.issuer != issuer.subject:
        return False
    try:
        check(issuer.public_key(), cert.signature, cert.tbs_certificate_bytes, cert.signature_hash_algorithm)
    except InvalidSignature:
        return False
    basic = extension(issuer, x509.BasicConstraints)
    return (basic.ca and extension(issuer, x509.KeyUsage).key_cert_sign and
            (basic.path_length is None or basic.path_length >= below))


def believe(chain, roots, day):  # a chain from the certificate to a root was valid at some moment of the day
    path = [chain[0]]
    while path[-1] not in roots:
        above = [c for c in [*roots, *chain[1:]] if c not in path and issued(path[-1], c, len(path) - 1)]
        need(above, f"{path[-1].subject.rfc4514_string()} was not issued under the authority")
        path.append(above[0])
    begin = calendar.timegm(datetime.date.fromisoformat(day).timetuple())
    first, last = max(moments(c)[0] for c in path), min(moments(c)[1] for c in path)
    need(max(first, begin) <= min(last, begin + 86399), f"a certificate was not valid on {day}")


def signer(g, text, roots, day):  # the role, name and key fingerprint of the signer
    chain = [x509.load_der_x509_certificate(base64.b64decode(c, validate=True)) for c in g["chain"]]
    try:
        check(chain[0].public_key(), base64.b64decode(g["signature"], validate=True), text.encode())
    except InvalidSignature:
        need(False, f"{chain[0].subject.rfc4514_string()} did not sign this {text[9:text.index(' 1')]}")
    believe(chain, roots, day)
    uris = extension(chain[0], x509.SubjectAlternativeName).get_values_for_type(x509.UniformResourceIdentifier)
    names = [u.removeprefix("conclave://") for u in uris if u.startswith("conclave://")]
    need(len(names) == 1 and names[0].count("/") == 1, "a certificate has no name of the form conclave://ROLE/NAME")
    public = chain[0].public_key().public_bytes(serialization.Encoding.DER,
                                                serialization.PublicFormat.SubjectPublicKeyInfo)
    return (*names[0].split("/"), sha(public))


def main():
    with open(sys.argv[2], "rb") as f:
        pem = f.read().split(b"-----BEGIN CERTIFICATE-----")[1:]
    roots = [x509.load_pem_x509_certificate(b"-----BEGIN CERTIFICATE-----" + c) for c in pem]
    manifest, certificate, signatures = (json.loads(read(n + ".json"), object_pairs_hook=once)
                                         for n in ("manifest", "certificate", "signatures"))

    # The chain of the ledger.
    entries, previous = [], ""
    text = read("ledger.jsonl").decode()
    need(text.endswith("\n"), "the ledger was cut off")
    for line in text.removesuffix("\n").split("\n"):
        e = json.loads(line, object_pairs_hook=once)
        body = line[:line.rindex('"hash":')] + '"hash":""}'
        need([k for k in FIELDS if k in e] == list(e) and line == body[:-3] + json.dumps(e["hash"]) + "}",
             f"line {len(entries) + 1} of the ledger does not have the canonical form")
        need(e["seq"] == len(entries) + 1 and e["previous"] == previous and e["hash"] == sha(body.encode()),
             f"line {len(entries) + 1} of the ledger was altered")
        entries, previous = entries + [e], e["hash"]

    # The certificate agrees with the entries of its run.
    own = [e for e in entries if e.get("run") == certificate["run"]]
    run = {e["type"]: e for e in own}
    once_each = [e["type"] for e in own if e["type"] not in ("release", "abandoned")]
    need(once_each in (["run", "close"], ["run", "roster", "close"]) and own[-1]["type"] == "close" and
         entries[0]["type"] == "open", "the ledger does not have all of the run, from its opening to its end")
    facts, roster, day = run["run"]["facts"], run.get("roster", {}).get("roster", []), run["close"]["day"]
    need(roster or "release" not in run, "the run has releases but no roster")
    budget = (entries[0] if facts.get("earlier") else run["run"])["budget"]
    for name, known in [
            *((k, facts.get(k)) for k in ("student", "pipeline", "schema_sha256", "teachers", "purpose", "study",
                                          "earlier")),
            ("votes", "coin" if facts.get("coin") else None), ("roster", roster), ("guarantee", "data-independent"),
            *((k, budget[k]) for k in ("epsilon", "delta")), ("overlap", entries[0]["budget"].get("overlap")),
            *((k, entries[0][k]) for k in ("unit", "neighbouring"))]:
        said = certificate.get(name)
        need(said == known, f"{name}: the certificate says {said!r} and the ledger {known!r}")
    masks = run["run"].get("masked", {})
    known = (len(masks.get("members", [])), masks.get("quorum"), masks.get("colluding", 0))
    said = certificate.get("masked")
    need(said is None and (not masks or facts.get("earlier")) or
         said and (said["sites"], said["quorum"], said["colluding"]) == known,
         f"masked: the certificate says {said!r} and the ledger (sites, quorum, colluding) {known!r}")
    need(certificate["ledger_head"] in [e["hash"] for e in entries[run["close"]["seq"] - 1:]],
         "the certificate's ledger_head is not an entry at or after the run's end")

    # The files.
    need(sha(read("manifest.json")) == certificate["manifest_sha256"], "the certificate names another manifest.json")
    sealed = certificate["manifest_sha256"] == run["close"].get("manifest_sha256")
    need(sealed or "manifest_sha256" not in run["close"], "manifest.json is not what the run was closed with")
    need((manifest["run"], manifest["rows"]) == (certificate["run"], certificate["rows"]),
         "manifest.json belongs to another run, or to other rows")
    for f in manifest["files"] + signatures["reports"]:
        need(not {"", ".", ".."} & set(f["name"].split("/")) and not set("\\:\0") & set(f["name"]),
             f"{f['name']!r} is not the name of a file in the folder")
        need(sha(read(f["name"])) == f["sha256"], f["name"] + " was altered")
    named = {f["name"]: f["sha256"] for f in manifest["files"]}
    need(len({"synthetic.csv", "synthetic.parquet"} & set(named)) == 1
         and named.get("model/schema.yaml") == facts["schema_sha256"],
         "manifest.json does not list the rows and the schema of the run")

    # The signatures.
    head = f"conclave ledger head 1\n{entries[0]['dataset']}\n{len(entries)}\n{previous}\n"
    by = [signer(g, head, roots, day) for g in signatures["ledger"]]
    need(all(role in ("aggregator", "node") for role, _, _ in by),
         "the ledger is signed by somebody who is neither a site nor the aggregator")
    for m in run["run"].get("masked", {}).get("members", []):
        need(all(key == m["key"] for role, name, key in by if (role, name) == ("node", m["site"])),
             f"site {m['site']} did not sign with the key that the masked run names")
    witnesses = {s["site"] for s in roster} if roster else {  # the sites of the runs that this one continued
        s["site"] for e in entries if e["type"] == "roster" and e["run"] in facts.get("earlier", [])
        for s in e["roster"]}
    need(witnesses, "no site was asked, so none vouches for the ledger")
    missing = witnesses - {name for role, name, _ in by if role == "node"}
    need(not missing, f"the ledger's end is not signed by {sorted(missing)}")
    need("aggregator" in [role for role, _, _ in by], "the ledger's end is not signed by the aggregator")
    need("release" in signatures, "the student did not sign manifest and certificate")
    release = "\n".join(["conclave release 1", certificate["run"], sha(read("manifest.json")),
                         sha(read("certificate.json")),
                         *(f["sha256"] + " " + f["name"] for f in signatures["reports"])]) + "\n"
    role, name, _ = signer(signatures["release"], release, roots, day)
    need(role == "student" and name in (facts["student"], run["close"].get("by")),
         "manifest and certificate are signed neither by the run's student nor by the worker that closed it")
    print(f"run {certificate['run']}: files, ledger and certificate pass all checks; signed by student {name}, the "
          f"aggregator" + "".join(f", site {s}" for s in sorted(witnesses)))
    if not sealed:
        print(f"somebody else ended the run, without a list of files: only {name} vouches for this list")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: verify.py DIR ca.crt")
    if not os.path.isdir(sys.argv[1]):
        sys.exit(f"FAILED: {sys.argv[1]} is not a folder: unpack a bundle first")
    try:
        main()
    except Exception as error:  # a missing or malformed file, or an invalid signature
        sys.exit(f"FAILED: {type(error).__name__}: {error}")
