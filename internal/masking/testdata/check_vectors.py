"""Checks vectors.json without any of the Go code: python3 check_vectors.py (it needs `cryptography`)."""
import hashlib, hmac, itertools, json, os, struct
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
v = json.load(open(os.path.join(os.path.dirname(__file__), "vectors.json")))
octets = bytes.fromhex
def encode(*fields):  # each with its length in front
    raw = b""
    for f in ("conclave masked sums 3",) + fields:
        f = struct.pack(">Q", f) if isinstance(f, int) else f.encode() if isinstance(f, str) else f
        raw += struct.pack(">Q", len(f)) + f
    return raw
def sha256(raw): return hashlib.sha256(raw).digest()
def hkdf(secret, info):  # HKDF-SHA256 without salt, 32 bytes
    key = hmac.new(bytes(32), secret, "sha256").digest()
    return hmac.new(key, info + b"\x01", "sha256").digest()
def mask(seed, n):  # AES-256-CTR from zero, little-endian
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(8 * n))
    return struct.unpack("<%dQ" % n, stream)

r, spec, members, sites = v["round"], octets(v["spec_sha256"]), v["members"], [m["site"] for m in v["members"]]
fields = ["terms", v["run"], spec, r["number"], r["fence"], r["counter"], octets(r["question_sha256"]), r["entries"]]
fields += r["share"] + [len(members), v["quorum"], v["colluding"], len(members)]
for m in members:
    signer = Ed25519PrivateKey.from_private_bytes(octets(m["certificate_private_key"]))
    key, exchange = X25519PrivateKey.from_private_bytes(octets(m["run_private_key"])), octets(m["exchange"])
    assert sha256(octets(m["identity"])) == octets(m["fingerprint"]) and key.public_key().public_bytes_raw() == exchange
    assert encode("run key", v["run"], spec, m["site"], exchange) == octets(m["signed"])
    assert signer.sign(sha256(octets(m["signed"]))) == octets(m["signature"])
    fields += [m["site"], exchange, octets(m["identity"]), octets(m["signature"])]
terms = sha256(octets(r["terms"]))
assert encode(*fields) == octets(r["terms"]) and terms == octets(r["terms_sha256"])
reach, seeds, keys = (v["colluding"] + len(members) - v["quorum"] + 2) // 2, {}, {}
assert [(p["first"], p["second"]) for p in v["pairs"]] == list(itertools.combinations(sites, 2))
for p in v["pairs"]:
    a, b = (members[sites.index(p[x])] for x in ("first", "second"))
    shared = X25519PrivateKey.from_private_bytes(octets(a["run_private_key"])).exchange(
        X25519PublicKey.from_public_bytes(octets(b["exchange"])))
    secret = hkdf(shared, encode("pair", spec, a["site"], octets(a["exchange"]), b["site"], octets(b["exchange"])))
    apart = sites.index(p["second"]) - sites.index(p["first"])
    assert ("seed" in p) == (min(apart, len(sites) - apart) <= reach)  # partners share a mask
    if "seed" in p:
        seeds[p["first"], p["second"]] = hkdf(secret, encode("round", terms))
        assert seeds[p["first"], p["second"]] == octets(p["seed"])
    for way, shown in (("first", "second"), "first_tags"), (("second", "first"), "second_tags"):
        keys[p[way[0]], p[way[1]]] = hkdf(secret, encode("tag", p[way[0]], p[way[1]]))
        assert keys[p[way[0]], p[way[1]]] == octets(p[shown])
n, total, u = r["entries"], [0] * r["entries"], v["agreed"]["survivors"]
assert [a["site"] for a in v["answers"]] == sites and [x["site"] for x in v["revealed"]] == u
for a in v["answers"]:
    sent = [x + e + b for x, e, b in zip(a["vector"], a["noise"], mask(octets(a["own_seed"]), n))]
    for (first, second), seed in seeds.items():
        sign = (first == a["site"]) - (second == a["site"])
        sent = [x + sign * m for x, m in zip(sent, mask(seed, n))]
    assert struct.pack("<%dQ" % n, *(x % 2**64 for x in sent)) == octets(a["masked"])
    total = [t + x for t, x in zip(total, sent)] if a["site"] in u else total
assert encode("survivors", v["run"], terms, len(u), *u) == octets(v["agreed"]["hashed"])
name = sha256(octets(v["agreed"]["hashed"]))
assert name == octets(v["agreed"]["hashed_sha256"])
for site, tags, shown in zip(u, v["agreed"]["tags"], v["revealed"]):
    assert [hmac.new(keys[site, other], name, "sha256").digest() for other in u if other != site] == [
        octets(tag) for tag in tags]
    total = [t - m for t, m in zip(total, mask(octets(shown["own"]), n))]
    lost_partners = [x for x in sites if x not in u and (min(site, x), max(site, x)) in seeds]
    assert len(lost_partners) == len(shown["lost"])
    for lost, seed in zip(lost_partners, shown["lost"]):
        sign = 1 if site < lost else -1
        total = [t - sign * m for t, m in zip(total, mask(octets(seed), n))]
assert [(t + 2**63) % 2**64 - 2**63 for t in total] == v["total"]
print("the vectors are right")
