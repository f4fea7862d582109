package masking

import (
	"crypto/sha256"
	"encoding/binary"
)

// version begins everything that is hashed or signed.
const version = "conclave masked sums 3"

// encoding is a list of fields, each with its length in front, so that different lists have different bytes.
type encoding []byte

// encode starts a list for one purpose.
func encode(purpose string) encoding { return encoding{}.text(version).text(purpose) }

func (e encoding) bytes(field []byte) encoding {
	return append(binary.BigEndian.AppendUint64(e, uint64(len(field))), field...)
}

func (e encoding) text(field string) encoding { return e.bytes([]byte(field)) }

func (e encoding) number(n uint64) encoding {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(e, 8), n)
}

func (e encoding) digest() [sha256.Size]byte { return sha256.Sum256(e) }
