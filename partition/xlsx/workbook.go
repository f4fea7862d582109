package xlsx

import (
	"archive/zip"
	"encoding/xml"
	"io"
	"path"
	"strings"
)

// Bounds of unpacked data, in bytes. A sheet with the maximum of 2^20 rows and 50 columns has some 2 GB.
const (
	maxPart    = 16 << 20  // for the lists of sheets and formats
	maxStrings = 256 << 20 // for the texts that sheets share
	maxSheet   = 4 << 30
)

// File is an open workbook. It is not safe for concurrent use.
type File struct {
	// Sheets names the sheets with cells in order, including hidden ones.
	Sheets []string

	parts   map[string]*zip.File // by lower-case name in the archive
	sheets  []string             // their parts
	strings []string
	styles  []look // of cells, by index
	from    epoch
}

// Open reads the lists of sheets, texts and formats. Errors are ErrDamaged, ErrUnsupported,
// ErrArchive or those of the reader.
func Open(r io.ReaderAt, size int64) (*File, error) {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, readError("the archive", err)
	}
	f := &File{parts: map[string]*zip.File{}}
	for _, part := range archive.File {
		name := strings.ToLower(strings.ReplaceAll(part.Name, `\`, "/"))
		if f.parts[name] != nil {
			return nil, damaged("a part appears twice")
		}
		f.parts[name] = part
	}
	switch {
	case f.parts["xl/workbook.bin"] != nil:
		return nil, unsupported("a binary workbook (.xlsb)")
	case f.parts["content.xml"] != nil && f.parts["mimetype"] != nil:
		return nil, unsupported("an OpenDocument file (.ods)")
	case f.parts["xl/workbook.xml"] == nil:
		return nil, ErrArchive
	}
	return f, f.read()
}

// relation is how a workbook refers to its other parts.
type relation struct {
	ID     string `xml:"Id,attr"`
	Type   string `xml:"Type,attr"`
	Target string `xml:"Target,attr"`
}

// read reads everything except the sheets.
func (f *File) read() error {
	var relations struct {
		All []relation `xml:"Relationship"`
	}
	if err := f.decode("xl/_rels/workbook.xml.rels", &relations); err != nil {
		return err
	}
	sheets := map[string]string{}
	for _, r := range relations.All {
		target := r.Target
		if !strings.HasPrefix(target, "/") {
			target = path.Join("xl", target)
		}
		target = strings.ToLower(strings.TrimPrefix(target, "/"))
		var err error
		switch path.Base(r.Type) {
		case "worksheet":
			sheets[r.ID] = target
		case "sharedStrings":
			err = f.readStrings(target)
		case "styles":
			err = f.readStyles(target)
		}
		if err != nil {
			return err
		}
	}
	var book struct {
		Properties struct {
			Date1904 string `xml:"date1904,attr"`
		} `xml:"workbookPr"`
		Sheets []struct {
			Name string `xml:"name,attr"`
			ID   string `xml:"id,attr"` // of its relation
		} `xml:"sheets>sheet"`
	}
	if err := f.decode("xl/workbook.xml", &book); err != nil {
		return err
	}
	f.from = epoch(book.Properties.Date1904 == "1" || book.Properties.Date1904 == "true")
	for _, s := range book.Sheets {
		if part := sheets[s.ID]; part != "" { // otherwise it is a chart or a macro
			f.Sheets, f.sheets = append(f.Sheets, s.Name), append(f.sheets, part)
		}
	}
	return nil
}

// decode reads a small part.
func (f *File) decode(part string, into any) error {
	r, err := f.open(part, maxPart)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.xml.Decode(into); err != nil {
		return readError(part, err)
	}
	return r.end()
}

// reader reads the XML of a part, up to a number of bytes. No name, text or comment may be longer than maxToken.
type reader struct {
	part  string
	file  io.ReadCloser
	left  int64
	token int64
	xml   *xml.Decoder
}

// maxToken bounds a text in bytes: a cell has at most 32,767 characters, some of them written as &#x10FFFF;.
const maxToken = 1 << 20

func (f *File) open(part string, most int64) (*reader, error) {
	file := f.parts[part]
	if file == nil {
		return nil, damaged("%s is missing", part)
	}
	if file.UncompressedSize64 > uint64(most) {
		return nil, unsupported("%s has more than %d MiB", part, most>>20)
	}
	plain, err := file.Open()
	if err != nil {
		return nil, readError(part, err)
	}
	r := &reader{part: part, file: plain, left: most, token: most}
	r.xml = xml.NewDecoder(r)
	return r, nil
}

// Read reads for the decoder.
func (r *reader) Read(b []byte) (int, error) {
	n, err := r.file.Read(b)
	r.left, r.token = r.left-int64(n), r.token-int64(n)
	if r.left < 0 || r.token < 0 {
		return 0, unsupported("%s has a text that is too long, or more bytes than it says", r.part)
	}
	return n, err
}

// next returns the next token of the part.
func (r *reader) next() (xml.Token, error) {
	r.token = maxToken
	token, err := r.xml.Token()
	if err == io.EOF {
		return nil, io.EOF
	}
	if err != nil {
		return nil, readError(r.part, err)
	}
	return token, nil
}

// end reads the rest, whose checksum shows whether everything before it is intact.
func (r *reader) end() error {
	for {
		if _, err := r.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *reader) close() { _ = r.file.Close() } // errors were found at the end
