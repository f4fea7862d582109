package reference

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

const module = "github.com/conclave-dp/conclave/"

// comments reads the doc comments of types and their fields from the module's source.
type comments struct {
	root     string                       // of the module
	packages map[string]map[string]string // by import path; of "Type" and "Type.Field"
}

// of returns the comment of a type, or of one of its fields if field is not empty.
func (c *comments) of(t reflect.Type, field string) (string, error) {
	docs, err := c.load(t.PkgPath())
	if err != nil {
		return "", err
	}
	name := t.Name()
	if field != "" {
		name += "." + field
	}
	if docs[name] == "" {
		return "", fmt.Errorf("%s.%s has no comment; say what it is, since the reference shows it", t.PkgPath(), name)
	}
	return docs[name], nil
}

func (c *comments) load(path string) (map[string]string, error) {
	if docs, ok := c.packages[path]; ok {
		return docs, nil
	}
	folder, ours := strings.CutPrefix(path, module)
	if !ours {
		return nil, fmt.Errorf("%s is not a package of this module; use types of the module in configurations", path)
	}
	files, err := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(folder), "*.go"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("no Go files of %s below %s", path, c.root))
	}
	docs := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		collect(file, docs)
	}
	c.packages[path] = docs
	return docs, nil
}

// collect adds the comments of a file's types and their fields.
func collect(file *ast.File, docs map[string]string) {
	for _, d := range file.Decls {
		declared, ok := d.(*ast.GenDecl)
		if !ok || declared.Tok != token.TYPE {
			continue
		}
		for _, s := range declared.Specs {
			spec := s.(*ast.TypeSpec)
			docs[spec.Name.Name] = declared.Doc.Text() + spec.Doc.Text()
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					docs[spec.Name.Name+"."+name.Name] = f.Doc.Text() + f.Comment.Text()
				}
			}
		}
	}
}

var (
	subject = regexp.MustCompile(`^\w+ (is|are) `)
	page    = regexp.MustCompile(`docs/([a-z-]+)\.md(#[a-z0-9-]+)?`)
)

// prose turns a comment into Markdown on one line, without the Go name that it begins with: "Steps is the number"
// becomes "The number", and "Noise sets" becomes "Sets". A page of docs becomes a link.
func prose(comment, goName string) string {
	text := strings.Join(strings.Fields(comment), " ")
	if found := subject.FindString(text); strings.HasPrefix(found, goName+" ") && len(found) < len(text) {
		text = strings.ToUpper(text[len(found):len(found)+1]) + text[len(found)+1:]
	} else if rest, ok := strings.CutPrefix(text, goName+" "); ok && rest != "" {
		text = strings.ToUpper(rest[:1]) + rest[1:]
	}
	return page.ReplaceAllStringFunc(text, func(found string) string {
		parts := page.FindStringSubmatch(found)
		label := or(strings.TrimPrefix(parts[2], "#"), parts[1])
		if file, ok := strings.CutPrefix(label, "config-"); ok {
			label = file + ".yaml"
		}
		label = strings.ReplaceAll(strings.ReplaceAll(label, "-yaml", ".yaml"), "-", " ")
		return fmt.Sprintf("[%s](%s.md%s)", label, parts[1], parts[2])
	})
}

var stated = regexp.MustCompile(`\s*(?:Default: ([^.]*(?:\.\w[^.]*)*)|(Required))\.$`)

// statedDefault cuts the last sentence from a text if it is "Required." or "Default: x.".
func statedDefault(text string) (rest, value string) {
	found := stated.FindStringSubmatch(text)
	if found == nil {
		return text, ""
	}
	return strings.TrimSuffix(text, found[0]), found[1] + strings.ToLower(found[2])
}
