package parquet

import (
	"errors"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// compact is the protocol of footers and page headers.
var compact thrift.CompactProtocol

// maxDepth bounds nested structs; those of parquet.thrift are less than ten deep.
const maxDepth = 40

// errShort says that a message continues beyond its bytes.
var errShort = errors.New("the message ends too early")

// structLength walks the struct at the start of b and returns its length in bytes. The library's decoder allocates
// lists by their claimed length, and follows nested structs to any depth; after this walk both are known to fit in b.
func structLength(b []byte) (int, error) {
	w := walker{compact.NewReaderFromBytes(b), len(b)}
	err := w.walk(thrift.STRUCT, 0)
	switch {
	case err == nil:
		return w.r.BytesRead(), nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return 0, errShort
	case errors.Is(err, errShort), errors.Is(err, ErrDamaged):
		return 0, err
	}
	return 0, damaged("%v", err)
}

type walker struct {
	r    thrift.Reader
	size int
}

func (w walker) walk(t thrift.Type, depth int) (err error) {
	if depth > maxDepth {
		return damaged("a message of more than %d structs in each other", maxDepth)
	}
	switch t {
	case thrift.TRUE, thrift.FALSE: // as a field, its type is the value
	case thrift.I8:
		_, err = w.r.ReadInt8()
	case thrift.I16:
		_, err = w.r.ReadInt16()
	case thrift.I32:
		_, err = w.r.ReadInt32()
	case thrift.I64:
		_, err = w.r.ReadInt64()
	case thrift.DOUBLE:
		_, err = w.r.ReadFloat64()
	case thrift.BINARY:
		_, err = w.r.ReadBytes()
	case thrift.UUID: // 16 bytes
		if _, err = w.r.ReadFloat64(); err == nil {
			_, err = w.r.ReadFloat64()
		}
	case thrift.LIST, thrift.SET: // which are encoded alike
		var l thrift.List
		if l, err = w.r.ReadList(); err == nil {
			err = w.items(l.Size, depth, l.Type)
		}
	case thrift.MAP:
		var m thrift.Map
		if m, err = w.r.ReadMap(); err == nil {
			err = w.items(m.Size, depth, m.Key, m.Value)
		}
	case thrift.STRUCT:
		for err == nil {
			var f thrift.Field
			if f, err = w.r.ReadField(); err != nil || f.Type == thrift.STOP {
				break
			}
			err = w.walk(f.Type, depth+1)
		}
	default:
		return damaged("a message with a field of the unknown type %d", t)
	}
	return err
}

// items walks the items of a list or map. Each takes at least a byte.
func (w walker) items(n int32, depth int, types ...thrift.Type) error {
	if n < 0 || int(n) > w.size-w.r.BytesRead() {
		return errShort
	}
	for range n {
		for _, t := range types {
			var err error
			if t == thrift.TRUE || t == thrift.FALSE { // a byte each, unlike in fields
				_, err = w.r.ReadBool()
			} else {
				err = w.walk(t, depth+1)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
