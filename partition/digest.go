package partition

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"math/bits"
)

type digest = [sha256.Size]byte

// nan is the one NaN of tables, so that empty cells hash equally.
var nan = math.NaN()

// hasher computes HMAC-SHA256 under one key. Every message starts with its purpose, so digests for different purposes
// never coincide.
type hasher struct {
	mac hash.Hash
	buf []byte
}

func newHasher(key Key) *hasher { return &hasher{mac: hmac.New(sha256.New, key[:])} }

// start starts a message; append to h.buf and call sum.
func (h *hasher) start(purpose string) {
	h.buf = append(h.buf[:0], "conclave/partition/1/"...)
	h.text(purpose)
}

// text appends a string with its length, so that different lists of strings never encode alike.
func (h *hasher) text(s string) {
	h.number(uint64(len(s)))
	h.buf = append(h.buf, s...)
}

func (h *hasher) number(n uint64) { h.buf = binary.BigEndian.AppendUint64(h.buf, n) }

func (h *hasher) sum() (d digest) {
	h.mac.Reset()
	h.mac.Write(h.buf)
	h.mac.Sum(d[:0])
	return d
}

// recordDigests gives each row a digest of its parsed values and, among equal rows, a running number. The set of
// digests depends only on the multiset of rows: another row adds one digest and changes no other.
func recordDigests(key Key, t *Table) []digest {
	return digestRecords(key, t.rows, func(h *hasher, row int) { h.record(t, row) })
}

// record appends the values of a row.
func (h *hasher) record(t *Table, row int) {
	for i, cell := range t.Cells(row) {
		if i == t.schema.unit {
			h.text(t.Unit(row))
			continue
		}
		h.number(cellBits(cell))
	}
}

// digestRecords is recordDigests for rows whose values add appends to a message.
func digestRecords(key Key, rows int, add func(h *hasher, row int)) []digest {
	h := newHasher(key)
	seen := make(map[digest]uint64, rows)
	out := make([]digest, rows)
	for row := range out {
		h.start("record")
		add(h, row)
		content := h.sum()
		out[row] = h.occurrence(content, seen[content])
		seen[content]++
	}
	return out
}

// occurrence distinguishes equal records by the number of earlier ones.
func (h *hasher) occurrence(content digest, before uint64) digest {
	h.start("occurrence")
	h.buf = append(h.buf, content[:]...)
	h.number(before)
	return h.sum()
}

func unitDigests(key Key, t *Table, unit string) []digest {
	if unit == UnitRecord {
		return recordDigests(key, t)
	}
	return textDigests(key, t)
}

func textDigests(key Key, t *Table) []digest {
	h := newHasher(key)
	out := make([]digest, t.rows)
	for row := range out {
		h.start("unit")
		h.text(t.Unit(row))
		out[row] = h.sum()
	}
	return out
}

func cellBits(cell float64) uint64 {
	if math.IsNaN(cell) {
		return math.Float64bits(nan)
	}
	return math.Float64bits(cell)
}

// DataSum distinguishes tables by their multiset of rows, independent of order, in constant memory. It is made with
// [NewDataSum], and not safe for concurrent use: each part of a table has its own sum, and sums are merged.
//
// For each row it adds 512 bits modulo 2^512, from two messages under the key ("MSet-Add-Hash" of Clarke, Devadas,
// van Dijk, Gassend, Suh, "Incremental multiset hash functions", 2003). Without the key HMAC-SHA256 looks random: two
// different tables have the same sum with a probability of 2^-512, even if an attacker chose them. With the key it is
// easier than for SHA-256 to find tables with the same sum. Only the site has the key and it gains nothing, because
// it could also repeat the old fingerprint.
type DataSum struct {
	h     *hasher
	words [8]uint64 // the least significant one last
	rows  int
}

// NewDataSum returns the sum of no rows.
func NewDataSum(key Key) *DataSum { return &DataSum{h: newHasher(key)} }

// Add adds the rows of a table.
func (s *DataSum) Add(t *Table) {
	for row := range t.rows {
		s.h.start("record")
		s.h.record(t, row)
		s.add(s.h.sum())
	}
}

