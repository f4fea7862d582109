package runspec

import "github.com/conclave-dp/conclave/internal/pattern"

// LongestName is the largest length of a name, in bytes.
const LongestName = 128

// NameRule states the rule of IsName.
const NameRule = "a name has 1 to 128 letters, digits, dots, dashes or underscores and starts with a letter or digit"

var name = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// IsName tells whether a text can name a run, a node, a worker or a student. Such names become part of etcd's
// keys, of log lines and of names of files.
func IsName(text string) bool { return name.MatchString(text) }
