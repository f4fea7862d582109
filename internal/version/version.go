// Package version names the software, for --version and for certificates.
package version

// Software is the name and version of this program.
const Software = "conclave 0.1.0"