func (s *DataSum) add(content digest) {
	s.h.start("data")
	s.h.buf = append(s.h.buf, content[:]...)
	more := s.h.sum()
	var words [8]uint64
	for i := range 4 {
		words[i] = binary.BigEndian.Uint64(content[8*i:])
		words[4+i] = binary.BigEndian.Uint64(more[8*i:])
	}
	s.plus(&words)
	s.rows++
}

func (s *DataSum) plus(words *[8]uint64) {
	carry := uint64(0)
	for i := len(words) - 1; i >= 0; i-- {
		s.words[i], carry = bits.Add64(s.words[i], words[i], carry)
	}
}

// Merge adds the rows of another sum under the same key.
func (s *DataSum) Merge(other *DataSum) {
	s.plus(&other.words)
	s.rows += other.rows
}

// ForDatabase is a derived key that a database may see and adds up its rows with; the node's own key stays secret.
func (k Key) ForDatabase() [32]byte {
	h := newHasher(k)
	h.start("rows in a database")
	return h.sum()
}

// CountedSum is the sum of rows that a database added up under [Key.ForDatabase]. Its rule differs, so the same rows
// have another sum when a node reads them.
func CountedSum(words [4]uint64, rows int) *DataSum {
	s := &DataSum{rows: rows}
	copy(s.words[:], words[:])
	return s
}

// Same reports whether two sums have the same rows.
func (s *DataSum) Same(other *DataSum) bool { return s.words == other.words && s.rows == other.rows }

// Rows is the number of added rows.
func (s *DataSum) Rows() int { return s.rows }

// shareKey is public on purpose: shares only simulate several sites with one file, and two sites must agree on them.
var shareKey = Key(sha256.Sum256([]byte("conclave shares of a file, public key 1")))

// ShareContents gives each row a digest of its values, for [SharePosition].
func ShareContents(t *Table) [][32]byte { return recordContents(shareKey, t) }

// recordContents gives each row a digest of its values, equal for equal rows.
func recordContents(key Key, t *Table) []digest {
	h, out := newHasher(key), make([]digest, t.rows)
	for row := range out {
		h.start("record")
		h.record(t, row)
		out[row] = h.sum()
	}
	return out
}

// SharePosition is the position that [SharePositions] gives a record with this many equal records before it.
func SharePosition(content [32]byte, before uint64) float64 {
	return sharePart.positions([]digest{newHasher(shareKey).occurrence(content, before)})[0]
}

// UnitDigests gives each row a digest of its unit's text under a key.
func UnitDigests(key Key, t *Table) [][32]byte { return textDigests(key, t) }

// RecordPositions gives each record its position in [0,1), as a table with the same cells would; see
// [SharePositions]. It uses a record's cells before it asks for the next ones.
func RecordPositions(records int, cells func(row int) []float64) []float64 {
	return sharePart.positions(digestRecords(shareKey, records, func(h *hasher, row int) {
		for _, cell := range cells(row) {
			h.number(cellBits(cell))
		}
	}))
}

// SharePositions gives each row the position of its unit in [0,1): a row is in the share [a, b) if its position is.
func SharePositions(t *Table) []float64 { return sharePart.positions(shareDigests(t)) }

// shareDigests gives each row a public digest of its unit.
func shareDigests(t *Table) []digest {
	unit := UnitRecord
	if t.schema.unit >= 0 && t.hasUnits() {
		unit = t.schema.Columns[t.schema.unit].Name
	}
	return unitDigests(shareKey, t, unit)
}

// digestPart is the place of eight bytes in a digest. Positions from different parts are independent.
type digestPart int

const (
	sharePart digestPart = 0 // shares of a file
	shardPart digestPart = 8 // shards, so that each shard has its part of any share, such as the rows held out
)

func (p digestPart) positions(digests []digest) []float64 {
	out := make([]float64, len(digests))
	for row, d := range digests {
		out[row] = float64(binary.BigEndian.Uint64(d[p:p+8])>>11) / (1 << 53)
	}
	return out
}

// hasUnits reports whether every row has a unit's text.
func (t *Table) hasUnits() bool {
	for row := range t.rows {
		if t.Unit(row) == "" {
			return false
		}
	}
	return true
}
