package backup

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/coordinator"
)

// ErrDamaged matches the errors of a damaged file.
var ErrDamaged = errors.New("the backup is damaged or cut off; take another one")

// longest exceeds the line of the largest etcd value in base64.
const longest = 4 << 20

// place is the position of a record in a file.
type place struct {
	created, offset int64
	length          int
	queued          bool
}

// index reads a whole file, checks its digest, and returns its records' positions in the order in which their keys
// were created.
func index(r io.Reader) ([]place, Summary, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longest)
	digest := sha256.New()
	var places []place
	var sum Summary
	var last end
	var offset int64
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		bad := func(err error) ([]place, Summary, error) {
			return nil, Summary{}, fmt.Errorf("line %d: %w: %w", n, ErrDamaged, err)
		}
		var h header
		var v record
		switch {
		case last.SHA256 != "":
			return bad(errors.New("there is data after its end"))
		case n == 1:
			if err := strict(line, &h); err != nil {
				return bad(err)
			}
			if h.Format != format || h.Fence < 0 {
				return nil, Summary{}, fmt.Errorf("its format is %q; this program reads %q", h.Format, format)
			}
			sum.Fence = h.Fence
		case bytes.HasPrefix(line, []byte(`{"keys":`)):
			if err := strict(line, &last); err != nil {
				return bad(err)
			}
			sum.SHA256 = hex.EncodeToString(digest.Sum(nil))
			if last.Keys != sum.Keys || last.SHA256 != sum.SHA256 {
				return bad(errors.New("its digest does not match"))
			}
		default:
			if err := strict(line, &v); err != nil {
				return bad(err)
			}
			if v.Key == "" || v.Key == coordinator.LeaderKey || v.Key == coordinator.FenceBaseKey || v.Created < 1 ||
				v.Created > sum.Fence {
				return bad(fmt.Errorf("the key %q of revision %d does not belong in a backup", v.Key, v.Created))
			}
			places = append(places, place{v.Created, offset, len(line), strings.HasPrefix(v.Key, "queue/")})
			sum.Keys++
		}
		digest.Write(line)
		digest.Write([]byte{'\n'})
		offset += int64(len(line)) + 1
	}
	if err := lines.Err(); err != nil {
		return nil, Summary{}, err
	}
	if last.SHA256 == "" {
		return nil, Summary{}, ErrDamaged
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.created, b.created) })
	return places, sum, nil
}

func strict(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is data after the JSON value")
	}
	return nil
}
