// Package provision makes the folder of a study: the authority, the files of the operator's roles, those of each
// student, and a start kit for each site. Keys of sites are made at the sites.
package provision

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/kit"
)

const (
	// kitLife is how long a site may take to join.
	kitLife = 30 * 24 * time.Hour
	// afterEnd is how long certificates outlast the study, so that its results can be fetched and verified.
	afterEnd = 30 * 24 * time.Hour
)

// Kit is a start kit that was made.
type Kit struct {
	Site string `json:"site"`
	Path string `json:"path"`
	// SHA256 is the hash of the zip file, in hex, which the site is told by telephone.
	SHA256 string `json:"sha256"`
}

// maker makes the folder of one study.
type maker struct {
	study        *study.Study
	text, schema []byte
	dir          string
	ca           []byte // the authority's certificate in PEM
	end          time.Time
}

// Authority is the folder of the authority in a study's folder.
func Authority(dir string) string { return filepath.Join(dir, "authority") }

// Life is how long certificates of a study are valid.
func Life(s *study.Study, now time.Time) (time.Duration, error) {
	end, err := s.End()
	if err != nil {
		return 0, err
	}
	if !now.Before(end) {
		return 0, fmt.Errorf("expires: the study ended on %s; write a later day", s.Expires)
	}
	return end.Add(afterEnd).Sub(now), nil
}

// Make makes the folder of the study in a file, or continues where it was stopped, and returns the kits. Existing
// files stay; a folder of another study, or of another command, is refused.
func Make(path, dir string) (*study.Study, []Kit, error) {
	s, text, err := study.Read(path)
	if err != nil {
		return nil, nil, err
	}
	if filepath.Base(s.Schema) != s.Schema {
		return nil, nil, fmt.Errorf("%s: schema: %q is in another folder; copy it next to the study, and write only "+
			"its name", path, s.Schema)
	}
	schema, err := os.ReadFile(filepath.Join(filepath.Dir(path), s.Schema))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: schema: %w", path, err)
	}
	if _, err := Life(s, time.Now()); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	m := &maker{study: s, text: text, schema: schema, dir: dir}
	m.end, _ = s.End() // Life has checked that there is one
	if err := m.begin(); err != nil {
		return nil, nil, err
	}
	for _, step := range []func() error{m.authority, m.operator, m.students} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	kits, err := m.kits()
	return s, kits, err
}

// begin creates the folder, with the study as its first file.
func (m *maker) begin() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the study's folder: %w", err)
	}
	held := filepath.Join(m.dir, "study.yaml")
	if _, err := os.Stat(held); len(entries) > 0 && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not empty and not the folder of a study; give another folder", m.dir)
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return fmt.Errorf("create the study's folder: %w", err)
	}
	err = m.place(".", "study.yaml", m.text)
	if errors.Is(err, kit.ErrDiffers) {
		return fmt.Errorf("%s belongs to another study, or to this one before a change: %w", m.dir, err)
	}
	if err != nil {
		return err
	}
	return m.place(".", m.study.Schema, m.schema)
}

// place writes a file in a subfolder, which it creates if needed.
func (m *maker) place(folder, name string, text []byte) error {
	folder = filepath.Join(m.dir, folder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("create a folder of the study: %w", err)
	}
	return kit.Place(filepath.Join(folder, name), text, 0o644)
}

func (m *maker) authority() error {
	dir := Authority(m.dir)
	cert, key := certs.AuthorityFiles(dir)
	missing := 0
	for _, path := range []string{cert, key} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			missing++
		}
	}
	switch missing {
	case 1:
		return fmt.Errorf("%s has an incomplete authority: the command was interrupted; remove %s and run it again",
			dir, m.dir)
	case 2:
		if err := authority.Create(dir); err != nil {
			return err
		}
	}
	var err error
	m.ca, err = pemfile.Read(cert)
	return err
}

// identity makes a key and its certificate in a folder, or finds both; life is the certificate's validity.
func (m *maker) identity(folder string, role certs.Role, name string, hosts []string, life time.Duration) error {
	files := certs.FilesAtSite(folder, role, name)
	if _, err := os.Stat(files.Cert); err == nil {
		_, err := pemfile.LoadPair(files.Cert, files.Key)
		return err
	}
	choice := request.FirstKey
	if _, err := os.Stat(files.Key); err == nil {
		choice = request.SameKey
	}
	q, err := request.New(folder, role, name, hosts, choice)
	if err != nil {
		return err
	}
	issued, err := authority.Approve(Authority(m.dir), q, life)
	if err != nil {
		return err
	}
	if _, err := request.Install(folder, role, name, issued.PEM, m.ca); err != nil {
		return err
	}
	return os.Remove(files.Request)
}

// role makes a folder with an identity, valid as long as the study's certificates, and the role's file.
func (m *maker) role(folder string, role certs.Role, name string, hosts []string, file string, text []byte) error {
	life := time.Until(m.end.Add(afterEnd))
	if err := m.identity(filepath.Join(m.dir, folder), role, name, hosts, life); err != nil {
		return err
	}
	return m.place(folder, file, text)
}

// kits makes a start kit for each site.
func (m *maker) kits() ([]Kit, error) {
	folder := filepath.Join(m.dir, "kits")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of kits: %w", err)
	}
	var all []Kit
	for _, site := range m.study.Sites {
		path := filepath.Join(folder, site+".zip")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if err := m.pack(site, folder, path); err != nil {
				return nil, err
			}
		}
		made, hash, err := kit.Read(path)
		if err != nil {
			return nil, err
		}
		if made.Site != site || string(made.StudyText) != string(m.text) || string(made.Authority) != string(m.ca) {
			return nil, fmt.Errorf("%s is the kit of another study or site; move it away", path)
		}
		all = append(all, Kit{Site: site, Path: path, SHA256: hash})
	}
	return all, nil
}

// pack packs a site's kit. Only the kit has the joiner's key.
func (m *maker) pack(site, folder, path string) error {
	dir, err := os.MkdirTemp(folder, ".kit-")
	if err != nil {
		return fmt.Errorf("pack the kit of %s: %w", site, err)
	}
	defer os.RemoveAll(dir)
	if err := m.identity(dir, certs.RoleJoiner, site, nil, min(kitLife, time.Until(m.end))); err != nil {
		return err
	}
	files := certs.IssuedFiles(dir, certs.RoleJoiner, site)
	k := &kit.Kit{Site: site, Study: m.study, StudyText: m.text, Schema: m.schema, Authority: m.ca}
	if k.Cert, err = pemfile.Read(files.Cert); err != nil {
		return err
	}
	if k.Key, err = pemfile.Read(files.Key); err != nil {
		return err
	}
	out, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o600))
	if err != nil {
		return fmt.Errorf("pack the kit of %s: %w", site, err)
	}
	defer out.Cleanup() //nolint:errcheck // what is left is a file of no use
	if err := k.Write(out); err != nil {
		return err
	}
	return out.CloseAtomicallyReplace()
}
