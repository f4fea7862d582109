package parquet

import (
	"encoding/binary"
	"errors"
	"io"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Magic is the start and the end of a Parquet file.
const Magic = "PAR1"

// magicEncrypted replaces it in a file with an encrypted footer.
const magicEncrypted = "PARE"

// signature is the length of the signature after a signed footer (Encryption.md of the format): a nonce of 12 bytes
// and a tag of 16.
const signature = 28

// maxFooter bounds the size of a footer: one with 200 groups of 1,000 columns has 20 MB.
const maxFooter = 32 << 20

// File is an open Parquet file. It is not safe for concurrent use.
type File struct {
	Columns []Column
	file    *pq.File
	r       io.ReaderAt
	end     int64 // end of the pages, where the footer starts
}

// Open reads the footer and checks that it is consistent with itself and the file's size. Errors are ErrDamaged,
// ErrUnsupported or those of the reader.
func Open(r io.ReaderAt, size int64) (*File, error) {
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{r: r, end: size - int64(len(footer)) - 2*int64(len(Magic))}
	switch n, err := structLength(footer); {
	case errors.Is(err, errShort):
		return nil, damaged("its footer ends too early")
	case err != nil:
		return nil, err
	case n+signature == len(footer):
		return nil, unsupported("it is signed, which those with encrypted columns are")
	case n != len(footer):
		return nil, damaged("its footer is not as long as it says")
	}
	return f, guarded(func() error {
		var meta format.FileMetaData
		if err := thrift.Unmarshal(&compact, footer, &meta); err != nil {
			return damaged("its footer: %v", err)
		}
		if err := checkDepth(meta.Schema); err != nil {
			return err
		}
		f.file, err = pq.OpenFile(r, size, &pq.FileConfig{SkipPageIndex: true, SkipBloomFilters: true,
			ReadBufferSize: 32 << 10})
		if err != nil {
			return decodeError(err)
		}
		if f.Columns, err = columns(f.file); err != nil {
			return err
		}
		return f.checkGroups()
	})
}

func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	const ends = int64(len(Magic))
	if size < 3*ends {
		return nil, damaged("it is too short")
	}
	var head [4]byte
	var tail [8]byte
	if err := readAt(r, head[:], 0); err != nil {
		return nil, err
	}
	if err := readAt(r, tail[:], size-int64(len(tail))); err != nil {
		return nil, err
	}
	switch {
	case string(head[:]) == magicEncrypted || string(tail[4:]) == magicEncrypted:
		return nil, unsupported("it is encrypted")
	case string(head[:]) != Magic: // not repeated: it may be a record of another kind of file
		return nil, damaged("it does not start with %s", Magic)
	case string(tail[4:]) != Magic:
		return nil, damaged("it does not end with %s", Magic)
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if length > size-3*ends {
		return nil, damaged("its footer is longer than the file")
	}
	if length > maxFooter {
		return nil, unsupported("a footer of more than %d MiB; write larger row groups", maxFooter>>20)
	}
	footer := make([]byte, length)
	return footer, readAt(r, footer, size-2*ends-length)
}

// checkDepth bounds nested groups, which the library follows to any depth.
func checkDepth(schema []format.SchemaElement) error {
	var left []int32 // remaining children of each open group
	for i := range schema {
		if n := schema[i].NumChildren.V; n > 0 {
			left = append(left, n)
		} else {
			for len(left) > 0 {
				if left[len(left)-1]--; left[len(left)-1] > 0 {
					break
				}
				left = left[:len(left)-1]
			}
		}
		if len(left) > maxDepth {
			return unsupported("columns of more than %d groups in each other", maxDepth)
		}
	}
	return nil
}

// Len is the number of rows.
func (f *File) Len() int64 { return f.file.Metadata().NumRows }

// checkGroups checks that the row groups match the schema and lie within the file.
func (f *File) checkGroups() error {
	meta := f.file.Metadata()
	left := meta.NumRows
	for i := range meta.RowGroups {
		g := &meta.RowGroups[i]
		if g.NumRows < 0 || g.NumRows > left {
			return damaged("row group %d has not the rows that the file says", i+1)
		}
		left -= g.NumRows
		for j := range f.Columns {
			c := &f.Columns[j]
			if c.leaf+c.leaves > len(g.Columns) {
				return damaged("row group %d has not a part for each column", i+1)
			}
			if c.Kind == Other || c.Kind == Null {
				continue // not read
			}
			if err := f.checkChunk(c, &g.Columns[c.leaf], g.NumRows); err != nil {
				return &PlaceError{i + 1, c.Name, err}
			}
			// The library uses the first group's codec for all.
			if codec := meta.RowGroups[0].Columns[c.leaf].MetaData.Codec; codec != g.Columns[c.leaf].MetaData.Codec {
				return &PlaceError{i + 1, c.Name, unsupported("another compression than in the first row group")}
			}
		}
	}
	if left != 0 {
		return damaged("its row groups have not the rows that the file says")
	}
	return nil
}

func (f *File) checkChunk(c *Column, chunk *format.ColumnChunk, rows int64) error {
	meta := &chunk.MetaData
	path, start := meta.PathInSchema, chunkStart(meta)
	switch {
	case chunk.CryptoMetadata.Value != nil || len(chunk.EncryptedColumnMetadata) > 0:
		return unsupported("it is encrypted")
	case chunk.FilePath != "":
		return unsupported("it lies in another file")
	case len(path) != 1 || path[0] != c.Name || pq.Kind(meta.Type) != c.stored:
		return damaged("it is another column than in the schema")
	case meta.NumValues != rows:
		return damaged("it has not a value for each row")
	case meta.TotalCompressedSize < 0 || start < int64(len(Magic)) || start > f.end ||
		meta.TotalCompressedSize > f.end-start:
		return damaged("it lies outside the file")
	}
	switch meta.Codec {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
		return nil
	}
	// The library's LZ4 retries a damaged page with ever more memory.
	return unsupported("its compression is not snappy, gzip or zstd")
}

// chunkStart is where the library starts to read the pages of a column in a row group.
func chunkStart(meta *format.ColumnMetaData) int64 {
	if meta.DictionaryPageOffset != 0 {
		return meta.DictionaryPageOffset
	}
	return meta.DataPageOffset
}

// readAt fills b or fails.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return damaged("it ends too early")
	default:
		return err
	}
}
