package parquet

import (
	"math"

	pq "github.com/parquet-go/parquet-go"
)

// packed holds the values of a page as the library unpacked them, for pages whose values need not be read one by
// one: signed integers and doubles that are requested as numbers, and indexes into a small dictionary.
type packed struct {
	rows, at int    // rows of the page, and those that were returned
	levels   []byte // 1 for each row with a value; nil if all have one
	values   int    // values that were returned
	longs    []int64
	ints     []int32
	doubles  []float64
	indexes  []int32
}

// mostDecoded bounds the entries of a dictionary whose texts and numbers are converted once for all rows.
const mostDecoded = 1 << 14

// entries holds the texts and numbers of a dictionary.
type entries struct {
	texts   []string
	numbers []float64
}

// pack takes the values of the current page. It leaves rows at 0 if they have to be read one by one.
func (u *cursor) pack() {
	u.packed = packed{levels: u.page.DefinitionLevels()}
	there := int(u.page.NumValues() - u.page.NumNulls())
	data, k := u.page.Data(), &u.packed
	have := -1
	switch dictionary := u.page.Dictionary(); {
	case dictionary != nil:
		if u.decode(dictionary); u.entries != nil {
			k.indexes = data.Int32()
			have = len(k.indexes)
		}
	case !u.numeric || u.column.unsigned:
	case u.column.stored == pq.Int64:
		k.longs = data.Int64()
		have = len(k.longs)
	case u.column.stored == pq.Int32:
		k.ints = data.Int32()
		have = len(k.ints)
	case u.column.stored == pq.Double:
		k.doubles = data.Double()
		have = len(k.doubles)
	}
	if have == there {
		k.rows = int(u.page.NumValues())
	}
}

// decode converts the entries of a dictionary, unless there are too many or one has no text.
func (u *cursor) decode(dictionary pq.Dictionary) {
	n := dictionary.Len()
	if u.entries != nil || n > mostDecoded {
		return
	}
	e := &entries{make([]string, n), make([]float64, n)}
	for i := range n {
		if err := u.convert(dictionary.Index(int32(i)), &e.texts[i], &e.numbers[i]); err != nil {
			return
		}
	}
	u.entries = e
}

// convert makes a value's number if the cursor returns numbers and it is finite, otherwise its text.
func (u *cursor) convert(v pq.Value, text *string, number *float64) (err error) {
	*text = ""
	switch {
	case v.IsNull():
		*number = math.NaN()
		return nil
	case u.numeric:
		if *number = u.column.number(v); math.Abs(*number) <= math.MaxFloat64 {
			return nil
		}
		*number = math.Inf(1)
	}
	*text, err = u.column.text(v)
	return err
}

// unpack returns the next rows of a packed page.
func (u *cursor) unpack() error {
	k := &u.packed
	n := min(batch, k.rows-k.at)
	for i := range n {
		u.which[i] = -1
		if k.levels != nil && k.levels[k.at+i] == 0 {
			u.texts[i], u.numbers[i] = "", math.NaN()
			continue
		}
		switch at := k.values; {
		case k.indexes != nil:
			entry := k.indexes[at]
			u.texts[i], u.numbers[i], u.which[i] = u.entries.texts[entry], u.entries.numbers[entry], entry
		case k.longs != nil:
			u.texts[i], u.numbers[i] = "", float64(k.longs[at])
		case k.ints != nil:
			u.texts[i], u.numbers[i] = "", float64(k.ints[at])
		case math.Abs(k.doubles[at]) <= math.MaxFloat64:
			u.texts[i], u.numbers[i] = "", k.doubles[at]
		default:
			if err := u.convert(pq.DoubleValue(k.doubles[at]), &u.texts[i], &u.numbers[i]); err != nil {
				return err
			}
		}
		k.values++
	}
	if k.at += n; k.at == k.rows {
		u.release()
	}
	u.given, u.left = 0, n
	return nil
}
