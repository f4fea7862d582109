package parquet

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	pq "github.com/parquet-go/parquet-go"
)

// The forms of times are PostgreSQL's in UTC (its documentation, 8.5.2), so that the same moment has the same text
// from either source.
const (
	day       = "2006-01-02"
	timeOfDay = "15:04:05.999999999"
	moment    = day + " " + timeOfDay
	momentUTC = moment + "+00"
)

func truthText(v pq.Value) (string, error) {
	if v.Boolean() {
		return "1", nil
	}
	return "0", nil
}

func wholeText(k pq.Kind, signed bool) func(pq.Value) (string, error) {
	switch {
	case k == pq.Int32 && signed:
		return func(v pq.Value) (string, error) { return strconv.FormatInt(int64(v.Int32()), 10), nil }
	case k == pq.Int32:
		return func(v pq.Value) (string, error) { return strconv.FormatUint(uint64(v.Uint32()), 10), nil }
	case signed:
		return func(v pq.Value) (string, error) { return strconv.FormatInt(v.Int64(), 10), nil }
	default:
		return func(v pq.Value) (string, error) { return strconv.FormatUint(v.Uint64(), 10), nil }
	}
}

// wholeNumber returns the float64 that the digits would parse to: both round to nearest.
func wholeNumber(k pq.Kind, signed bool) func(pq.Value) float64 {
	switch {
	case k == pq.Int32 && signed:
		return func(v pq.Value) float64 { return float64(v.Int32()) }
	case k == pq.Int32:
		return func(v pq.Value) float64 { return float64(v.Uint32()) }
	case signed:
		return func(v pq.Value) float64 { return float64(v.Int64()) }
	default:
		return func(v pq.Value) float64 { return float64(v.Uint64()) }
	}
}

// floatText has the fewest digits that restore the 32 bits, as programs write them to CSV: 1.1 and not 1.10000002384.
func floatText(v pq.Value) (string, error) {
	return strconv.FormatFloat(float64(v.Float()), 'g', -1, 32), nil
}

func doubleText(v pq.Value) (string, error) {
	return strconv.FormatFloat(v.Double(), 'g', -1, 64), nil
}

// maxDecimal bounds a decimal number in bytes: far more digits than a database has.
const maxDecimal = 512

// decimalText writes a multiple of 10^-scale with all its decimal places.
func decimalText(k pq.Kind, scale int) func(pq.Value) (string, error) {
	return func(v pq.Value) (string, error) {
		switch k {
		case pq.Int32:
			return point(strconv.FormatInt(int64(v.Int32()), 10), scale), nil
		case pq.Int64:
			return point(strconv.FormatInt(v.Int64(), 10), scale), nil
		}
		b := v.ByteArray()
		if len(b) == 0 || len(b) > maxDecimal {
			return "", damaged("a decimal number of %d bytes", len(b))
		}
		n := new(big.Int).SetBytes(b)
		if b[0] >= 0x80 { // two's complement, big-endian
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return point(n.String(), scale), nil
	}
}

// point puts a decimal point before the last scale digits.
func point(digits string, scale int) string {
	if scale == 0 {
		return digits
	}
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	at := len(digits) - scale
	return sign + digits[:at] + "." + digits[at:]
}

func dateText(v pq.Value) (string, error) {
	return time.Unix(0, 0).UTC().AddDate(0, 0, int(v.Int32())).Format(day), nil
}

// clockText writes a count of units since midnight, or since the start of 1970.
func clockText(k pq.Kind, layout string, unit time.Duration) func(pq.Value) (string, error) {
	second := int64(time.Second / unit)
	return func(v pq.Value) (string, error) {
		n := v.Int64()
		if k == pq.Int32 {
			n = int64(v.Int32())
		}
		// In two parts, because nanoseconds since 1970 end in 2262.
		return time.Unix(n/second, n%second*int64(unit)).UTC().Format(layout), nil
	}
}

func uuidText(v pq.Value) (string, error) {
	b := v.ByteArray()
	if len(b) != 16 {
		return "", damaged("a UUID of %d bytes", len(b))
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}
